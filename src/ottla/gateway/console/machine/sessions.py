"""Who is logged in to the console: a table of bounded size, by ids that nobody can guess.

A session ends when it was not used for a while, when its user logs out, or when a newer one needs its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.gateway.http.machine.credentials import Login

MOST_SESSIONS: Final = 1_000


@dataclass(slots=True)
class _Session:
    login: Login
    used_ms: float


class SessionTable:
    """Logins by session id."""

    def __init__(self, idle_ms: int, most: int = MOST_SESSIONS) -> None:
        self._idle_ms = idle_ms
        self._most = most
        self._sessions: dict[str, _Session] = {}  # the least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, session_id: str, login: Login, now_ms: float) -> None:
        """A user has logged in."""
        self.forget_idle(now_ms)
        while len(self._sessions) >= self._most:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[session_id] = _Session(login, now_ms)

    def login_of(self, session_id: str, now_ms: float) -> Login | None:
        """The login of a session, which is used by this; None if there is none any more."""
        session = self._sessions.pop(session_id, None)
        if session is None or now_ms - session.used_ms > self._idle_ms:
            return None
        self._sessions[session_id] = _Session(session.login, now_ms)
        return session.login

    def end(self, session_id: str) -> None:
        """The user has logged out."""
        self._sessions.pop(session_id, None)

    def forget_idle(self, now_ms: float) -> None:
        """Drop sessions that nobody has used for too long."""
        for session_id, session in list(self._sessions.items()):
            if now_ms - session.used_ms > self._idle_ms:
                del self._sessions[session_id]


def session_in(cookies: str, name: str) -> str | None:
    """The value of a cookie in a Cookie header."""
    for part in cookies.split(";"):
        key, _, value = part.strip().partition("=")
        if key == name and value:
            return value
    return None
