"""Deletes the oldest segments of all logs when the memory for data is nearly full.

For a broker that keeps its data in memory (`ottla.memory.bytes`). Topics that are only compacted lose nothing: when
they alone fill the memory, writes are refused as on a full disk.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ottla.log.plan.memory_release import LogFacts, plan_release
from ottla.runtime.disk import Disk
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.hosting import Hosting
from ottla.server.partitions.partition_table import Partitions

logger = logging.getLogger(__name__)

_INTERVAL_S: Final = 0.1
# Below the first share of free memory segments are deleted until the second is free.
_LOW: Final = 0.2
_ENOUGH: Final = 0.3


class MemoryLimit:
    """One task that looks at the free memory."""

    def __init__(
        self, disk: Disk, directory: str, partitions: Partitions, hosting: Hosting, now_ms: Callable[[], int]
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._partitions = partitions
        self._hosting = hosting
        self._now_ms = now_ms
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look at the memory from now on."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stop where it stands."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def release(self) -> None:
        """Delete what the limit asks for, now."""
        usage = self._disk.usage(self._directory)
        if usage.free_bytes >= usage.total_bytes * _LOW:
            return
        partitions = {each: _facts(each) for each in self._partitions if _may_lose_segments(each)}
        plan = plan_release(partitions, int(usage.total_bytes * _ENOUGH) - usage.free_bytes)
        now_ms = self._now_ms()
        for partition in plan.rolls:
            partition.log.roll(now_ms)
        for partition, deletions in plan.plans.items():
            logger.info(
                "%s: the memory for data is nearly full, records before %d are deleted",
                partition.name,
                deletions.log_start_offset,
            )
            partition.log.retention.delete_segments(deletions, now_ms)
            for deleted in partition.log.retention.take_deleted(now_ms):
                self._hosting.remove(partition.name, deleted)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL_S)
            try:
                self.release()
            except Exception:
                logger.exception("releasing memory failed; the next turn is in %.1f s", _INTERVAL_S)


def _may_lose_segments(partition: HostedPartition) -> bool:
    return not partition.is_closed and "delete" in partition.config.cleanup_policy


def _facts(partition: HostedPartition) -> LogFacts:
    log = partition.log
    return LogFacts(log.retention.segment_facts(), log.log_start_offset, partition.high_watermark.value)
