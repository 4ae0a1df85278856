"""SCRAM's messages as text: `name=value` pairs with commas between (RFC 5802, section 7).

    client first   n,,n=user,r=client nonce[,extensions]
    server first   r=client and server nonce,s=salt,i=iterations
    client final   c=biws,r=client and server nonce,p=proof
    server final   v=server proof, or e=error

A message that is not of this form raises AuthenticationError; the text itself is not repeated anywhere.
"""

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.security.sasl.exchange import AuthenticationError

# Kafka's extension by which a client says that its user is the id of a delegation token (KIP-48).
TOKEN_EXTENSION: Final = "tokenauth"

_NAME = re.compile(r"(?:[^=,]|=2C|=3D)*")
_NONCE = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_ITERATIONS = re.compile(r"[1-9][0-9]{0,9}")


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """`header` is the part before the name, which the client's final message repeats."""

    header: str
    user: str
    nonce: str
    bare: str
    extensions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerFirst:
    """The server's challenge."""

    nonce: str
    salt: bytes
    iterations: int

    def __str__(self) -> str:
        return f"r={self.nonce},s={b64encode(self.salt).decode()},i={self.iterations}"


@dataclass(frozen=True, slots=True)
class ClientFinal:
    """`without_proof` is the part that the proof is about."""

    header: str
    nonce: str
    proof: bytes
    without_proof: str


def escaped(name: str) -> str:
    """A user name as it stands in a message."""
    return name.replace("=", "=3D").replace(",", "=2C")


def read_client_first(token: bytes) -> ClientFirst:
    """`n` and `y` say that the client binds to no channel; `p=` would ask for a binding."""
    text = _text(token)
    flag, acting_for, bare = _three(text)
    if flag not in ("n", "y"):
        raise AuthenticationError("a SCRAM client that asks for channel binding")
    first, *rest = bare.split(",")
    user = _unescaped(_value("n", first))
    if not user:
        raise AuthenticationError("a SCRAM message without a user")
    if acting_for and _unescaped(_value("a", acting_for)) != user:
        raise AuthenticationError(f"user {user!r} asked to act for another user")
    nonce = _nonce(rest[0]) if rest else ""
    if not nonce:
        raise AuthenticationError("a SCRAM message without a nonce")
    return ClientFirst(f"{flag},{acting_for},", user, nonce, bare, _extensions(rest[1:]))


def read_server_first(token: bytes) -> ServerFirst:
    parts = _text(token).split(",")
    if len(parts) < 3:
        raise AuthenticationError("a SCRAM challenge of too few parts")
    iterations = _value("i", parts[2])
    if not _ITERATIONS.fullmatch(iterations):
        raise AuthenticationError("a SCRAM challenge without a number of iterations")
    return ServerFirst(_nonce(parts[0]), _bytes(_value("s", parts[1])), int(iterations))


def write_client_final(header: str, nonce: str) -> str:
    """The final message without its proof."""
    return f"c={b64encode(header.encode()).decode()},r={nonce}"


def read_client_final(token: bytes) -> ClientFinal:
    without_proof, comma, proof = _text(token).rpartition(",")
    parts = without_proof.split(",")
    if not comma or len(parts) < 2:
        raise AuthenticationError("a final SCRAM message of too few parts")
    try:
        header = _bytes(_value("c", parts[0])).decode()
    except UnicodeDecodeError:
        raise AuthenticationError("a final SCRAM message with an unreadable header") from None
    return ClientFinal(header, _nonce(parts[1]), _bytes(_value("p", proof)), without_proof)


def read_server_final(token: bytes) -> bytes:
    """The server's proof. AuthenticationError if the server says that it refuses."""
    first = _text(token).split(",")[0]
    if first.startswith("e="):
        raise AuthenticationError("the server refused the login")
    return _bytes(_value("v", first))


def write_server_final(proof: bytes) -> bytes:
    return b"v=" + b64encode(proof)


def _three(text: str) -> tuple[str, str, str]:
    parts = text.split(",", 2)
    if len(parts) != 3:
        raise AuthenticationError("a SCRAM message of too few parts")
    return parts[0], parts[1], parts[2]


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise AuthenticationError("a SCRAM message that is not UTF-8") from None


def _value(name: str, part: str) -> str:
    if not part.startswith(f"{name}="):
        raise AuthenticationError(f"a SCRAM message without {name}= where it belongs")
    return part[2:]


def _nonce(part: str) -> str:
    nonce = _value("r", part)
    if not _NONCE.fullmatch(nonce):
        raise AuthenticationError("a SCRAM message with an unusable nonce")
    return nonce


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (Base64Error, ValueError):
        raise AuthenticationError("a SCRAM message with unreadable base64") from None


def _unescaped(name: str) -> str:
    if not _NAME.fullmatch(name) or "\0" in name:
        raise AuthenticationError("a SCRAM message with an unreadable user name")
    return name.replace("=2C", ",").replace("=3D", "=")


def _extensions(parts: list[str]) -> dict[str, str]:
    pairs = (part.partition("=") for part in parts)
    return {name: value for name, equals, value in pairs if equals}
