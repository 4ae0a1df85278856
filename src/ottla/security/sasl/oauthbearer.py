"""OAUTHBEARER (RFC 7628, KIP-255): the client shows a token of an identity provider. Only TLS keeps it from being
read on the way.

    client first   n,,^Aauth=Bearer token^A[name=value^A ...]^A     (^A is the byte 1)
    server         nothing, or why the token is refused, as JSON
    client         ^A, after a refusal

Extensions are read and, as in Kafka's validator of signed tokens, have no meaning for the broker.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from ottla.security.sasl.exchange import AuthenticationError, Login, Step

OAUTHBEARER: Final = "OAUTHBEARER"

# Who a token is about. Raises AuthenticationError.
CheckToken = Callable[[str], Login]

_SEPARATOR: Final = "\x01"
_REFUSED: Final = b'{"status":"invalid_token"}'
_FIRST: Final = re.compile(r"n,(?:a=((?:[\x02-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,\x01(.*)\x01", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z]+")
_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
# As in Kafka: a scheme, and a token of the characters of a signed JSON Web Token.
_BEARER: Final = re.compile(r"bearer +([-_.A-Za-z0-9]+)", re.IGNORECASE)
# What any token can consist of (RFC 6750, section 2.1).
_TOKEN: Final = re.compile(r"[-A-Za-z0-9._~+/]+=*")
# A client's first message has few extensions; more would only be work.
_MOST_EXTENSIONS: Final = 64


class OauthBearerClient:
    """Sends a token, and extensions if there are any."""

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        if not _TOKEN.fullmatch(token):
            raise AuthenticationError("the token is empty, or has characters that no token has")
        pairs = [f"{name}={value}" for name, value in (extensions or {}).items()]
        self._first = _SEPARATOR.join(("n,,", f"auth=Bearer {token}", *pairs, "", "")).encode()
        self._is_refused = False

    def first(self) -> bytes:
        return self._first

    def respond(self, challenge: bytes) -> bytes | None:
        if self._is_refused:
            raise AuthenticationError("the server refused the token")
        if not challenge:
            return None
        self._is_refused = True
        return _SEPARATOR.encode()


class OauthBearerServer:
    """Has a token checked. A refused client gets one more word, by which it says that it heard."""

    def __init__(self, check: CheckToken) -> None:
        self._check = check
        self._refusal: str | None = None

    def respond(self, token: bytes) -> Step:
        if self._refusal is not None:
            raise AuthenticationError(self._refusal)
        acting_for, bearer = _read_first(token)
        try:
            login = self._check(bearer)
            if acting_for not in ("", login.user):
                raise AuthenticationError(f"user {login.user!r} asked to act for another user")
        except AuthenticationError as error:
            self._refusal = str(error)
            return Step(_REFUSED, refusal=self._refusal)
        return Step(b"", login)


def _read_first(message: bytes) -> tuple[str, str]:
    """Whom the client wants to act for, and its token."""
    try:
        parsed = _FIRST.fullmatch(message.decode())
    except UnicodeDecodeError:
        raise AuthenticationError("an OAUTHBEARER message that is not UTF-8") from None
    if parsed is None:
        raise AuthenticationError("an OAUTHBEARER message that is not of RFC 7628's form")
    acting_for = (parsed[1] or "").replace("=2C", ",").replace("=3D", "=")
    bearer = _BEARER.fullmatch(_pairs(parsed[2]).get("auth", ""))
    if bearer is None:
        raise AuthenticationError("an OAUTHBEARER message without a bearer token")
    return acting_for, bearer[1]


def _pairs(text: str) -> dict[str, str]:
    if not text.endswith(_SEPARATOR):
        raise AuthenticationError("an OAUTHBEARER message that is not of RFC 7628's form")
    parts = text[:-1].split(_SEPARATOR, _MOST_EXTENSIONS + 1)
    if len(parts) > _MOST_EXTENSIONS + 1:
        raise AuthenticationError(f"an OAUTHBEARER message with more than {_MOST_EXTENSIONS} extensions")
    pairs: dict[str, str] = {}
    for name, equals, value in (part.partition("=") for part in parts):
        if not equals or name in pairs or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise AuthenticationError("an OAUTHBEARER message with an unusable extension")
        pairs[name] = value
    return pairs
