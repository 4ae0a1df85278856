"""A client at one end of a socket pair, the broker's `Connection` at the other, and a gate behind it."""

from __future__ import annotations

import asyncio
import socket
from struct import Struct

from ottla.config import ConnectionConfig
from ottla.protocol.apis import ApiKey
from ottla.protocol.frame import RequestHeader, write_request
from ottla.runtime.network import OsNetwork
from ottla.server.gate.dispatch import Gate
from ottla.server.gate.session import Session
from ottla.server.net.connection import Connection

LISTENER = "PLAINTEXT"
# Far more than a test sends at once, so that what was sent in one piece is read in one piece.
MAX_BYTES = 1 << 20

_SIZE_AND_CORRELATION_ID = Struct(">ii")


class ConnectedClient:
    """Sends bytes, and has what came back."""

    def __init__(self, gate: Gate, max_queued_bytes: int = MAX_BYTES) -> None:
        self.closed = 0
        self._socket, accepted = socket.socketpair()
        self._socket.setblocking(False)
        accepted.setblocking(False)
        self.session = Session(LISTENER, "127.0.0.1", 1)
        limits = ConnectionConfig(request_max_bytes=MAX_BYTES, response_bytes=max_queued_bytes)
        self.connection = Connection(accepted, self.session, gate, OsNetwork(), limits, self._on_closed)

    async def send(self, frames: bytes) -> None:
        """Send in one piece, and let the connection read it."""
        sent = self._socket.send(frames)
        assert sent == len(frames)
        await self.turns()

    async def send_what_is_taken(self, size: int) -> int:
        """Send zeros until the kernel takes no more, or `size` of them; how many were sent."""
        sent = 0
        while sent < size:
            try:
                sent += self._socket.send(bytes(size - sent))
            except BlockingIOError:
                break
            await self.turns()
        return sent

    async def turns(self) -> None:
        """Let the loop ask the kernel what came, handlers answer, and answers leave."""
        for _ in range(5):
            await asyncio.sleep(0)

    def received(self) -> bytes:
        """The bytes received since the last call."""
        received = b""
        try:
            while piece := self._socket.recv(MAX_BYTES):
                received += piece
        except BlockingIOError:
            pass
        return received

    def answered(self) -> list[int]:
        """The correlation ids of the answers that came back since the last call, in order."""
        return correlation_ids(self.received())

    def hang_up(self) -> None:
        """Close the client's end."""
        self._socket.close()

    def close(self) -> None:
        """Close both ends."""
        self.connection.close()
        self._socket.close()

    def _on_closed(self, connection: Connection) -> None:
        assert connection.is_closed
        self.closed += 1


def correlation_ids(answers: bytes) -> list[int]:
    """The correlation ids of whole answers."""
    position, found = 0, []
    while position < len(answers):
        size, correlation_id = _SIZE_AND_CORRELATION_ID.unpack_from(answers, position)
        position += 4 + size
        found.append(correlation_id)
    return found


def frame(
    key: ApiKey, version: int, request: object, correlation_id: int, client_id: str | None = "shop"
) -> bytes:
    """A whole request frame."""
    out = bytearray()
    write_request(RequestHeader(key, version, correlation_id, client_id), request, out)
    return bytes(out)
