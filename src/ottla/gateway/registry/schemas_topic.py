"""The topic `_schemas` as a catalog in memory: read from its beginning, and followed from then on.

`catch_up` makes reads linearizable: it asks the leader for the end of the topic and waits until the catalog has
come that far. Whatever was answered by any gateway before the call is in the catalog after it. One question to the
leader serves all calls that came before it was asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from types import TracebackType
from typing import Final

from ottla.client.admin.admin import Admin
from ottla.client.cluster.backoff import waits_ms
from ottla.client.consumer.consumer import Consumer
from ottla.client.requests.configs import ConfigResource, ResourceType
from ottla.client.requests.offsets import OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.client.requests.topics import NewTopic
from ottla.errors import ErrorCode, KafkaError
from ottla.gateway.registry.machine.catalog import Catalog
from ottla.model import TopicPartition
from ottla.schemas.registry.records import RegistryRecord, change_of
from ottla.security.settings import Security

logger = logging.getLogger(__name__)

TOPIC: Final = "_schemas"
PARTITION: Final = TopicPartition(TOPIC, 0)
CLIENT_ID: Final = "ottla-schema-registry"
_TIMEOUT_MS: Final = 15_000
# As Confluent's registry has it, if there are as many brokers.
_REPLICAS: Final = 3
_POLL_MS: Final = 60_000


class SchemasTopic:
    """Reads the topic while the block of `async with` lasts. `catalog` is what it says."""

    def __init__(self, bootstrap: str, security: Security) -> None:
        self.catalog = Catalog()
        self._admin = Admin(bootstrap, client_id=CLIENT_ID, timeout_ms=_TIMEOUT_MS, security=security)
        self._consumer = Consumer(
            bootstrap,
            client_id=CLIENT_ID,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            security=security,
        )
        self._open = contextlib.AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._is_wanted = asyncio.Event()
        self._moved = asyncio.Event()
        self._failure: BaseException | None = None

    @property
    def has_failed(self) -> bool:
        """Whether reading has ended by an error: another reader is needed."""
        return self._failure is not None

    async def __aenter__(self) -> SchemasTopic:
        try:
            await self._open.enter_async_context(self._admin)
            await _ensure_topic(self._admin)
            await _until_known(self._admin)
            await self._open.enter_async_context(self._consumer)
            self._consumer.assign([PARTITION])
        except BaseException:
            await self._open.aclose()
            raise
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(each) for each in (self._follow(), self._answer())]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._fail(ConnectionError("the schema registry was stopped"))
        await self._open.aclose()

    async def catch_up(self) -> None:
        """Wait until the catalog has all that was written before this call. Raises KafkaError and OSError."""
        if self._failure is not None:
            raise self._failure
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._is_wanted.set()
        await future

    async def has_read(self, offset: int) -> None:
        """Wait until the catalog has a record that was committed. Raises KafkaError and OSError.

        A commit is decided a moment before readers of committed records see it: when this reader does, the end that
        every later `catch_up` asks for lies behind the record.
        """
        async with asyncio.timeout(_TIMEOUT_MS / 1000):
            await self._reach(offset + 1)

    async def _follow(self) -> None:
        try:
            while True:
                for record in await self._consumer.poll(timeout_ms=_POLL_MS):
                    self._replay(RegistryRecord(record.key or b"", record.value), record.offset)
                self._moved.set()
        except Exception as error:
            logger.warning("%s cannot be read any more: %s", TOPIC, error)
            self._fail(error)

    def _replay(self, record: RegistryRecord, offset: int) -> None:
        try:
            change = change_of(record)
        except ValueError as error:
            logger.warning("the record of %s at offset %d is left out: %s", TOPIC, offset, error)
        else:
            if change is not None:
                self.catalog.replay(change)

    async def _answer(self) -> None:
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            asked, self._waiting = self._waiting, []
            try:
                async with asyncio.timeout(_TIMEOUT_MS / 1000):
                    await self._reach(await self._end_offset())
            except Exception as error:
                _settle(asked, error)
            else:
                _settle(asked, None)

    async def _end_offset(self) -> int:
        listed = await self._admin.list_offsets({PARTITION: OffsetSpec.LATEST}, read_committed=True)
        return succeeded(listed)[PARTITION].offset

    async def _reach(self, end: int) -> None:
        while (self._consumer.position(PARTITION) or 0) < end:
            if self._failure is not None:
                raise self._failure
            self._moved.clear()
            await self._moved.wait()

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._moved.set()
        waiting, self._waiting = self._waiting, []
        _settle(waiting, error)


def _settle(waiting: list[asyncio.Future[None]], error: BaseException | None) -> None:
    for each in waiting:
        if each.done():
            continue
        if error is None:
            each.set_result(None)
        else:
            each.set_exception(error)


async def _ensure_topic(admin: Admin) -> None:
    """Create the topic, or make sure that it can keep schemas. Raises KafkaError."""
    found = (await admin.describe_topics([TOPIC]))[TOPIC]
    if isinstance(found, KafkaError):
        if found.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise found
        await _create_topic(admin)
        return
    if len(found.partitions) != 1:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"the topic {TOPIC} has {len(found.partitions)} partitions: schemas are in order in a topic with one only",
        )
    resource = ConfigResource(ResourceType.TOPIC, TOPIC)
    configs = succeeded(await admin.describe_configs([resource]))[resource]
    policy = next((str(each.value) for each in configs.values() if each.name == "cleanup.policy"), "compact")
    if policy != "compact":
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"the topic {TOPIC} has cleanup.policy={policy}, which would lose schemas: set it to compact",
        )


async def _until_known(admin: Admin) -> None:
    """Wait until the topic is known to the brokers that are asked: not all hear at once that it was created."""
    async with asyncio.timeout(_TIMEOUT_MS / 1000):
        for pause_ms in waits_ms():
            found = (await admin.list_offsets({PARTITION: OffsetSpec.LATEST}))[PARTITION]
            if not isinstance(found, KafkaError) or found.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return
            await asyncio.sleep(pause_ms / 1000)


async def _create_topic(admin: Admin) -> None:
    brokers = len((await admin.describe_cluster()).brokers)
    topic = NewTopic(TOPIC, 1, min(_REPLICAS, max(brokers, 1)), {"cleanup.policy": "compact"})
    made = (await admin.create_topics([topic]))[TOPIC]
    if isinstance(made, KafkaError) and made.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise made
