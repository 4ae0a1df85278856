"""The clients of all callers: at most so many logins, closed when no request has used them for a while."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ottla.client.consumer.consumer import Consumer
from ottla.config.gateway import GatewayConfig
from ottla.gateway.cluster.callers import Callers
from ottla.gateway.cluster.clients import CallerClients
from ottla.gateway.cluster.topics import KnownTopics
from ottla.gateway.http.machine.credentials import Login
from ottla.gateway.http.machine.http_error import HttpError
from ottla.runtime.clock import monotonic_ms

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Entry:
    clients: CallerClients
    topics: KnownTopics
    username: str | None
    users: int = 0
    used_ms: float = 0.0

    def begin(self) -> None:
        self.users += 1

    def end(self, now_ms: float) -> None:
        self.users -= 1
        self.used_ms = now_ms


class Caller:
    """One caller during one request: its clients, and what is known of topics."""

    def __init__(self, clients: CallerClients, topics: KnownTopics) -> None:
        self.clients = clients
        self.topics = topics


class ClientPool:
    """Lends clients to requests."""

    def __init__(self, bootstrap: str, callers: Callers, settings: GatewayConfig) -> None:
        self._bootstrap = bootstrap
        self._callers = callers
        self._settings = settings
        self._entries: dict[Login | None, _Entry] = {}
        self._readers = 0
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def caller(self, login: Login | None) -> AsyncIterator[Caller]:
        """The clients of a login for the length of a block. Raises HttpError(401 or 503)."""
        await self.admit(login)
        entry = self._entries.get(login)
        if entry is None:
            security = self._callers.security_of(login)
            self._make_room()
            clients = CallerClients(self._bootstrap, security, self._settings.cluster_timeout_ms)
            self._entries[login] = entry = _Entry(clients, KnownTopics(clients), security.username)
        entry.begin()
        try:
            yield Caller(entry.clients, entry.topics)
        finally:
            entry.end(monotonic_ms())

    @asynccontextmanager
    async def reader(self, caller: Caller) -> AsyncIterator[Consumer]:
        """A consumer for one read. Raises HttpError(503) if too many reads are under way."""
        limit = self._settings.max_readers
        if self._readers >= limit:
            raise HttpError(
                503,
                f"{limit} reads are under way, which is all that this gateway allows (ottla.gateway.max.readers)",
                headers={"Retry-After": "1"},
            )
        self._readers += 1
        try:
            async with caller.clients.reader() as consumer:
                yield consumer
        finally:
            self._readers -= 1

    async def admit(self, login: Login | None) -> None:
        """Have a token for the principal of a certificate; clients that log in with an earlier one are closed."""
        certificates = self._callers.certificates
        if certificates is None or login is None or login.principal is None:
            return
        await certificates.admit(login.principal)
        token, entry = certificates.token_of(login.principal), self._entries.get(login)
        if entry is not None and entry.username != token.token_id and not entry.users:
            self._drop(login)

    async def keep_tokens(self) -> None:
        """Renew the tokens of callers with certificates, and end those that nobody uses."""
        if self._callers.certificates is not None:
            await self._callers.certificates.sweep(
                {each.principal for each in self._entries if each is not None and each.principal}
            )

    def sweep(self) -> None:
        """Close the clients that no request has used for long."""
        limit_ms = monotonic_ms() - self._settings.client_idle_ms
        for login, entry in list(self._entries.items()):
            if not entry.users and entry.used_ms <= limit_ms:
                self._drop(login)

    async def close(self) -> None:
        """Close all clients."""
        for login in list(self._entries):
            self._drop(login)
        while self._closing:
            await asyncio.wait(self._closing)
        if self._callers.certificates is not None:
            await self._callers.certificates.close()

    def _make_room(self) -> None:
        if len(self._entries) < self._settings.max_callers:
            return
        idle = [(entry.used_ms, login) for login, entry in self._entries.items() if not entry.users]
        if not idle:
            raise HttpError(
                503,
                "as many callers as this gateway allows are logged in (ottla.gateway.max.callers): try again later",
                headers={"Retry-After": "1"},
            )
        self._drop(min(idle, key=lambda each: each[0])[1])

    def _drop(self, login: Login | None) -> None:
        task = asyncio.get_running_loop().create_task(self._entries.pop(login).clients.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
