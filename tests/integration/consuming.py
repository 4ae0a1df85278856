"""Our consumer as tests use it: a member with short sessions, topics to read, and a reader in a task of its
own.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.integration.peer import Peer, batch, produce

from ottla.client.admin.admin import Admin
from ottla.client.consumer.consumer import Consumer, ConsumerRecord
from ottla.client.requests.groups import GroupDescription
from ottla.client.requests.outcomes import succeeded
from ottla.localcluster.broker_process import BrokerProcess
from ottla.localcluster.waiting import wait_until
from ottla.model import TopicPartition

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "log.retention.hours": "-1",  # some records here are of 1970
}
_NUMBERS = itertools.count()


def member(node: BrokerProcess, group_id: str, **options: Any) -> Consumer:
    quick = {"session_timeout_ms": 2_000, "heartbeat_interval_ms": 100, "metadata_max_age_ms": 200}
    settings = {"group_id": group_id, "auto_offset_reset": "earliest", **quick, **options}
    return Consumer(node.bootstrap, **settings)


def append(peer: Peer, topic: str, records: bytearray, *, partition: int = 0) -> None:
    """Write a batch; a partition of Apache Kafka's needs a moment after its topic was made."""

    def is_written() -> bool:
        return produce(peer, topic, records, partition=partition).error_code == 0

    wait_until(is_written, f"{topic}-{partition} takes records")


def fill(peer: Peer, topic: str, partitions: int, per_partition: int) -> set[bytes]:
    """So many records in each partition, all different."""
    made = set()
    for partition in range(partitions):
        values = [b"%d-%d-%d" % (next(_NUMBERS), partition, each) for each in range(per_partition)]
        append(peer, topic, batch(*values), partition=partition)
        made.update(values)
    return made


class Reader:
    """A member that reads in a task of its own, slowly, and remembers what it got."""

    def __init__(self, consumer: Consumer, topic: str) -> None:
        self.consumer = consumer
        self.topic = topic
        self.seen: list[ConsumerRecord] = []
        self.revocations: list[bool] = []

    async def read(self) -> None:
        def revoked(partitions: frozenset[TopicPartition]) -> None:
            self.revocations.append(False)

        async def lost(partitions: frozenset[TopicPartition]) -> None:
            self.revocations.append(True)

        self.consumer.subscribe([self.topic], on_revoked=revoked, on_lost=lost)
        async for record in self.consumer:
            self.seen.append(record)
            await asyncio.sleep(0)

    @property
    def values(self) -> set[bytes]:
        return {record.value or b"" for record in self.seen}


@asynccontextmanager
async def reading(consumer: Consumer, topic: str) -> AsyncIterator[Reader]:
    """The reader is cancelled at the end of the block, unless it was closed, and so leaves its group."""
    reader = Reader(consumer, topic)

    async def work() -> None:
        async with consumer:
            await reader.read()

    task = asyncio.ensure_future(work())
    try:
        yield reader
    finally:
        task.cancel()
        (outcome,) = await asyncio.gather(task, return_exceptions=True)
        assert outcome is None or isinstance(outcome, asyncio.CancelledError), outcome


async def described(node: BrokerProcess, group_id: str) -> GroupDescription:
    async with Admin(node.bootstrap) as admin:
        return succeeded(await admin.describe_groups([group_id]))[group_id]
