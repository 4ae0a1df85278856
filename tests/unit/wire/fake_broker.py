"""A broker that says what a test tells it to: one function per kind of request, everything else
unanswered.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from ottla.protocol.apis import APIS, DECLARED_APIS
from ottla.protocol.codec import codec
from ottla.protocol.frame import RequestHeader, read_request_header, response_frame
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

# Instead of a response: say nothing, close the connection, or send these bytes as they are.
SILENCE = object()
HANG_UP = object()

Answer = Callable[[Any, RequestHeader], Any]


def all_versions(request: Any = None, header: RequestHeader | None = None) -> ApiVersionsResponse:
    """The versions that a broker of our own version offers."""
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=a.key, min_version=a.min_version, max_version=a.max_version)
            for a in APIS.values()
        ]
    )


class FakeBroker:
    """Listens on a free port while it is open; remembers what it was asked."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host = host
        self.port = 0
        self.asked: list[tuple[RequestHeader, Any]] = []
        self.connections = 0
        self._answers: dict[type[Any], Answer] = {ApiVersionsRequest: all_versions}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    def on(self, request_type: type[Any], answer: Any) -> FakeBroker:
        """Answer requests of this type with a value, or with what a function of (request, header) answers or
        awaits.
        """
        self._answers[request_type] = answer if callable(answer) else lambda *_: answer
        return self

    def answer_to(self, request_type: type[Any]) -> Answer:
        """How requests of this type are answered now."""
        return self._answers[request_type]

    @property
    def tasks(self) -> set[asyncio.Task[None]]:
        """The broker's own tasks, for tests that look for leftover tasks."""
        return set(self._tasks)

    def asked_for(self, request_type: type[Any]) -> list[Any]:
        return [request for _, request in self.asked if isinstance(request, request_type)]

    async def __aenter__(self) -> FakeBroker:
        self._server = await asyncio.start_server(self._accept, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while await self._serve_one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        size = int.from_bytes(await reader.readexactly(4), "big")
        view = memoryview(await reader.readexactly(size))
        header, position = read_request_header(view)
        request = _decoded(header, view, position)
        self.asked.append((header, request))
        tell = self._answers.get(type(request))
        answer = SILENCE if tell is None else tell(request, header)
        if inspect.isawaitable(answer):
            answer = await answer
        if answer is HANG_UP:
            return False
        if isinstance(answer, bytes):
            writer.write(answer)
        elif answer is not SILENCE:
            writer.write(response_frame(header.correlation_id, header.api_key, header.api_version, answer))
        await writer.drain()
        return True


def _decoded(header: RequestHeader, view: memoryview, position: int) -> Any:
    api = DECLARED_APIS[header.api_key]
    return codec(api.request, header.api_version).read(view, position)[0]
