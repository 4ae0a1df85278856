"""The loop of a mirror: records of the source, and the position in it, in one transaction of the target.

    source   poll ──►  transaction { records with their source offset in a header; positions }  ──►  target

Rules
- The positions are committed offsets of a group of the *target*, `ottla-mirror.<name>`: they are committed with the
  records, or not at all. A mirror that was killed goes on where its last committed transaction ended, and copies
  nothing twice that readers of committed records see.
- The name is the transactional id as well: a second mirror of the same name fences the first.
- Keys, values, headers, timestamps, partitions and order stay. Offsets do not: `translation` maps them.
- Only committed records of the source are copied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.admin.admin import Admin
from ottla.client.cluster.backoff import backoff_ms
from ottla.client.consumer.consumer import Consumer, ConsumerRecord
from ottla.client.mirror.target_topics import chosen_topics, prepare
from ottla.client.mirror.translation import SOURCE_OFFSET, mirror_groups
from ottla.client.producer.machine.transaction_errors import (
    TransactionAbortedError,
    TransactionUncertainError,
)
from ottla.client.producer.producer import Producer
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.offsets import OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.model import TopicPartition
from ottla.runtime.clock import precise_ms
from ottla.security.settings import Security

_MOST_RECORDS: Final = 2000
_POLL_MS: Final = 500
_CLIENT_ID: Final = "ottla-mirror"


@dataclass(frozen=True, slots=True)
class Side:
    """How to reach one of the clusters."""

    bootstrap: str
    security: Security | None = None


@dataclass(frozen=True, slots=True)
class MirrorProgress:
    """How far a mirror is: records copied since its start, records that the source has more, groups moved last."""

    copied: int
    behind: int
    groups: int


class Mirror:
    """Copies topics from one cluster to another; `run` ends with `once`, by an error, or when it is cancelled."""

    def __init__(
        self,
        source: Side,
        target: Side,
        *,
        name: str = "mirror",
        topics: Sequence[str] = (),
        groups: Sequence[str] | None = None,
        interval_ms: int = 5_000,
        on_progress: Callable[[MirrorProgress], None] | None = None,
    ) -> None:
        self._source, self._target = source, target
        self._group = f"ottla-mirror.{name}"
        self._topics = topics
        # None: the offsets of no group; empty: of all groups.
        self._groups = groups
        self._interval_ms = interval_ms
        self._on_progress = on_progress
        self._copied = 0

    async def run(self, *, once: bool = False) -> MirrorProgress:
        """Copy; with `once`, up to the ends that the source has now. Raises KafkaError."""
        source, target = self._source, self._target
        async with (
            Admin(source.bootstrap, client_id=_CLIENT_ID, security=source.security) as source_admin,
            Admin(target.bootstrap, client_id=_CLIENT_ID, security=target.security) as target_admin,
            Consumer(
                source.bootstrap,
                client_id=_CLIENT_ID,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                security=source.security,
            ) as consumer,
            Producer(
                target.bootstrap,
                client_id=_CLIENT_ID,
                transactional_id=self._group,
                security=target.security,
            ) as producer,
        ):
            copying = _Copying(self._group, source_admin, target_admin, consumer, producer)
            await copying.begin(await chosen_topics(source_admin, self._topics))
            return await self._loop(copying, once)

    async def _loop(self, copying: _Copying, once: bool) -> MirrorProgress:
        ends = await copying.ends()
        told_ms = precise_ms()
        while True:
            self._copied += await copying.step()
            is_done = once and copying.behind(ends) == 0
            if is_done or precise_ms() - told_ms >= self._interval_ms:
                told_ms = precise_ms()
                groups = 0 if self._groups is None else await copying.move_groups(list(self._groups))
                progress = MirrorProgress(self._copied, copying.behind(await copying.ends()), groups)
                if self._on_progress is not None:
                    self._on_progress(progress)
                if is_done:
                    return progress


class _Copying:
    """One run, with its clients."""

    def __init__(
        self, group: str, source: Admin, target: Admin, consumer: Consumer, producer: Producer
    ) -> None:
        self._group = group
        self._source, self._target = source, target
        self._consumer, self._producer = consumer, producer
        self._partitions: list[TopicPartition] = []

    async def begin(self, topics: list[str]) -> None:
        """Make the topics, and continue where the last transaction of this mirror ended."""
        self._partitions = await prepare(self._source, self._target, topics)
        self._consumer.assign(self._partitions)
        # The producer has fenced its predecessor, and ended its transaction: the positions are final.
        await self._go_back()

    async def _go_back(self) -> None:
        committed = await self._target.list_group_offsets(self._group, self._partitions)
        starts = succeeded(
            await self._source.list_offsets(dict.fromkeys(self._partitions, int(OffsetSpec.EARLIEST)))
        )
        for partition in self._partitions:
            at = committed.get(partition)
            wanted = at.offset if isinstance(at, CommittedOffset) else 0
            self._consumer.seek(partition, max(wanted, starts[partition].offset))

    async def step(self) -> int:
        """Copy what one poll brings; how many records that were."""
        records = await self._consumer.poll(max_records=_MOST_RECORDS, timeout_ms=_POLL_MS)
        failures = 0
        while records:
            try:
                async with self._producer.transaction():
                    await self._send(records)
                return len(records)
            except TransactionUncertainError:
                await self._go_back()
                return 0
            except TransactionAbortedError as error:
                if not error.code.retriable:
                    raise
                failures += 1
                await asyncio.sleep(backoff_ms(failures) / 1000)
        return 0

    async def _send(self, records: list[ConsumerRecord]) -> None:
        positions: dict[TopicPartition, int] = {}
        for record in records:
            self._producer.send_soon(
                record.topic,
                record.value,
                record.key,
                partition=record.partition,
                headers=(*record.headers, (SOURCE_OFFSET, b"%d" % record.offset)),
                timestamp_ms=max(record.timestamp_ms, 0),
            )
            positions[TopicPartition(record.topic, record.partition)] = record.offset + 1
            await self._producer.drain()
        await self._producer.send_offsets(self._group, positions)

    async def ends(self) -> dict[TopicPartition, int]:
        """The ends of the source, as readers of committed records see them."""
        listed = await self._source.list_offsets(
            dict.fromkeys(self._partitions, int(OffsetSpec.LATEST)), read_committed=True
        )
        return {key: each.offset for key, each in succeeded(listed).items()}

    def behind(self, ends: Mapping[TopicPartition, int]) -> int:
        """How many offsets there are between the position and the ends."""
        return sum(max(0, end - (self._consumer.position(key) or 0)) for key, end in ends.items())

    async def move_groups(self, groups: list[str]) -> int:
        """Take the offsets of groups over to the target."""
        return await mirror_groups(self._source, self._target, set(self._partitions), groups)
