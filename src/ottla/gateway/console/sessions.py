"""Logins to the console: a form instead of a header, a cookie instead of a password in every request.

The cookie is HttpOnly (no script reads it) and SameSite=Strict (other sites cannot use it). The login stays in this
gateway's memory; another gateway asks again.
"""

from __future__ import annotations

import secrets
from typing import Any, Final

from ottla.config.gateway import GatewayConfig
from ottla.gateway.cluster.callers import Callers
from ottla.gateway.cluster.pool import ClientPool
from ottla.gateway.console.machine.sessions import SessionTable, session_in
from ottla.gateway.http.machine.credentials import Login
from ottla.gateway.http.machine.http_error import HttpError, unprocessable
from ottla.gateway.http.machine.message import Request
from ottla.runtime.clock import monotonic_ms

COOKIE: Final = "ottla_console"
_PATH: Final = "/console"


class Sessions:
    """Knows who sent a request."""

    def __init__(self, pool: ClientPool, callers: Callers, settings: GatewayConfig) -> None:
        self._pool = pool
        self._callers = callers
        self._table = SessionTable(settings.console_idle_ms)

    @property
    def requires_login(self) -> bool:
        return self._callers.requires_login

    @property
    def takes_logins(self) -> bool:
        return self._callers.takes_logins

    def login_of(self, request: Request) -> Login | None:
        """The login of the Authorization header, or of the session. Raises HttpError(401) for one that is over."""
        if request.login is not None:
            return request.login
        session_id = session_in(request.headers.get("cookie", ""), COOKIE)
        if session_id is None:
            return None
        login = self._table.login_of(session_id, monotonic_ms())
        if login is None and self._callers.requires_login:
            raise HttpError(401, "the login is over: log in again", error_code=40101)
        return login

    async def begin(self, body: dict[str, Any]) -> tuple[Login, str]:
        """Try a login at the cluster; returns it and its session. Raises HttpError(401 or 422) and KafkaError."""
        login = _login_in(body)
        async with self._pool.caller(login) as caller:
            await (await caller.clients.admin()).describe_cluster()
        session_id = secrets.token_urlsafe(32)
        self._table.begin(session_id, login, monotonic_ms())
        return login, session_id

    def end(self, request: Request) -> None:
        """Forget the session of a request."""
        session_id = session_in(request.headers.get("cookie", ""), COOKIE)
        if session_id is not None:
            self._table.end(session_id)

    def sweep(self) -> None:
        """Forget sessions that nobody uses."""
        self._table.forget_idle(monotonic_ms())


def cookie(request: Request, session_id: str, *, ends: bool = False) -> dict[str, str]:
    """The header that sets the cookie, or takes it away."""
    secure = "; Secure" if request.scheme == "https" else ""
    age = "; Max-Age=0" if ends else ""
    return {"Set-Cookie": f"{COOKIE}={session_id}; Path={_PATH}; HttpOnly; SameSite=Strict{secure}{age}"}


def _login_in(body: dict[str, Any]) -> Login:
    token, user, password = body.get("token"), body.get("username"), body.get("password")
    if isinstance(token, str) and token:
        return Login(token=token)
    if not isinstance(user, str) or not user or not isinstance(password, str):
        raise unprocessable("a login is a username and a password, or a token")
    return Login(user, password)
