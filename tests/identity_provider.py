"""An identity provider for tests: keys, tokens, and a small HTTP server with a key set and a token endpoint."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

from joserfc.jwk import ECKey, RSAKey
from joserfc.jws import JWSRegistry

ISSUER: Final = "https://id.test"
AUDIENCE: Final = "kafka"
CLIENT_ID, CLIENT_SECRET = "billing", "Client+Secret: 7&%"
Key = RSAKey | ECKey


@cache
def rsa_key(key_id: str = "rsa-1") -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": key_id})


@cache
def ec_key(key_id: str = "ec-1", curve: str = "P-256") -> ECKey:
    return ECKey.generate_key(curve, {"kid": key_id})


def key_set(*keys: Key, **more: Any) -> bytes:
    """The public keys as a key set, each with more members."""
    return json.dumps({"keys": [{**key.as_dict(private=False), **more} for key in keys]}).encode()


def claims_of(user: str = "alice", *, now_s: float | None = None, **more: Any) -> dict[str, Any]:
    """Claims that a broker of the tests accepts; None as a value leaves one out."""
    now = time.time() if now_s is None else now_s
    claims = {"sub": user, "iat": int(now), "exp": int(now) + 300, "iss": ISSUER, "aud": AUDIENCE, **more}
    return {name: value for name, value in claims.items() if value is not None}


def signed(
    claims: Mapping[str, Any] | bytes, key: Any = None, algorithm: str = "RS256", **header: Any
) -> str:
    """A token. `header` replaces and adds members."""
    key = rsa_key() if key is None else key
    payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    members = {"alg": algorithm, "kid": key.kid, **header}
    head = json.dumps({name: value for name, value in members.items() if value is not None}).encode()
    text = f"{_encoded(head)}.{_encoded(payload)}"
    return f"{text}.{_encoded(JWSRegistry.algorithms[algorithm].sign(text.encode(), key))}"


def unsecured(
    claims: Mapping[str, Any], algorithm: object = "none", signature: str = "", **header: Any
) -> str:
    """A token that nobody signed."""
    parts = ({"alg": algorithm, **header}, claims)
    return ".".join([*(_encoded(json.dumps(part).encode()) for part in parts), signature])


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


class IdentityProvider:
    """A running provider. Tests change what it answers, and read what it was asked."""

    def __init__(self, url: str) -> None:
        self.keys_url, self.token_url = f"{url}/keys", f"{url}/token"
        self.keys: tuple[int, bytes] = (200, key_set(rsa_key(), ec_key()))
        self.token: tuple[int, bytes] | None = None
        self.lifetime_s = 300
        self.asked: list[tuple[str, str | None, bytes]] = []

    def publish(self, status: int, body: bytes) -> None:
        """Answer this to requests for the keys."""
        self.keys = (status, body)

    def answer_tokens(self, status: int, body: bytes) -> None:
        """Answer this to requests for tokens."""
        self.token = (status, body)

    def answer(self, path: str, authorization: str | None, body: bytes) -> tuple[int, bytes]:
        self.asked.append((path, authorization, body))
        if path == "/keys":
            return self.keys
        if self.token is not None:
            return self.token
        token = signed(claims_of(CLIENT_ID, exp=int(time.time()) + self.lifetime_s))
        return 200, json.dumps({"access_token": token, "expires_in": self.lifetime_s}).encode()

    def requests(self, path: str) -> int:
        return sum(1 for asked, _, _ in self.asked if asked == path)


@contextmanager
def identity_provider() -> Iterator[IdentityProvider]:
    """A provider on a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

        def _answer(self, body: bytes) -> None:
            status, content = provider.answer(self.path, self.headers.get("Authorization"), body)
            self.send_response(status)
            if status == 302:
                self.send_header("Location", provider.keys_url)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Tests print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider = IdentityProvider(f"http://127.0.0.1:{server.server_address[1]}")
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def key_file(directory: Path, *keys: Key) -> str:
    """The URL of a file with these keys, or with one of each kind."""
    file = directory / "keys.json"
    file.write_bytes(key_set(*(keys or (rsa_key(), ec_key()))))
    return file.as_uri()
