"""Who a caller says it is: the Authorization header as a login."""

from __future__ import annotations

import binascii
from base64 import b64decode
from dataclasses import dataclass, field

from ottla.gateway.http.machine.http_error import HttpError


@dataclass(frozen=True, slots=True)
class Login:
    """A user with a password (Basic), a token (Bearer), or the principal of a certificate. Two logins are equal if all
    parts are.
    """

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    principal: str | None = None

    @property
    def name(self) -> str:
        """For the log."""
        return self.username or self.principal or "token"


def login_from(header: str | None) -> Login | None:
    """The login of an Authorization header; None without one. Raises HttpError(401)."""
    if header is None:
        return None
    scheme, _, rest = header.strip().partition(" ")
    if scheme.lower() == "basic":
        return _basic(rest.strip())
    if scheme.lower() == "bearer" and rest.strip():
        return Login(token=rest.strip())
    raise unauthorized(
        "the Authorization header must be Basic with a user and a password, or Bearer with a token"
    )


def unauthorized(message: str) -> HttpError:
    return HttpError(401, message, error_code=40101, headers={"WWW-Authenticate": 'Basic realm="ottla"'})


def _basic(encoded: str) -> Login:
    try:
        user, colon, password = b64decode(encoded, validate=True).decode("utf-8").partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError) as error:
        raise unauthorized(
            "the Authorization header is no Basic login: it is not base64 of USER:PASSWORD"
        ) from error
    if not colon or not user:
        raise unauthorized("the Authorization header is no Basic login: expected base64 of USER:PASSWORD")
    return Login(user, password)
