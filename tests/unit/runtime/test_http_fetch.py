"""What a URL stands for: limits on size and time, certificates, and messages without secrets (OPS-5)."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest
from tests.identity_provider import identity_provider
from tests.tls_authority import Authority

from ottla.runtime.http_fetch import HttpStatusError, content_of, fetched, shown_url


def get(url: str, most_bytes: int = 10_000, timeout_s: float = 20.0) -> bytes:
    return content_of(url, most_bytes=most_bytes, timeout_s=timeout_s)


def test_a_server_and_a_file_are_read(tmp_path: Path) -> None:
    with identity_provider() as provider:
        assert get(provider.keys_url) == provider.keys[1]
    file = tmp_path / "with space"
    file.write_bytes(b"content")
    assert get(file.as_uri()) == b"content"


@pytest.mark.parametrize("status", [301, 302, 400, 500])
def test_any_status_but_success_is_an_error_and_redirects_are_not_followed(status: int) -> None:
    with identity_provider() as provider:
        provider.publish(status, b"said")
        with pytest.raises(HttpStatusError, match=f"status {status}") as failed:
            get(provider.keys_url)
        assert failed.value.body == b"said"
        assert provider.requests("/keys") == 1


def test_more_than_the_limit_is_not_read(tmp_path: Path) -> None:
    with identity_provider() as provider, pytest.raises(OSError, match="more than 10 bytes"):
        get(provider.keys_url, most_bytes=10)
    file = tmp_path / "large"
    file.write_bytes(b"x" * 11)
    with pytest.raises(OSError, match="more than 10 bytes"):
        get(file.as_uri(), most_bytes=10)


def test_a_server_that_drips_is_given_up() -> None:
    """Each byte comes in time, the whole does not."""
    stopping = Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/keys"

        def drip() -> None:
            peer, _ = listening.accept()
            with peer:
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not stopping.wait(0.02):
                    try:
                        peer.sendall(b"x")
                    except OSError:
                        return

        thread = Thread(target=drip)
        thread.start()
        try:
            with pytest.raises(OSError, match="in time"):
                get(url, most_bytes=1_000_000, timeout_s=0.3)
        finally:
            stopping.set()
            thread.join()


def test_a_server_that_is_silent_or_speaks_something_else_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/keys?key=hidden"
        with pytest.raises(OSError) as failed:
            get(url, timeout_s=0.1)
        assert "hidden" not in str(failed.value)
    with pytest.raises(OSError, match="cannot be reached"):
        get(url)
    for wrong in ("https://[", "http://", "ftp://127.0.0.1/x"):
        with pytest.raises(OSError):
            get(wrong)


@contextmanager
def https_server(authority: Authority) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"over TLS")

        def log_message(self, *_: object) -> None:
            """Tests print nothing."""

    class Server(HTTPServer):
        def handle_error(self, *_: object) -> None:
            """A client that does not trust the certificate ends the handshake."""

    files = authority.issue("broker").broker_settings()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files["ottla.ssl.certificate.file"], files["ottla.ssl.key.file"])
    server = Server(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}/keys"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_the_certificate_of_a_server_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path)
    with https_server(authority) as url:
        with pytest.raises(OSError, match="certificate verify failed"):
            get(url)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca_file))
        assert get(url) == b"over TLS"


def test_a_url_is_shown_without_its_secrets() -> None:
    assert shown_url("https://user:secret@id.test:8443/keys?key=secret#x") == "https://id.test:8443/keys"


def test_a_body_makes_it_a_post() -> None:
    with identity_provider() as provider:
        answer = fetched(provider.token_url, body=b"a=b", headers={"X": "y"}, most_bytes=10_000, timeout_s=20)
        assert b"access_token" in answer
        assert provider.asked == [("/token", None, b"a=b")]
