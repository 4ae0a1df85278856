"""A real S3 server (moto's, in a thread of the test) behind a proxy that breaks what a test asks it to break."""

from __future__ import annotations

import contextlib
import http.client
import logging
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import urlsplit

import pytest
from moto.server import ThreadedMotoServer

from ottla.localcluster.ports import HOST

BUCKET: Final = "tier"
_HOP_BY_HOP: Final = {"connection", "transfer-encoding", "content-length", "keep-alive", "date", "server"}

# What happens to a request: its method and path lead to one of the words below, or to "" for nothing.
Fault = Callable[[str, str], str]


class S3Place:
    """`fault` decides about every request: "503", "403", "507", "cut", "torn", "wrong", "lost", or "" for nothing.

    cut: the connection ends before the answer. torn: the answer's body ends early. wrong: a byte of the body is
    another. lost: the request is carried out, and its answer is lost.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self.fault: Fault = lambda method, path: ""
        self.requests: list[tuple[str, str]] = []
        self.url = f"s3://{BUCKET}/prefix"

    def ask(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        """Ask the S3 server itself."""
        connection = http.client.HTTPConnection(HOST, self._port, timeout=20)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()

    def names(self) -> list[str]:
        """The names of all objects."""
        _, _, body = self.ask("GET", f"/{BUCKET}?list-type=2", _SIGNED, b"")
        return [part.split("</Key>")[0] for part in body.decode().split("<Key>")[1:]]


_SIGNED: Final = {"Authorization": "AWS4-HMAC-SHA256 Credential=tester/20260101/us-east-1/s3/aws4_request"}


def _handler(place: S3Place) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_request(self, code: object = "-", size: object = "-") -> None:
            """Say nothing."""

        def handle_any(self) -> None:
            path = urlsplit(self.path).path
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            place.requests.append((self.command, path))
            fault = place.fault(self.command, path)
            if fault == "cut":
                self.close_connection = True
                return
            if fault.isdigit():
                self._answer(int(fault), {}, b"<Error><Code>Broken</Code></Error>")
                return
            headers = {key: text for key, text in self.headers.items() if key.lower() not in _HOP_BY_HOP}
            status, answered, data = place.ask(self.command, self.path, headers, body)
            if fault == "lost":
                self.close_connection = True
                return
            if fault == "wrong" and data:
                data = data[:-1] + bytes([data[-1] ^ 1])
            self._answer(status, answered, data, is_torn=fault == "torn")

        def _answer(self, status: int, headers: dict[str, str], data: bytes, is_torn: bool = False) -> None:
            self.send_response(status)
            for key, text in headers.items():
                if key.lower() not in _HOP_BY_HOP:
                    self.send_header(key, text)
            size = next((text for key, text in headers.items() if key.lower() == "content-length"), len(data))
            self.send_header("Content-Length", str(size))
            self.end_headers()
            if is_torn:
                self.wfile.write(data[: len(data) // 2])
                self.close_connection = True
            else:
                self.wfile.write(data)

    for method in ("GET", "PUT", "POST", "DELETE", "HEAD"):
        setattr(Handler, f"do_{method}", Handler.handle_any)
    return Handler


@contextlib.contextmanager
def s3_place() -> Iterator[S3Place]:
    """A bucket, and the environment in which brokers of this process find it."""
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    moto = ThreadedMotoServer(ip_address=HOST, port=0, verbose=False)
    moto.start()
    place = S3Place(moto.get_host_and_port()[1])
    proxy = ThreadingHTTPServer((HOST, 0), _handler(place))
    thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        for key, text in {
            "AWS_ENDPOINT_URL": f"http://{HOST}:{proxy.server_port}",
            "AWS_ACCESS_KEY_ID": "tester",
            "AWS_SECRET_ACCESS_KEY": "never-logged",
            "AWS_REGION": "us-east-1",
        }.items():
            patch.setenv(key, text)
        place.ask("PUT", f"/{BUCKET}", _SIGNED, b"")
        try:
            yield place
        finally:
            proxy.shutdown()
            proxy.server_close()
            thread.join()
            moto.stop()
