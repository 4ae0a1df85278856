"""Two clients with the same transactions: confluent-kafka and ours.

A writer has one producer, and writes records to the partitions that it is told. A transaction ends before the
next one begins. A reader gives records as they come. Settings are the defaults of each client, but for
compression (lz4) and, in confluent-kafka's readers, the queues of `bench/client.py`: its default back-off
would be the limit. confluent-kafka speaks transaction version 1, ours the version of the cluster (2).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, NamedTuple, Protocol

from bench.client import CONSUMER, DEADLINE_SECONDS
from bench.mixed_records import MixedRecord
from confluent_kafka import Consumer, Producer, TopicPartition

import ottla

COMPRESSION: Final = "lz4"
AT_ONCE: Final = 10_000  # records that one call of a reader returns at most


class Placed(NamedTuple):
    """A record for a partition of the topic."""

    partition: int
    record: MixedRecord


class Writer(Protocol):
    """A producer of either client."""

    async def write(self, records: Iterable[Placed]) -> None:
        """Write without a transaction, and wait until all is acknowledged."""

    async def transact(
        self, records: Iterable[Placed], reader: Reader | None = None, *, commit: bool = True
    ) -> None:
        """Write in a transaction, with the offsets of what `reader` has returned, and wait for its end."""


class Reader(Protocol):
    """A consumer of either client."""

    source: Any

    async def more(self, limit: int = AT_ONCE) -> Sequence[tuple[bytes, bytes]]:
        """Keys and values of the next records, if any came within a second."""


class Library(Protocol):
    """How a client makes writers and readers."""

    def writer(
        self, bootstrap: str, topic: str, transactional_id: str | None
    ) -> AbstractAsyncContextManager[Writer]:
        """Idempotent; transactional if it has an id."""

    def reader(
        self, bootstrap: str, topic: str, partitions: int, *, committed: bool, group: str | None
    ) -> AbstractAsyncContextManager[Reader]:
        """From the first offset; the only member of the group, if there is one."""


class ConfluentWriter:
    def __init__(self, producer: Any, topic: str) -> None:
        self._producer = producer
        self._topic = topic

    async def write(self, records: Iterable[Placed]) -> None:
        self._send(records)
        if self._producer.flush(DEADLINE_SECONDS):
            raise TimeoutError("not every record was answered")

    async def transact(
        self, records: Iterable[Placed], reader: Reader | None = None, *, commit: bool = True
    ) -> None:
        producer = self._producer
        producer.begin_transaction()
        self._send(records)
        if reader is not None:
            consumer = reader.source
            positions = consumer.position(consumer.assignment())
            offsets = [each for each in positions if each.offset >= 0]
            producer.send_offsets_to_transaction(
                offsets, consumer.consumer_group_metadata(), DEADLINE_SECONDS
            )
        if commit:
            producer.commit_transaction(DEADLINE_SECONDS)
        else:
            producer.flush(DEADLINE_SECONDS)  # what is aborted is to be in the log
            producer.abort_transaction(DEADLINE_SECONDS)

    def _send(self, records: Iterable[Placed]) -> None:
        send, topic = self._producer.produce, self._topic
        for partition, record in records:
            while True:
                try:
                    send(topic, record.value, record.key, partition, headers=record.headers)
                    break
                except BufferError:
                    self._producer.poll(0.005)


class ConfluentReader:
    def __init__(self, consumer: Any) -> None:
        self.source = consumer

    async def more(self, limit: int = AT_ONCE) -> Sequence[tuple[bytes, bytes]]:
        found = self.source.consume(limit, 1.0)
        if wrong := next((each.error() for each in found if each.error()), None):
            raise AssertionError(f"the reader failed: {wrong}")
        return [(message.key(), message.value()) for message in found]


class Confluent:
    @asynccontextmanager
    async def writer(self, bootstrap: str, topic: str, transactional_id: str | None) -> AsyncIterator[Writer]:
        settings = {"bootstrap.servers": bootstrap, "compression.type": COMPRESSION, "log_level": 2}
        if transactional_id is None:
            yield ConfluentWriter(Producer({**settings, "enable.idempotence": True}), topic)
            return
        producer = Producer({**settings, "transactional.id": transactional_id})
        producer.init_transactions(DEADLINE_SECONDS)
        yield ConfluentWriter(producer, topic)

    @asynccontextmanager
    async def reader(
        self, bootstrap: str, topic: str, partitions: int, *, committed: bool, group: str | None
    ) -> AsyncIterator[Reader]:
        settings = {
            "bootstrap.servers": bootstrap,
            "log_level": 2,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
        if group is not None:
            settings |= {"group.id": group, "auto.offset.reset": "earliest"}
        consumer = Consumer({**CONSUMER, **settings})
        if group is not None:
            consumer.subscribe([topic])
        else:
            consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        yield ConfluentReader(consumer)
        consumer.close()


class OttlaWriter:
    def __init__(self, producer: ottla.Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic

    async def write(self, records: Iterable[Placed]) -> None:
        await self._send(records)
        await self._producer.flush()

    async def transact(
        self, records: Iterable[Placed], reader: Reader | None = None, *, commit: bool = True
    ) -> None:
        try:
            async with self._producer.transaction():
                await self._send(records)
                if reader is not None:
                    await self._producer.send_offsets(reader.source)
                if not commit:
                    await self._producer.flush()  # what is aborted is to be in the log
                    raise _UnwantedError
        except _UnwantedError:
            pass

    async def _send(self, records: Iterable[Placed]) -> None:
        send_soon, drain, topic = self._producer.send_soon, self._producer.drain, self._topic
        for partition, record in records:
            send_soon(topic, record.value, record.key, partition=partition, headers=record.headers)
            await drain()


class _UnwantedError(Exception):
    """Aborts a transaction on purpose."""


class OttlaReader:
    def __init__(self, consumer: ottla.Consumer) -> None:
        self.source = consumer

    async def more(self, limit: int = AT_ONCE) -> Sequence[tuple[bytes, bytes]]:
        found = await self.source.poll(max_records=limit, timeout_ms=1_000)
        return [(record.key or b"", record.value or b"") for record in found]


class Ottla:
    @asynccontextmanager
    async def writer(self, bootstrap: str, topic: str, transactional_id: str | None) -> AsyncIterator[Writer]:
        async with ottla.Producer(
            bootstrap, compression=COMPRESSION, transactional_id=transactional_id
        ) as producer:
            yield OttlaWriter(producer, topic)

    @asynccontextmanager
    async def reader(
        self, bootstrap: str, topic: str, partitions: int, *, committed: bool, group: str | None
    ) -> AsyncIterator[Reader]:
        async with ottla.Consumer(
            bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed" if committed else "read_uncommitted",
        ) as consumer:
            if group is not None:
                consumer.subscribe([topic])
            else:
                consumer.assign([ottla.TopicPartition(topic, number) for number in range(partitions)])
            yield OttlaReader(consumer)


LIBRARIES: Final[dict[str, Library]] = {"confluent-kafka": Confluent(), "ottla": Ottla()}
