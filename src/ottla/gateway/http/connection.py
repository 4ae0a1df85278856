"""One connection: h11 parses, deadlines guard, requests are answered one after the other.

Rules
- Every wait for the caller has a deadline: for the head of a request, for its body, for the connection to take the
  answer, for the next request. A caller that is too slow gets status 408 if it can still be answered, and loses the
  connection.
- At most `_READ_AHEAD_BYTES` are read that no handler has asked for: a caller that sends without listening is held
  back by TCP.
- A caller that goes away cancels its handler. An answer that was not sent counts as not sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final, Protocol

import h11

from ottla.config.gateway import GatewayConfig
from ottla.gateway.http.access_log import log_request
from ottla.gateway.http.dispatch import Dispatch, Head, Prepared
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.http.machine.message import Answer, Request
from ottla.gateway.http.web_socket import WebSocket
from ottla.runtime.clock import precise_ms

logger = logging.getLogger(__name__)

_READ_AHEAD_BYTES: Final = 256 << 10
# Confluent's paths are short; cookies of other applications on the same host may be long.
_HEAD_BYTES: Final = 32 << 10
# A refused body is read on for a moment, so that the caller sees the refusal and not a broken connection.
_LINGER_S: Final = 2.0
_LINGER_BYTES: Final = 4 << 20


class Connections(Protocol):
    """The server that a connection belongs to."""

    is_stopping: bool

    def joined(self, connection: HttpConnection) -> bool: ...
    def works(self, task: asyncio.Task[None]) -> None: ...
    def left(self, connection: HttpConnection) -> None: ...


class HttpConnection(asyncio.Protocol):
    """A caller's connection, from its first byte to its end."""

    def __init__(
        self, server: Connections, dispatch: Dispatch, settings: GatewayConfig, *, is_tls: bool
    ) -> None:
        self._server = server
        self._dispatch = dispatch
        self._settings = settings
        self._scheme = "https" if is_tls else "http"
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES)
        self._socket: WebSocket | None = None
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._peer = "-"
        self._certificate: bytes | None = None
        self._arrived: asyncio.Future[None] | None = None
        self._unread_bytes = 0
        self._is_at_end = False
        self._writable = asyncio.Event()
        self._writable.set()
        self.is_busy = False

    # ---- what asyncio tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self._peer = str(peer[0]) if isinstance(peer, tuple) else "local"
        tls = transport.get_extra_info("ssl_object")
        self._certificate = None if tls is None else tls.getpeercert(binary_form=True)
        has_place = self._server.joined(self)
        self._task = asyncio.get_running_loop().create_task(self._serve() if has_place else self._turn_away())
        self._server.works(self._task)

    def data_received(self, data: bytes) -> None:
        if self._socket is not None:
            self._socket.feed(data)
            return
        self._unread_bytes += len(data)
        if self._unread_bytes > _READ_AHEAD_BYTES and self._transport is not None:
            self._transport.pause_reading()
        with contextlib.suppress(h11.RemoteProtocolError):  # said again by next_event
            self._h11.receive_data(data)
        self._wake()

    def eof_received(self) -> bool:
        self._is_at_end = True
        if self._socket is not None:
            self._socket.ended()
            return False
        with contextlib.suppress(h11.RemoteProtocolError):
            self._h11.receive_data(b"")
        self._wake()
        # A caller may close its side and wait for the answer; TLS cannot.
        return self._scheme == "http"

    def connection_lost(self, error: Exception | None) -> None:
        self._is_at_end = True
        self._transport = None
        self._writable.set()
        if self._socket is not None:
            self._socket.ended()
        elif self._task is not None:
            self._task.cancel()
        self._server.left(self)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # ---- what the server asks

    @property
    def socket(self) -> WebSocket | None:
        """The WebSocket that this connection has become."""
        return self._socket

    def close_if_idle(self) -> None:
        """The server stops: a connection between two requests has nothing to wait for."""
        if not self.is_busy and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # ---- requests

    async def _serve(self) -> None:
        try:
            while await self._exchange():
                pass
        except (ConnectionError, h11.LocalProtocolError) as error:
            logger.debug("connection of %s: %s", self._peer, error)
        finally:
            await self._close()

    async def _turn_away(self) -> None:
        why = (
            "it stops"
            if self._server.is_stopping
            else "it has as many as it may: ottla.gateway.max.connections"
        )
        problem = HttpError(503, f"this gateway takes no further connections: {why}")
        with contextlib.suppress(ConnectionError, h11.LocalProtocolError):
            await self._refuse_unread(problem)
        await self._close()

    async def _exchange(self) -> bool:
        """One request and its answer. Returns whether another may follow."""
        try:
            request_event = await self._head()
        except HttpError as problem:
            await self._refuse_unread(problem)
            return False
        if request_event is None:
            return False
        self.is_busy = True
        started_ms = precise_ms()
        prepared = self._dispatch.prepare(self._head_of(request_event))
        if prepared.route is not None and prepared.route.is_socket:
            return await self._become_socket(prepared, request_event)
        answer, request = await self._answered(prepared)
        sent_bytes = await self._send(request, answer)
        log_request(request, answer.status, sent_bytes, precise_ms() - started_ms)
        self.is_busy = False
        return self._next_cycle()

    async def _head(self) -> h11.Request | None:
        """The next request's head; None at the end of the connection. Raises HttpError(408 or 400)."""
        settings = self._settings
        if not self._h11.trailing_data[0] and not await self._more(settings.idle_timeout_ms):
            return None
        deadline_ms = precise_ms() + settings.head_timeout_ms
        try:
            while True:
                event = self._h11.next_event()
                if isinstance(event, h11.Request):
                    return _of_bounded_size(event)
                if event is not h11.NEED_DATA:
                    return None
                if not await self._more(deadline_ms - precise_ms()):
                    raise HttpError(
                        408, f"the head of the request did not come within {settings.head_timeout_ms} ms"
                    )
        except h11.RemoteProtocolError as error:
            status = error.error_status_hint if error.error_status_hint in (400, 431, 501) else 400
            raise HttpError(status, f"the request is not HTTP/1.1: {error}") from error

    def _head_of(self, event: h11.Request) -> Head:
        headers: dict[str, str] = {}
        for name, value in event.headers:
            key, text = name.decode("ascii"), value.decode("latin-1")
            headers[key] = f"{headers[key]}, {text}" if key in headers else text
        method, target = event.method.decode("ascii"), event.target.decode("ascii")
        return Head(method, target, headers, self._peer, self._scheme, self._certificate)

    async def _answered(self, prepared: Prepared) -> tuple[Answer, Request]:
        """The answer to a request whose head was read."""
        route, request = prepared.route, prepared.request
        try:
            if route is not None and route.body == "stream":
                request = replace(request, chunks=self._chunks())
            elif route is not None:
                request = replace(request, body=await self._body())
        except HttpError as problem:
            return self._dispatch.refusal(request, problem), request
        return await self._dispatch.answer(replace(prepared, request=request)), request

    async def _body(self) -> bytes:
        """The whole body. Raises HttpError(400, 408 or 413)."""
        deadline_ms = precise_ms() + self._settings.body_timeout_ms
        pieces: list[bytes] = []
        while piece := await self._piece(deadline_ms):
            pieces.append(piece)
            self._check_size(sum(map(len, pieces)))
        return b"".join(pieces)

    async def _chunks(self) -> AsyncIterator[bytes]:
        """The body while it arrives; the caller may be silent for `body_timeout_ms`."""
        while piece := await self._piece(precise_ms() + self._settings.body_timeout_ms):
            yield piece

    async def _piece(self, deadline_ms: float) -> bytes:
        """The next piece of the body; empty at its end."""
        if self._h11.they_are_waiting_for_100_continue:
            await self._write(self._h11.send(h11.InformationalResponse(status_code=100, headers=[])))
        while True:
            try:
                event = self._h11.next_event()
            except h11.RemoteProtocolError as error:
                raise HttpError(400, f"the body cannot be read: {error}") from error
            if isinstance(event, h11.Data):
                if event.data:
                    return bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return b""
            elif event is not h11.NEED_DATA:
                raise ConnectionResetError("the caller ended the connection within a body")
            elif not await self._more(deadline_ms - precise_ms()):
                raise HttpError(408, f"the body did not come within {self._settings.body_timeout_ms} ms")

    def _check_size(self, size_bytes: int) -> None:
        limit = self._settings.max_body_bytes
        if size_bytes > limit:
            raise HttpError(413, f"the body is larger than {limit} bytes (ottla.gateway.max.body.bytes)")

    async def _more(self, wait_ms: float) -> bool:
        """Wait for more bytes, or for the end of the connection. Returns whether there is something to parse."""
        if self._is_at_end:
            return True
        self._unread_bytes = 0
        if self._transport is not None:
            self._transport.resume_reading()
        loop = asyncio.get_running_loop()
        self._arrived = arrived = loop.create_future()
        timer = loop.call_later(max(wait_ms, 0) / 1000, self._too_late, arrived)
        try:
            await arrived
        except TimeoutError:
            return False
        finally:
            timer.cancel()
            self._arrived = None
        return True

    @staticmethod
    def _too_late(arrived: asyncio.Future[None]) -> None:
        if not arrived.done():
            arrived.set_exception(TimeoutError())

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    # ---- answers

    async def _send(self, request: Request, answer: Answer) -> int:
        """Send an answer; returns the bytes of its body."""
        head = self._h11.send(self._response(answer)) or b""
        if isinstance(answer.body, bytes):
            # In one piece: most answers are small, and each write is a system call.
            body = (self._h11.send(h11.Data(data=answer.body)) if answer.body else None) or b""
            await self._write(head + body + (self._h11.send(h11.EndOfMessage()) or b""))
            return len(answer.body)
        sent_bytes = 0
        async with contextlib.aclosing(answer.body) as pieces:  # type: ignore[type-var]
            await self._write(head)
            async for piece in pieces:
                sent_bytes += len(piece)
                await self._write(self._h11.send(h11.Data(data=piece)))
        await self._write(self._h11.send(h11.EndOfMessage()))
        return sent_bytes

    def _response(self, answer: Answer) -> h11.Response:
        headers = [
            (name.encode(), value.encode("latin-1", "replace")) for name, value in answer.headers.items()
        ]
        if isinstance(answer.body, bytes):
            if answer.status not in (204, 304):
                headers.append((b"Content-Length", str(len(answer.body)).encode("ascii")))
        else:
            headers.append((b"Transfer-Encoding", b"chunked"))
        if answer.body:
            headers.append((b"Content-Type", answer.media_type.encode("ascii")))
        if self._server.is_stopping or self._h11.their_state is h11.SEND_BODY:
            if answer.body and not isinstance(answer.body, bytes) and not self._server.is_stopping:
                pass  # a stream that answers while it is read goes on
            else:
                headers.append((b"Connection", b"close"))
        headers.append((b"X-Content-Type-Options", b"nosniff"))
        return h11.Response(status_code=answer.status, headers=headers)

    async def _refuse_unread(self, problem: HttpError) -> None:
        """Answer what could not be read as a request."""
        if self._h11.our_state not in (h11.IDLE, h11.SEND_RESPONSE) or self._is_at_end:
            return
        request = Request("-", "-", {}, peer=self._peer)
        answer = self._dispatch.refusal(request, problem)
        await self._send(request, replace(answer, headers={**answer.headers, "Connection": "close"}))
        log_request(request, problem.status, 0, 0.0)

    async def _write(self, data: bytes | None) -> None:
        if self._transport is None:
            raise ConnectionResetError("the caller is gone")
        if data:
            self._transport.write(data)
        if not self._writable.is_set():
            try:
                async with asyncio.timeout(self._settings.send_timeout_ms / 1000):
                    await self._writable.wait()
            except TimeoutError:
                self.abort()
                raise ConnectionResetError("the caller does not take its answer") from None
            if self._transport is None:
                raise ConnectionResetError("the caller is gone")

    def _next_cycle(self) -> bool:
        if self._server.is_stopping or self._h11.our_state is not h11.DONE:
            return False
        if self._h11.their_state is h11.SEND_BODY:
            # The body of a request that has none for us: it may be here already.
            with contextlib.suppress(h11.RemoteProtocolError):
                while isinstance(self._h11.next_event(), h11.Data):
                    pass
        if self._h11.their_state is not h11.DONE:
            return False
        self._h11.start_next_cycle()
        return True

    async def _close(self) -> None:
        """Close, and let a caller that still sends see the answer before the connection breaks."""
        transport = self._transport
        if transport is None:
            return
        self._socket = None
        if not self._is_at_end and transport.can_write_eof():
            with contextlib.suppress(OSError, asyncio.CancelledError):
                transport.write_eof()
                await self._linger()
        transport.close()

    async def _linger(self) -> None:
        deadline_ms = precise_ms() + _LINGER_S * 1000
        discarded_bytes = 0
        while not self._is_at_end and discarded_bytes < _LINGER_BYTES:
            self._h11 = h11.Connection(h11.SERVER)  # what comes now is thrown away
            if not await self._more(deadline_ms - precise_ms()):
                return
            discarded_bytes += self._unread_bytes

    # ---- WebSockets

    async def _become_socket(self, prepared: Prepared, event: h11.Request) -> bool:
        """Upgrade, and let the route's handler speak until one side closes."""
        assert prepared.route is not None
        assert self._transport is not None
        request = prepared.request
        socket = WebSocket(self._write, self._transport)
        try:
            reply = socket.accept(event, request.id)
        except HttpError as problem:
            answer = self._dispatch.refusal(request, problem)
            await self._send(request, answer)
            log_request(request, answer.status, 0, 0.0)
            return False
        trailing = self._h11.trailing_data[0]
        self._socket = socket
        self._transport.resume_reading()
        await self._write(reply)
        log_request(request, 101, 0, 0.0)
        if trailing:
            socket.feed(trailing)
        if self._is_at_end:
            socket.ended()
        try:
            await prepared.route.handler(request, socket)
        except ConnectionError:
            pass
        except Exception as error:
            failure = self._dispatch.problem_of(error, request)
            with contextlib.suppress(ConnectionError):
                await socket.close(1011, failure.message)
        return False


def _of_bounded_size(event: h11.Request) -> h11.Request:
    """h11 limits a head that comes in pieces; one that came at once is limited here. Raises HttpError(431)."""
    size_bytes = len(event.target) + sum(len(name) + len(value) + 4 for name, value in event.headers)
    if size_bytes > _HEAD_BYTES:
        raise HttpError(431, f"the head of the request is larger than {_HEAD_BYTES} bytes")
    return event
