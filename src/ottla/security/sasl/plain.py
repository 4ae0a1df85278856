"""PLAIN (RFC 4616): user and password in one token. Only TLS keeps them from being read on the way.

The token is `authorisation id NUL user NUL password`. As in Kafka the authorisation id is empty or the user:
nobody acts for somebody else.
"""

from collections.abc import Callable
from typing import Final

from ottla.security.sasl.exchange import AuthenticationError, Login, Step

PLAIN: Final = "PLAIN"

# Tells whether a user has this password, in the same time for unknown users as for wrong passwords.
CheckPassword = Callable[[str, str], bool]


class PlainClient:
    """Sends user and password."""

    def __init__(self, user: str, password: str) -> None:
        if not user or "\0" in user or "\0" in password:
            raise AuthenticationError("PLAIN needs a user name, and no NUL in name or password")
        self._token = f"\0{user}\0{password}".encode()

    def first(self) -> bytes:
        return self._token

    def respond(self, challenge: bytes) -> bytes | None:
        if challenge:
            raise AuthenticationError("the server answered PLAIN with a challenge")
        return None


class PlainServer:
    """Compares user and password."""

    def __init__(self, check: CheckPassword) -> None:
        self._check = check

    def respond(self, token: bytes) -> Step:
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise AuthenticationError("a PLAIN token that is not UTF-8") from None
        if len(parts) != 3:
            raise AuthenticationError(f"a PLAIN token of {len(parts)} parts instead of 3")
        acting_for, user, password = parts
        if not user or not password:
            raise AuthenticationError("a PLAIN token without a user or without a password")
        if acting_for not in ("", user):
            raise AuthenticationError(f"user {user!r} asked to act for another user")
        if not self._check(user, password):
            raise AuthenticationError(f"user {user!r} is unknown or has another password")
        return Step(b"", Login(user))
