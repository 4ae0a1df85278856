"""A proxy that stands between a client and a broker and writes down every request: key, version, body.

It shows what a client really did — which versions it chose, whether it compressed, whether it kept a fetch
session — instead of what it says it did. The broker must advertise the proxy's address, or clients would walk
around it after their first question; so the proxy is made first and told its broker later.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from dataclasses import dataclass

from tests.clients.raw import FETCH

from ottla.localcluster.ports import HOST

# From these versions on the request header ends with tagged fields.
FLEXIBLE_SINCE = {0: 9, 1: 12, 2: 6, 3: 9, 10: 3, 18: 3, 19: 5, 20: 4, 21: 2, 22: 2, 23: 4}


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it passed: the body starts after the header."""

    api_key: int
    version: int
    client_id: str
    body: bytes

    def fetch_session(self) -> tuple[int, int]:
        """The session id and epoch of a Fetch (v7 and later)."""
        position = 17 if self.version < 15 else 13  # the replica id went into a tagged field
        session_id, epoch = struct.unpack_from(">ii", self.body, position)
        return session_id, epoch


def parse(frame: bytes) -> Request:
    api_key, version, _, size = struct.unpack_from(">hhih", frame)
    position = 10 + max(size, 0)
    client_id = frame[10:position].decode()
    if version >= FLEXIBLE_SINCE.get(api_key, 1 << 15):
        position += 1  # no client sends tagged fields here
    return Request(api_key, version, client_id, frame[position:])


class RecordingProxy:
    """Passes bytes both ways and keeps the requests."""

    def __init__(self) -> None:
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._upstream_port = 0
        self._requests: list[Request] = []
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._run(self._accept)

    def forward_to(self, port: int) -> None:
        self._upstream_port = port

    @property
    def requests(self) -> list[Request]:
        with self._lock:
            return list(self._requests)

    def forget(self) -> None:
        with self._lock:
            self._requests.clear()

    def versions(self, api_key: int) -> set[int]:
        """Which versions of an API were used."""
        return {request.version for request in self.requests if request.api_key == api_key}

    def fetches(self) -> list[Request]:
        return [request for request in self.requests if request.api_key == FETCH]

    def close(self) -> None:
        with self._lock:
            sockets = {*self._sockets, self._listener}
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for each in sockets:
            each.close()

    def _run(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                upstream = socket.create_connection((HOST, self._upstream_port))
                with self._lock:
                    self._sockets |= {client, upstream}
                self._run(self._pass_requests, client, upstream)
                self._run(self._pass_bytes, upstream, client)

    def _pass_bytes(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(1 << 20):
                sink.sendall(part)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def _pass_requests(self, source: socket.socket, sink: socket.socket) -> None:
        kept = bytearray()
        with contextlib.suppress(OSError):
            while part := source.recv(1 << 20):
                kept += part
                self._keep_whole_frames(kept)
                sink.sendall(part)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def _keep_whole_frames(self, kept: bytearray) -> None:
        while len(kept) >= 4:
            (size,) = struct.unpack_from(">i", kept)
            if len(kept) < 4 + size:
                return
            request = parse(bytes(kept[4 : 4 + size]))
            del kept[: 4 + size]
            with self._lock:
                self._requests.append(request)
