"""Carries compaction out: finds the dirtiest log, has its segments rewritten, swaps them in.

One log at a time. The event loop only plans and renames files. Reading, deciding and writing happen in the
cleaner process, and a thread waits for its answers. The process is started when the first log needs it and
ends after some idle time, so that a broker without compacted topics pays nothing.

A log that cannot be compacted is logged and set aside: until the broker restarts if the log is damaged, for a
while if the disk or the process failed. No record is lost by that: the log only stays as large as it is.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from ottla.config import CleanerConfig
from ottla.log.compaction.cleaned_segment import CleanedSegment
from ottla.log.compaction.cleaner import CleanerLimits, Mapped
from ottla.log.compaction.log_compaction import CleaningPass, SegmentGroup
from ottla.log.compaction.remote_cleaner import CleanerDied
from ottla.log.directory import LogDirectory
from ottla.log.plan.dirtiest_log import CleaningPlan, dirtiest
from ottla.records.batch import CorruptRecord
from ottla.runtime.clock import monotonic_s
from ottla.runtime.runtime import Runtime
from ottla.server.partitions.cleaning_thread import CleaningThread
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.partition_table import Partitions

logger = logging.getLogger(__name__)

# After this many partitions the search lets requests have their turn.
_PARTITIONS_PER_TURN: Final = 64
# How long a log is left alone after the disk failed under it: long enough for an operator to make room.
_SET_ASIDE_MS: Final = 600_000
_FOR_GOOD_MS: Final = 1 << 62
# Kafka allows a backoff of 0; an event loop that only looks for work serves no client.
_SHORTEST_BACKOFF_S: Final = 0.01


class Compaction:
    """The task that compacts the logs of one broker."""

    def __init__(
        self,
        config: CleanerConfig,
        partitions: Partitions,
        directory: LogDirectory,
        runtime: Runtime,
        now_ms: Callable[[], int],
    ) -> None:
        self._backoff_s = max(config.backoff_ms / 1000, _SHORTEST_BACKOFF_S)
        self._partitions = partitions
        self._directory = directory
        self._now_ms = now_ms
        self._cleaning = CleaningThread(
            CleanerLimits(
                map_bytes=config.dedupe_buffer_size,
                io_bytes=config.io_buffer_size,
                bytes_per_second=config.io_max_bytes_per_second,
            ),
            runtime.threads,
            runtime.workers,
        )
        self._set_aside: dict[HostedPartition, int] = {}
        # Since the start: passes, how long they took, bytes before and after, and failures.
        self.passes = 0
        self.busy_s = 0.0
        self.read_bytes = 0
        self.kept_bytes = 0
        self.failures = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look for work from now on."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stop where it stands. A pass that is not complete restarts after the next start."""
        self._cleaning.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._cleaning.close()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._backoff_s)
            try:
                while found := await self._dirtiest():
                    await self._compact(*found)
                self._cleaning.rest()
            except Exception:
                logger.exception("compaction failed; it goes on in %.1f s", self._backoff_s)

    async def _dirtiest(self) -> tuple[HostedPartition, CleaningPlan] | None:
        """The log that is compacted next, if any needs it."""
        plans: dict[HostedPartition, CleaningPlan] = {}
        now_ms = self._now_ms()
        self._set_aside = {
            partition: until_ms
            for partition, until_ms in self._set_aside.items()
            if until_ms > now_ms and not partition.is_closed
        }
        for count, partition in enumerate(self._partitions):
            if count % _PARTITIONS_PER_TURN == _PARTITIONS_PER_TURN - 1:
                await asyncio.sleep(0)
            if partition.config.is_compacted and not partition.is_closed and partition not in self._set_aside:
                plan = self._plan(partition, now_ms)
                if plan is not None:
                    plans[partition] = plan
        if not plans:
            return None
        chosen = dirtiest(plans)
        return chosen, plans[chosen]

    def _plan(self, partition: HostedPartition, now_ms: int) -> CleaningPlan | None:
        try:
            _roll_if_overdue(partition, now_ms)
            return partition.log.compaction.plan(partition.last_stable_offset, now_ms)
        except (OSError, CorruptRecord) as problem:
            self._leave_alone(partition, now_ms + _SET_ASIDE_MS, problem)
            return None

    async def _compact(self, partition: HostedPartition, plan: CleaningPlan) -> None:
        log = partition.log
        if log.status.is_closed:
            return
        begun = log.compaction.begin(plan, self._now_ms())
        try:
            await self._carry_out(partition, begun)
        except (CorruptRecord, OSError, CleanerDied) as problem:
            # The failure of a topic that is deleted meanwhile is not logged.
            if not log.status.is_closed:
                is_damaged = isinstance(problem, CorruptRecord)
                until_ms = _FOR_GOOD_MS if is_damaged else self._now_ms() + _SET_ASIDE_MS
                self._leave_alone(partition, until_ms, problem)
                with suppress(OSError):
                    await asyncio.to_thread(log.compaction.drop_cleaned)

    async def _carry_out(self, partition: HostedPartition, begun: CleaningPass) -> None:
        log, started_s = partition.log, monotonic_s()
        mapped = await self._build_map(partition, begun)
        if mapped is None:
            return
        done: list[CleanedSegment] = []
        before_bytes = 0
        for group in log.compaction.groups(begun, mapped.end_offset):
            cleaned = await self._clean(partition, group)
            if cleaned is not None and log.compaction.swap(group, cleaned, self._now_ms()):
                done.append(cleaned)
                before_bytes += group.size_bytes
        if (
            log.status.is_closed
            or log.compaction.was_truncated_since(begun)
            or not partition.config.is_compacted
        ):
            return
        took_s = monotonic_s() - started_s
        self._count(done, before_bytes, took_s)
        _tell(partition, begun, mapped.end_offset, done, before_bytes, took_s)
        horizons = [cleaned.next_horizon_ms for cleaned in done if cleaned.next_horizon_ms is not None]
        log.compaction.complete(mapped, min(horizons, default=None))
        await asyncio.to_thread(
            self._directory.checkpoint_cleaner, partition.topic, partition.index, mapped.end_offset
        )

    @property
    def set_aside_count(self) -> int:
        """How many logs are left alone because they could not be compacted."""
        return len(self._set_aside)

    def _count(self, done: list[CleanedSegment], before_bytes: int, took_s: float) -> None:
        self.passes += 1
        self.busy_s += took_s
        self.read_bytes += before_bytes
        self.kept_bytes += sum(cleaned.size_bytes for cleaned in done)

    async def _build_map(self, partition: HostedPartition, begun: CleaningPass) -> Mapped | None:
        """None if the log lost segments meanwhile: then there is another plan to make."""
        try:
            return await self._cleaning.call(lambda cleaner: cleaner.build_map(begun.job))
        except FileNotFoundError:
            if partition.log.status.is_closed or not partition.log.compaction.is_whole(begun):
                return None
            raise

    async def _clean(self, partition: HostedPartition, group: SegmentGroup) -> CleanedSegment | None:
        """None if the group is not needed any more: it was deleted, or the topic is not compacted now."""
        log = partition.log
        try:
            if log.compaction.is_intact(group) and partition.config.is_compacted and not log.status.is_closed:
                return await self._cleaning.call(lambda cleaner: cleaner.clean(group.base_offsets))
        except FileNotFoundError:
            if log.compaction.is_intact(group) and not log.status.is_closed:
                raise
        return None

    def _leave_alone(self, partition: HostedPartition, until_ms: int, problem: Exception) -> None:
        how_long = "until the broker restarts" if until_ms == _FOR_GOOD_MS else "for ten minutes"
        logger.error("%s cannot be compacted and is left alone %s: %s", partition.name, how_long, problem)
        self._set_aside[partition] = until_ms
        self.failures += 1


def _roll_if_overdue(partition: HostedPartition, now_ms: int) -> None:
    """The active segment is never compacted, so it must not hold a record longer than
    max.compaction.lag.ms.
    """
    active = partition.log.extent.segments.active
    oldest_ms = now_ms - partition.config.max_compaction_lag_ms
    # The first timestamp costs a look into the segment, the bound below it is nearly always negative.
    if oldest_ms > 0 and active.size_bytes and 0 <= active.first_timestamp < oldest_ms:
        partition.log.roll(now_ms)


def _tell(
    partition: HostedPartition,
    begun: CleaningPass,
    end_offset: int,
    done: list[CleanedSegment],
    before_bytes: int,
    took_s: float,
) -> None:
    logger.info(
        "compacted %s up to offset %d (clean before: %d): %d of %d records stay, %d of %d bytes, in %d segments, %.1f s",
        partition.name,
        end_offset,
        begun.job.first_dirty_offset,
        sum(cleaned.records_kept for cleaned in done),
        sum(cleaned.records_seen for cleaned in done),
        sum(cleaned.size_bytes for cleaned in done),
        before_bytes,
        len(done),
        took_s,
    )
