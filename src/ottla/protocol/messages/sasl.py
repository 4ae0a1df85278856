"""SaslHandshake (key 17), versions 0 to 1, and SaslAuthenticate (key 36), versions 0 to 2.

KIP-43 the handshake, after whose version 0 tokens follow as they are, without a request around them; KIP-152
SaslAuthenticate around each token, after version 1 of the handshake; KIP-368 the lifetime of a session (v1).
Tokens are secrets, so the text of a message hides them.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from ottla.protocol.codec import Bytes, Int16, Int64, String, message, since


@message(key=17, versions=(0, 1), flexible=None)
class SaslHandshakeRequest:
    mechanism: String = ""


@message(key=17, versions=(0, 1), flexible=None)
class SaslHandshakeResponse:
    error_code: Int16 = 0
    mechanisms: list[String] = field(default_factory=list)


@message(key=36, versions=(0, 2), flexible=2)
class SaslAuthenticateRequest:
    auth_bytes: Bytes = b""

    def __repr__(self) -> str:
        return f"SaslAuthenticateRequest({len(self.auth_bytes)} bytes)"


@message(key=36, versions=(0, 2), flexible=2)
class SaslAuthenticateResponse:
    error_code: Int16 = 0
    error_message: String | None = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Annotated[Int64, since(1)] = 0

    def __repr__(self) -> str:
        return f"SaslAuthenticateResponse({self.error_code}, {self.error_message!r}, {len(self.auth_bytes)} bytes)"
