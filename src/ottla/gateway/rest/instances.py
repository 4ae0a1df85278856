"""All consumer instances of this gateway. Those that nobody uses end by themselves, with their offsets committed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from uuid import uuid4

from ottla.config.gateway import GatewayConfig
from ottla.gateway.cluster.clients import CLIENT_ID
from ottla.gateway.cluster.pool import ClientPool
from ottla.gateway.http.machine.credentials import Login
from ottla.gateway.rest.instance import ConsumerInstance
from ottla.gateway.rest.machine.consumer_bodies import InstanceSettings
from ottla.gateway.rest.machine.instance_table import InstanceTable
from ottla.gateway.schema_values.decoding import ValueDecoder
from ottla.gateway.schema_values.machine.formats import TYPES
from ottla.runtime.clock import monotonic_ms

logger = logging.getLogger(__name__)


class Instances:
    """Opens, lends and closes instances."""

    def __init__(self, pool: ClientPool, settings: GatewayConfig, decoder: ValueDecoder) -> None:
        self._pool = pool
        self._settings = settings
        self._decoder = decoder
        self._table: InstanceTable[ConsumerInstance] = InstanceTable(
            settings.max_instances, settings.instance_idle_ms
        )
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._table)

    async def create(self, group: str, settings: InstanceSettings, login: Login | None) -> ConsumerInstance:
        """Raises HttpError(409 or 429), ConnectionError and KafkaError."""
        name = settings.name or f"ottla-{uuid4()}"
        self._table.reserve(group, name, login, monotonic_ms())
        try:
            instance = await self._opened(group, name, settings, login)
        except BaseException:
            self._table.forget(group, name)
            raise
        self._table.fill(group, name, instance, monotonic_ms())
        return instance

    async def _opened(
        self, group: str, name: str, settings: InstanceSettings, login: Login | None
    ) -> ConsumerInstance:
        if settings.form in TYPES:
            await self._decoder.check(login)
        async with self._pool.caller(login) as caller:
            consumer = caller.clients.consumer(
                group_id=group,
                client_id=f"{CLIENT_ID}-{name}",
                auto_offset_reset=settings.reset,
                isolation_level=settings.isolation,
                fetch_min_bytes=settings.fetch_min_bytes,
                enable_auto_commit=False,
                # An instance that nobody uses is ended by the gateway, not by its group.
                max_poll_interval_ms=self._settings.instance_idle_ms + self._settings.max_wait_ms,
            )
            instance = ConsumerInstance(group, name, consumer, settings, self._decoder)
            await instance.open()
            return instance

    @asynccontextmanager
    async def used(self, group: str, name: str, login: Login | None) -> AsyncIterator[ConsumerInstance]:
        """An instance for the length of a request. Raises HttpError(404)."""
        instance = self._table.begin(group, name, login)
        try:
            yield instance
        finally:
            self._table.end(group, name, monotonic_ms())

    async def delete(self, group: str, name: str, login: Login | None) -> None:
        """The caller ends its instance. Raises HttpError(404)."""
        await self._table.remove(group, name, login).close(is_done=True)

    def sweep(self) -> None:
        """End the instances that nobody uses."""
        for instance in self._table.remove_idle(monotonic_ms()):
            logger.info("instance %s of group %s ends: nobody uses it", instance.name, instance.group)
            self._close_soon(instance)

    async def close(self) -> None:
        """The gateway stops: all instances end."""
        for instance in self._table.remove_all():
            self._close_soon(instance)
        await _all(self._closing)

    def _close_soon(self, instance: ConsumerInstance) -> None:
        task = asyncio.get_running_loop().create_task(instance.close(is_done=False))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


async def _all(tasks: Iterable[asyncio.Task[None]]) -> None:
    waiting = set(tasks)
    if waiting:
        await asyncio.wait(waiting)
