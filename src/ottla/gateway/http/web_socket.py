"""One WebSocket after the upgrade: wsproto parses, messages of a bounded size in and out.

No extension is negotiated: without compression there is no bomb, and a message of a megabyte is one of a megabyte.
A message may come in fragments; their number and their sum have limits. Pings of the other side are answered, and
its silence is noticed by pings of ours.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import h11
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Pong,
    TextMessage,
)
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from ottla.gateway.http.machine.http_error import HttpError

MESSAGE_BYTES: Final = 1 << 20
# Browsers send a message in one frame, and the network delivers it in pieces of a kilobyte at least.
_MOST_PIECES: Final = 4_096
# Messages that were received and not taken: beyond that the connection is read no more.
_MOST_WAITING: Final = 64
# The reason of a close has to fit into a control frame.
_REASON_BYTES: Final = 120

GOING_AWAY: Final = 1001
TOO_BIG: Final = 1009
WRONG_DATA: Final = 1003


class WebSocket:
    """Messages of one caller. `receive` waits for the next one; `send` waits while the caller takes nothing."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]], transport: asyncio.Transport) -> None:
        self._write = write
        self._transport = transport
        self._ws = WSConnection(ConnectionType.SERVER)
        self._messages: deque[str] = deque()
        self._partial: list[str] = []
        self._partial_bytes = 0
        self._changed = asyncio.Event()
        self._is_over = False
        self._replies: list[bytes] = []
        self._violation: tuple[int, str] | None = None
        self.pongs = 0

    def accept(self, request: h11.Request, request_id: str) -> bytes:
        """The bytes that accept the upgrade. Raises HttpError(400 or 426)."""
        headers = [(name, value) for name, value in request.headers if name != b"sec-websocket-extensions"]
        try:
            self._ws.initiate_upgrade_connection(headers, request.target)
        except (RemoteProtocolError, h11.ProtocolError, UnicodeError) as error:
            raise HttpError(
                426,
                f"this address is a WebSocket: the upgrade is not right: {error}",
                headers={"Upgrade": "websocket", "Sec-WebSocket-Version": "13"},
            ) from error
        return self._ws.send(AcceptConnection(extra_headers=[(b"X-Request-Id", request_id.encode("ascii"))]))

    # ---- what the connection tells

    def feed(self, data: bytes) -> None:
        """Bytes came."""
        if self._is_over or self._violation is not None:
            return
        self._ws.receive_data(data)
        for event in self._ws.events():
            self._heard(event)
        if len(self._messages) > _MOST_WAITING:
            self._transport.pause_reading()
        self._changed.set()

    def ended(self) -> None:
        """The connection is gone."""
        self._is_over = True
        self._changed.set()

    # ---- what the handler does

    @property
    def is_over(self) -> bool:
        """Whether no message can come or go any more."""
        return self._is_over

    async def receive(self) -> str | None:
        """The next message; None at the end."""
        while True:
            await self._answer_control()
            if self._messages:
                if len(self._messages) == _MOST_WAITING and not self._transport.is_closing():
                    self._transport.resume_reading()
                return self._messages.popleft()
            if self._violation is not None:
                code, reason = self._violation
                await self.close(code, reason)
            if self._is_over:
                return None
            self._changed.clear()
            await self._changed.wait()

    async def send(self, text: str) -> None:
        """Send a message; waits while the caller does not take what was sent. Raises ConnectionError."""
        await self._send(TextMessage(data=text))

    async def ping(self) -> None:
        await self._send(Ping())

    async def close(self, code: int, reason: str = "") -> None:
        """Say why, and end."""
        if self._is_over:
            return
        self._is_over = True
        self._changed.set()
        if self._ws.state is ConnectionState.OPEN:
            short = reason.encode("utf-8")[:_REASON_BYTES].decode("utf-8", "ignore")
            await self._write(self._ws.send(CloseConnection(code=code, reason=short)))

    async def _send(self, event: Event) -> None:
        if self._is_over:
            raise ConnectionResetError("the WebSocket is closed")
        try:
            data = self._ws.send(event)
        except LocalProtocolError as error:
            raise ConnectionResetError("the WebSocket is closed") from error
        await self._write(data)

    async def _answer_control(self) -> None:
        while self._replies:
            await self._write(self._replies.pop(0))

    def _heard(self, event: Event) -> None:
        if isinstance(event, TextMessage):
            self._collect(event)
        elif isinstance(event, BytesMessage):
            self._violation = (WRONG_DATA, "messages must be text: JSON; bytes go into it as base64")
        elif isinstance(event, Ping):
            if len(self._replies) < _MOST_WAITING:
                self._replies.append(self._ws.send(event.response()))
        elif isinstance(event, Pong):
            self.pongs += 1
        elif isinstance(event, CloseConnection):
            if self._ws.state in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
                self._replies.append(self._ws.send(event.response()))
            self._is_over = True

    def _collect(self, event: TextMessage) -> None:
        """A fragment of a message; several of them make one."""
        self._partial.append(event.data)
        self._partial_bytes += len(event.data.encode("utf-8"))
        if self._partial_bytes > MESSAGE_BYTES or len(self._partial) > _MOST_PIECES:
            self._violation = (TOO_BIG, f"a message may have {MESSAGE_BYTES} bytes, in {_MOST_PIECES} pieces")
            self._partial.clear()
        elif event.message_finished:
            self._messages.append("".join(self._partial))
            self._partial.clear()
            self._partial_bytes = 0
