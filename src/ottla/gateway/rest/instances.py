"""All consumer instances of this gateway. Those that nobody uses end by themselves, with their offsets committed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from uuid import uuid4

from ottla.config.gateway import GatewayConfig
from ottla.errors import KafkaError
from ottla.gateway.cluster.pool import ClientPool
from ottla.gateway.http.machine.credentials import Login
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.rest.instance import ConsumerInstance
from ottla.gateway.rest.instance_owner import client_id_of, owner_of
from ottla.gateway.rest.machine.consumer_bodies import InstanceSettings
from ottla.gateway.rest.machine.instance_table import NOT_FOUND, InstanceTable
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
                client_id=client_id_of(name, self._settings.advertised_url),
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
    async def used(
        self, group: str, name: str, login: Login | None, target: str
    ) -> AsyncIterator[ConsumerInstance]:
        """An instance for the length of a request. Raises HttpError(404), or 307 if another gateway has it."""
        try:
            instance = self._table.begin(group, name, login)
        except HttpError as missing:
            raise await self._elsewhere(group, name, login, target) or missing from missing
        try:
            await self._pool.admit(login)  # a token is renewed for as long as it is used
            yield instance
        finally:
            self._table.end(group, name, monotonic_ms())

    async def delete(self, group: str, name: str, login: Login | None, target: str) -> None:
        """The caller ends its instance. Raises HttpError(404), or 307 if another gateway has it."""
        try:
            instance = self._table.remove(group, name, login)
        except HttpError as missing:
            raise await self._elsewhere(group, name, login, target) or missing from missing
        await instance.close(is_done=True)

    async def _elsewhere(self, group: str, name: str, login: Login | None, target: str) -> HttpError | None:
        """Where the instance is, if it is a member of its group: members say through which gateway they are there.

        Members choose what they say. So callers are sent to the gateways that the settings name, and nowhere else.
        """
        peers = self._settings.peer_urls
        if not peers:
            return None
        try:
            async with self._pool.caller(login) as caller:
                found = (await (await caller.clients.admin()).describe_groups([group]))[group]
        except (KafkaError, OSError, HttpError):
            return None
        members = () if isinstance(found, KafkaError) else found.members
        url = owner_of(name, (each.client_id for each in members))
        if url is None or url not in peers or url == self._settings.advertised_url:
            return None
        words = f"the instance {name[:100]!r} of the group {group[:100]!r} is at {url}"
        return HttpError(307, words, error_code=NOT_FOUND, headers={"Location": url + target})

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
