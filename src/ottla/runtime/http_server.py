"""A small HTTP server on threads of its own, for a person's browser, a scraper or a health check: never for data.

The standard library parses requests (`http.server`). The limits are ours, because anybody who reaches the port may
send anything:

- a few connections at a time, each with a thread; one more is answered with 503 at once
- no more than `_ACCEPTS_PER_S` connections a second are looked at: threads and event loop share one interpreter,
  and a flood of requests must not take the loop's time
- one request for each connection: only GET and HEAD, without a body, at most `_REQUEST_BYTES` of line and headers,
  all of it within `_REQUEST_S`
- an answer must be taken within `_ANSWER_S`
"""

import io
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from ottla.runtime.network import ListeningSocket, Network

logger = logging.getLogger(__name__)

# Scrapers of one broker are few; a thread that waits costs nothing but its stack.
_CONNECTIONS: Final = 8
_ACCEPTS_PER_S: Final = 200
_BACKLOG: Final = 64
_REQUEST_BYTES: Final = 16 * 1024
_REQUEST_S: Final = 5.0
_QUERY_FIELDS: Final = 16
_ANSWER_S: Final = 10.0
# How long the accepting thread sleeps while nobody comes, before it looks whether it should end.
_LOOK_S: Final = 0.2
_BUSY: Final = (
    b"HTTP/1.0 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
    b"Retry-After: 1\r\n\r\nAll connections of this port are in use.\n"
)


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request that came in whole."""

    path: str
    query: Mapping[str, str]
    accept: str
    peer: str

    @property
    def is_local(self) -> bool:
        """Whether it came from this machine, by the loopback interface."""
        with suppress(ValueError):
            address = ip_address(self.peer.partition("%")[0])
            mapped = getattr(address, "ipv4_mapped", None)
            return (mapped or address).is_loopback
        return False


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What is sent back. The body comes in pieces that are ready to be sent."""

    status: int
    content_type: str
    body: Iterable[bytes] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


Answer = Callable[[HttpRequest], HttpAnswer]
"""Called in a connection's thread; may wait."""


class HttpServer:
    """Accepts at one address, with the limits above. `answer` answers every request that is understood."""

    def __init__(self, network: Network, host: str, port: int, answer: Answer) -> None:
        self._answer = answer
        self._sockets = _bound(network, host, port)
        self.host = host
        self.port: int = self._sockets[0].getsockname()[1]
        self._slots = threading.Semaphore(_CONNECTIONS)
        self._is_stopping = threading.Event()
        self._open: set[Any] = set()
        self._threads = [
            threading.Thread(target=self._accept, args=(each,), name="ottla-http", daemon=True)
            for each in self._sockets
        ]
        # Connections that were answered with 503 since the start.
        self.refused = 0

    def start(self) -> None:
        """Accept from now on."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Close the port and all connections; returns when no thread accepts any more."""
        self._is_stopping.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        for listening in self._sockets:
            listening.close()
        for connection in tuple(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self, listening: Any) -> None:
        listening.settimeout(_LOOK_S)
        while not self._is_stopping.is_set():
            try:
                connection, address = listening.accept()
            except TimeoutError:
                continue
            except OSError as problem:
                # Descriptors may have run out: the broker's own listeners say so in the log.
                logger.debug("accepting an HTTP connection failed: %s", problem)
                self._is_stopping.wait(_LOOK_S)
                continue
            self._welcome(connection, str(address[0]))
            self._is_stopping.wait(1 / _ACCEPTS_PER_S)

    def _welcome(self, connection: Any, peer: str) -> None:
        if self._slots.acquire(blocking=False):
            self._open.add(connection)
            thread = threading.Thread(
                target=self._serve, args=(connection, peer), name="ottla-http", daemon=True
            )
            thread.start()
            return
        self.refused += 1
        with suppress(OSError):
            connection.setblocking(False)
            connection.send(_BUSY)
            connection.shutdown(socket.SHUT_WR)
        connection.close()

    def _serve(self, connection: Any, peer: str) -> None:
        try:
            _Handler(connection, peer, self._answer)
        except OSError as problem:
            # Too slow, or gone: everyday life at an open port.
            logger.debug("an HTTP connection from %s ended: %s", peer, problem)
        except Exception:
            logger.exception("an HTTP request from %s failed", peer)
        finally:
            self._open.discard(connection)
            connection.close()
            self._slots.release()


def _bound(network: Network, host: str, port: int) -> list[ListeningSocket]:
    """A socket for each address of the host, all with one port; OSError if there is none."""
    bound: list[ListeningSocket] = []
    failure: OSError | None = None
    for family, address in network.resolve(host, port):
        try:
            bound.append(network.listen(family, address, port, _BACKLOG))
            port = bound[0].getsockname()[1]
        except OSError as problem:
            failure = problem
    if not bound:
        raise failure or OSError(f"the host {host} has no address")
    return bound


class _TooLargeError(Exception):
    """A request has more bytes than it may."""


class _RequestBytes(io.RawIOBase):
    """The bytes of one request, within a number and a time: a peer that sends a byte a second is cut off."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._left_bytes = _REQUEST_BYTES
        self._deadline_s = time.monotonic() + _REQUEST_S

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the request did not come in time")
        if not self._left_bytes:
            raise _TooLargeError(f"the request has more than {_REQUEST_BYTES} bytes")
        self._connection.settimeout(left_s)
        size: int = self._connection.recv_into(memoryview(buffer)[: self._left_bytes])
        self._left_bytes -= size
        return size


class _Handler(BaseHTTPRequestHandler):
    """One request of one connection. (`http.server` asks for a subclass.)"""

    server_version = "ottla"
    sys_version = ""
    # The library would answer what it does not understand as in 1991: without a status.
    default_request_version = "HTTP/1.0"

    def __init__(self, connection: Any, peer: str, answer: Answer) -> None:
        self._answer = answer
        self._is_head = False
        # Until the first line is read, for the answer to one that cannot be.
        self.request_version, self.requestline, self.command = "HTTP/1.0", "", ""
        self.connection = self.request = connection
        self.client_address = (peer, 0)
        self.close_connection = True
        self.rfile = io.BufferedReader(_RequestBytes(connection))
        self.wfile = self._head = io.BytesIO()
        try:
            self.handle_one_request()
        except _TooLargeError as problem:
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, str(problem))
        self._send((self._head.getvalue(),))

    def do_GET(self) -> None:
        try:
            parts = urlsplit(self.path)
            query = dict(parse_qsl(parts.query, max_num_fields=_QUERY_FIELDS))
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST, "the address is not one")
            return
        request = HttpRequest(parts.path, query, self.headers.get("Accept", ""), self.client_address[0])
        answer = self._answered(request)
        body = list(answer.body)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(sum(map(len, body))))
        self.send_header("Connection", "close")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if not self._is_head:
            self._send((self._head.getvalue(), *body))
            self._head.seek(0)
            self._head.truncate()

    def _answered(self, request: HttpRequest) -> HttpAnswer:
        try:
            return self._answer(request)
        except Exception:
            logger.exception("the page %s failed", request.path)
            return HttpAnswer(500, "text/plain; charset=utf-8", [b"The page failed; the log says why.\n"])

    def do_HEAD(self) -> None:
        self._is_head = True
        self.do_GET()

    def _send(self, pieces: Iterable[bytes]) -> None:
        deadline_s = time.monotonic() + _ANSWER_S
        for piece in pieces:
            if piece:
                self.connection.settimeout(max(0.01, deadline_s - time.monotonic()))
                self.connection.sendall(piece)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """The library would write to standard error, whatever a client sends."""
        logger.debug("HTTP from %s: %s", self.client_address[0], format % args)
