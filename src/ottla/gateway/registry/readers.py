"""Who may read schemas: a caller that logs in, if the cluster lets it describe the topic `_schemas`."""

from __future__ import annotations

from ottla.gateway.cluster.callers import Callers
from ottla.gateway.cluster.pool import ClientPool
from ottla.gateway.http.machine.credentials import Login
from ottla.gateway.registry.registry import SchemaRegistry
from ottla.gateway.registry.schemas_topic import TOPIC
from ottla.security.settings import Security


class Readers:
    """Lets callers to the registry, or refuses them."""

    def __init__(self, registry: SchemaRegistry, pool: ClientPool, callers: Callers) -> None:
        self._registry = registry
        self._pool = pool
        self._callers = callers

    async def check(self, login: Login | None) -> None:
        """Raises HttpError(401) and KafkaError."""
        if login is None:
            self._callers.security_of(login)  # refuses a caller that has to log in
        else:
            await self._registry.open()
            async with self._pool.caller(login) as caller:
                await caller.topics.partition_count(TOPIC)

    def security_of(self, login: Login | None) -> Security:
        """How the caller reaches the cluster. Raises HttpError(401)."""
        return self._callers.security_of(login)
