"""The HTTP server and its limits, over real sockets (OPS-2)."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator

import pytest

from ottla.localcluster.waiting import wait_until
from ottla.runtime import http_server
from ottla.runtime.http_server import HttpAnswer, HttpRequest, HttpServer
from ottla.runtime.network import OsNetwork

HOST = "127.0.0.1"


class Site:
    """Answers with what it was asked; a request for /wait waits until it is let go."""

    def __init__(self) -> None:
        self.asked: list[HttpRequest] = []
        self.go = threading.Event()

    def answer(self, request: HttpRequest) -> HttpAnswer:
        self.asked.append(request)
        if request.path == "/wait":
            self.go.wait(30)
        if request.path == "/broken":
            raise RuntimeError("broken")
        return HttpAnswer(200, "text/plain", [b"one ", b"two"], {"X-Path": request.path})


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def server(site: Site) -> Iterator[HttpServer]:
    server = HttpServer(OsNetwork(), HOST, 0, site.answer)
    server.start()
    yield server
    site.go.set()
    server.stop()


def ask(port: int, path: str, method: str = "GET") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    try:
        connection.request(method, path, headers={"Accept": "text/x"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def send(port: int, data: bytes) -> bytes:
    """Everything that the server says to these bytes, until it ends the connection."""
    with socket.create_connection((HOST, port), timeout=30) as connection:
        said = b""
        try:
            connection.sendall(data)
            while piece := connection.recv(1 << 16):
                said += piece
        except ConnectionError:
            pass  # it closed while there was more to read: what it said before counts
        return said


def test_a_request_is_taken_apart_and_its_answer_sent(site: Site, server: HttpServer) -> None:
    assert ask(server.port, "/a/b?x=1&y=%20z&x=2") == (200, b"one two")
    (request,) = site.asked
    assert (request.path, request.query) == ("/a/b", {"x": "2", "y": " z"})
    assert (request.accept, request.peer, request.is_local) == ("text/x", HOST, True)
    assert ask(server.port, "/", "HEAD") == (200, b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "CONNECT", "X"])
def test_other_methods_are_refused(server: HttpServer, site: Site, method: str) -> None:
    assert ask(server.port, "/", method)[0] == 501
    assert site.asked == []


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x00\x01\x02garbage\r\n\r\n", b"400"),
        (b"GET / HTTP/9.9\r\n\r\n", b"505"),
        (b"GET http://[ HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /?" + b"a=1&" * 17 + b" HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n" + b"".join(b"h%d: v\r\n" % n for n in range(200)) + b"\r\n", b"431"),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nx: " + b"a" * 20_000 + b"\r\n\r\n", b"431"),
    ],
    ids=["garbage", "version", "address", "query", "many headers", "long path", "long header"],
)
def test_what_is_no_request_is_told_so(server: HttpServer, site: Site, data: bytes, status: bytes) -> None:
    said = send(server.port, data)
    assert status in said.split(b"\n")[0]
    assert site.asked == []
    assert ask(server.port, "/")[0] == 200


def test_a_request_that_comes_too_slowly_is_cut_off(
    site: Site, server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "_REQUEST_S", 0.2)
    with socket.create_connection((HOST, server.port), timeout=30) as slow:
        slow.sendall(b"GET / HTT")
        assert slow.recv(1 << 16) == b""
    assert site.asked == []


def test_a_connection_too_many_hears_so_at_once(site: Site, server: HttpServer) -> None:
    threads = [threading.Thread(target=ask, args=(server.port, "/wait")) for _ in range(8)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(site.asked) == 8, "eight requests are being answered", 20.0)
    status, text = ask(server.port, "/")
    assert (status, b"in use" in text) == (503, True)
    assert server.refused == 1
    site.go.set()
    for thread in threads:
        thread.join()
    assert ask(server.port, "/")[0] == 200


def test_an_answer_that_fails_is_said_and_logged(
    server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    assert ask(server.port, "/broken") == (500, b"The page failed; the log says why.\n")
    assert "the page /broken failed" in caplog.text
    assert ask(server.port, "/")[0] == 200


def test_a_server_that_stops_closes_its_port_and_its_connections(site: Site) -> None:
    server = HttpServer(OsNetwork(), "localhost", 0, site.answer)
    server.start()
    with socket.create_connection((HOST, server.port), timeout=30) as waiting:
        waiting.sendall(b"GET /")
        server.stop()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, server.port))
        with contextlib.suppress(ConnectionResetError):
            assert waiting.recv(10) == b""


@pytest.mark.parametrize(
    ("peer", "is_local"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:10.0.0.1", False),
        ("10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("nonsense", False),
    ],
)
def test_who_is_on_this_machine(peer: str, is_local: bool) -> None:
    assert HttpRequest("/", {}, "", peer).is_local is is_local
