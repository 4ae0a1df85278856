"""A WebSocket client for tests, on wsproto and a blocking socket."""

from __future__ import annotations

import json
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.integration.gateway_place import DEADLINE_S
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    CloseConnection,
    Ping,
    Pong,
    RejectConnection,
    Request,
    TextMessage,
)


class Caller:
    """Says and hears JSON messages. `closed` is the code and the reason of the gateway's close."""

    def __init__(self, port: int, path: str = "/ws", headers: dict[str, str] | None = None) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
        self.ws = WSConnection(ConnectionType.CLIENT)
        self._heard: deque[dict[str, Any]] = deque()
        self._text = ""
        self.closed: tuple[int, str | None] | None = None
        self.status = 0
        self.answers_pings = True
        extra = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        self.sock.sendall(self.ws.send(Request(host=f"127.0.0.1:{port}", target=path, extra_headers=extra)))
        while not self.status:
            self._receive()

    def say(self, **message: Any) -> None:
        self.say_text(json.dumps(message))

    def say_text(self, text: str) -> None:
        self.sock.sendall(self.ws.send(TextMessage(data=text)))

    def hear(self, *kinds: str) -> dict[str, Any]:
        """The next message, of one of these types if any are named; others are passed over."""
        while True:
            while self._heard:
                message = self._heard.popleft()
                if not kinds or message["type"] in kinds:
                    return message
            assert self.closed is None, self.closed
            self._receive()

    def ask(self, **message: Any) -> dict[str, Any]:
        """Say a message, and hear its answer."""
        self.say(id="asked", **message)
        while True:
            answer = self.hear()
            if answer.get("id") == "asked":
                return answer

    def messages(self, count: int) -> list[dict[str, Any]]:
        return [self.hear("message") for _ in range(count)]

    def hear_close(self) -> tuple[int, str | None]:
        while self.closed is None:
            self._receive()
        return self.closed

    def _receive(self) -> None:
        data = self.sock.recv(65536)
        self.ws.receive_data(data or None)
        for event in self.ws.events():
            if isinstance(event, AcceptConnection):
                self.status = 101
            elif isinstance(event, RejectConnection):
                self.status = event.status_code
            elif isinstance(event, TextMessage):
                self._text += event.data
                if event.message_finished:
                    self._heard.append(json.loads(self._text))
                    self._text = ""
            elif isinstance(event, Ping) and self.answers_pings:
                self.sock.sendall(self.ws.send(Pong(payload=event.payload)))
            elif isinstance(event, CloseConnection):
                self.closed = self.closed or (int(event.code), event.reason)


@contextmanager
def calling(port: int, path: str = "/ws", headers: dict[str, str] | None = None) -> Iterator[Caller]:
    caller = Caller(port, path, headers)
    try:
        yield caller
    finally:
        caller.sock.close()
