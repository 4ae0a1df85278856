"""The chores of a broker: retention, flushing by time, checkpoints, forgetting idle producers
and connections.

Each chore has its own interval and never runs on the request path. A chore that fails is logged and tried
again at its next turn; it never takes the broker down.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from ottla.config import BrokerConfig, ProducerIdConfig, TopicConfig
from ottla.errors import KafkaError
from ottla.log.plan.retention import plan_retention
from ottla.server.net.listeners import Listeners
from ottla.server.partitions.flushing import Flusher
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.hosting import Hosting
from ottla.server.partitions.partition_table import Partitions
from ottla.server.partitions.tiered_part import TieredPart

logger = logging.getLogger(__name__)

_REAP_INTERVAL_MS = 5_000
# Flushing by time is checked so often; a topic's flush.ms is kept to within this.
_FLUSH_CHECK_INTERVAL_MS = 100
# A log that could not be opened is tried again so often: the disk may have room again.
_RETRY_INTERVAL_MS = 1_000
# After this many partitions a chore lets requests have their turn.
_PARTITIONS_PER_TURN = 16


class Housekeeping:
    """The chores of one broker, each a task."""

    def __init__(
        self,
        config: BrokerConfig,
        partitions: Partitions,
        hosting: Hosting,
        flusher: Flusher,
        listeners: Listeners,
        now_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self._producer_ids = config.producer_ids
        self._partitions = partitions
        self._hosting = hosting
        self._flusher = flusher
        self._listeners = listeners
        self._now_ms = now_ms
        self._tasks: list[asyncio.Task[None]] = []

    def configure(self, producer_ids: ProducerIdConfig) -> None:
        """Take a changed lifetime of producers over."""
        self._producer_ids = producer_ids

    def start(self, after_crash: bool) -> None:
        """Start every chore."""
        config = self._config
        if after_crash:
            self._tasks.append(asyncio.get_running_loop().create_task(self._settle()))
        chores: list[tuple[str, int, Callable[[], None] | None, Callable[[HostedPartition], None] | None]] = [
            ("retention", config.retention.check_interval_ms, None, self._retain),
            ("flushing by time", _FLUSH_CHECK_INTERVAL_MS, self._flush_by_time, None),
            ("checkpoints", config.flushes.offset_checkpoint_interval_ms, self._hosting.checkpoint, None),
            (
                "producer expiry",
                config.producer_ids.expiration_check_interval_ms,
                None,
                self._expire_producers,
            ),
            ("opening logs", _RETRY_INTERVAL_MS, self._hosting.retry, None),
            ("idle connections", _REAP_INTERVAL_MS, self._listeners.reap, None),
        ]
        loop = asyncio.get_running_loop()
        for name, interval_ms, whole, each in chores:
            self._tasks.append(loop.create_task(self._every(name, interval_ms, whole, each)))

    async def stop(self) -> None:
        """Stop every chore where it stands; none of them leaves anything half done."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _settle(self) -> None:
        """Make what recovery found durable and say so, so that another crash need not scan it again."""
        for partition in self._partitions:
            with suppress(KafkaError):
                await self._flusher.flushed(partition, partition.log.log_end_offset)
        self._hosting.checkpoint()

    async def _every(
        self,
        name: str,
        interval_ms: int,
        whole: Callable[[], None] | None,
        each: Callable[[HostedPartition], None] | None,
    ) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            try:
                if whole is not None:
                    whole()
                if each is not None:
                    await self._for_each_partition(each)
            except Exception:
                logger.exception("%s failed; the next turn is in %d ms", name, interval_ms)

    async def _for_each_partition(self, each: Callable[[HostedPartition], None]) -> None:
        for count, partition in enumerate(self._partitions):
            if not partition.is_closed:
                each(partition)
            if count % _PARTITIONS_PER_TURN == _PARTITIONS_PER_TURN - 1:
                await asyncio.sleep(0)

    def _retain(self, partition: HostedPartition) -> None:
        log = partition.log
        now_ms = self._now_ms()
        log.tail.roll_if_due(now_ms)
        config, deletable_up_to = partition.config, partition.deletable_up_to
        if partition.tier is not None:
            config, deletable_up_to = _local_limits(partition, partition.tier)
        plan = plan_retention(
            log.retention.segment_facts(),
            config,
            log_start_offset=log.log_start_offset,
            now_ms=now_ms,
            deletable_up_to=deletable_up_to,
        )
        if plan.roll_active:
            log.roll(now_ms)
        if plan.deletions:
            for deletion in plan.deletions:
                logger.info(
                    "deleting segment %d of %s: %s",
                    deletion.base_offset,
                    partition.name,
                    deletion.reason.value,
                )
            log.retention.delete_segments(plan, now_ms)
        for deleted in log.retention.take_deleted(now_ms):
            self._hosting.remove(partition.name, deleted)

    def _flush_by_time(self) -> None:
        """Ten times a second, so it must cost nothing where no topic has flush.ms: one comparison per
        partition.
        """
        now_ms = self._now_ms()
        for partition in self._partitions:
            policy = partition.flush_policy
            if policy.is_by_time and not partition.is_closed and policy.is_overdue(now_ms):
                self._flusher.flush(partition)

    def _expire_producers(self, partition: HostedPartition) -> None:
        partition.log.producers.expire(self._now_ms(), self._producer_ids.expiration_ms)


def _local_limits(partition: HostedPartition, tier: TieredPart) -> tuple[TopicConfig, int]:
    """By which settings, and up to where, local segments go: those that the object store holds, and those below
    the log start.
    """
    partition.advance_log_start_offset(tier.remote.start_offset)
    in_store = min(tier.agreed_offset, partition.high_watermark.value)
    return partition.config.local_limits, max(in_store, partition.log.log_start_offset)
