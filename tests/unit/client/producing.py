"""Shared by tests of the producer's machine: settings, a clock that stands still, and an accumulator to
drive by hand.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ottla.client.producer.machine.accumulator import Accumulator
from ottla.client.producer.machine.batch import ProducerBatch
from ottla.client.producer.machine.idempotence import ProducerIdentity
from ottla.client.producer.machine.partitioners import Partitioner, by_key
from ottla.client.producer.machine.settings import ProducerSettings
from ottla.client.producer.machine.topic_queues import TopicQueues
from ottla.model import ACKS_ALL
from ottla.records.batch import BatchView
from ottla.records.compression import Compression

DEFAULTS = ProducerSettings(
    acks=ACKS_ALL,
    enable_idempotence=True,
    batch_size=16_384,
    linger_ms=5,
    buffer_memory=32 << 20,
    max_request_size=1 << 20,
    max_in_flight=5,
    compression=Compression.NONE,
    compression_level=None,
    compression_threshold=1024,
    delivery_timeout_ms=120_000,
    request_timeout_ms=30_000,
    max_block_ms=60_000,
    retries=2**31 - 1,
    retry_backoff_ms=100,
    retry_backoff_max_ms=1_000,
)


def settings(**changes: Any) -> ProducerSettings:
    return dataclasses.replace(DEFAULTS, **changes)


class Driven:
    """An accumulator of the topic `t`, its clock, and all leaders on broker 1, which knows the producer
    unless it is new.
    """

    def __init__(
        self, *, partitions: int = 1, partitioner: Partitioner = by_key, is_new: bool = False, **changes: Any
    ) -> None:
        self.now_ms = 1_000.0
        self.dues: list[float] = []
        self.slots = 1_000
        self.leaders: dict[int, int | None] = {}
        self.accumulator = Accumulator(
            settings(**changes),
            partitioner,
            clock=lambda: self.now_ms,
            draw=lambda: 0.5,
            on_due=self.dues.append,
        )
        self.accumulator.identity = ProducerIdentity(7, 0)
        self.topic: TopicQueues = self.accumulator.open_topic("t", partitions)
        for queue in self.topic.queues if not is_new else ():
            queue.settle(self.accumulator.identity)
            queue.heard(self.now_ms)

    def append(
        self,
        value: bytes | None = b"v",
        key: bytes | None = None,
        partition: int | None = 0,
        headers: tuple[tuple[str, bytes | None], ...] = (),
        timestamp_ms: int = 9,
    ) -> ProducerBatch:
        return self.accumulator.append(self.topic, value, key, headers, timestamp_ms, partition)[0]

    def take(self) -> list[ProducerBatch]:
        """The batches for broker 1 in one request."""
        return self.parcels().get(1, [])

    def parcels(self) -> dict[int, list[ProducerBatch]]:
        return self.accumulator.take(
            lambda partition: self.leaders.get(partition.partition, 1), lambda node_id: self.slots > 0
        )

    def done(self) -> list[ProducerBatch]:
        return self.accumulator.ledger.take_done()

    @property
    def buffered_bytes(self) -> int:
        return self.accumulator.ledger.buffered_bytes


def view(batch: ProducerBatch) -> BatchView:
    """The bytes that would be sent."""
    assert batch.encoded is not None
    return BatchView(bytes(batch.encoded))


def values(batch: ProducerBatch) -> list[bytes | None]:
    return [record.value for record in view(batch).records()]


def numbers(batch: ProducerBatch) -> tuple[int, int, int]:
    """Producer id, epoch and first sequence, as a broker reads them."""
    header = view(batch).header
    return header.producer_id, header.producer_epoch, header.base_sequence
