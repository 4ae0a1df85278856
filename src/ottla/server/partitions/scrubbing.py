"""Reads closed segments again in the background, in search of records that the disk has damaged.

One pass goes over all partitions, and begins with any of them: a broker that restarts often still comes to all of its
segments. It reads within `ottla.log.scrub.io.max.bytes.per.second`, in a thread, and rests when it is through: a
broker with little data reads for seconds in a week. The page cache may hold what the disk does not hold any more: a
segment that is read often is checked where it is read from.

A damaged segment is noted as unread, as after a read that failed: server/replicas/damaged_replicas.py looks again and
decides.
"""

import asyncio
import logging
from typing import Final

from ottla.config import ScrubConfig
from ottla.log.scrubbing.segment_check import SegmentCheck
from ottla.log.segments.segment import Segment
from ottla.runtime.clock import monotonic_s
from ottla.runtime.randomness import Randomness
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.partition_table import Partitions

logger = logging.getLogger(__name__)

# A broker that has just started has other things to read.
_FIRST_REST_S: Final = 5.0
# After this many partitions without a closed segment a pass lets requests have their turn.
_PARTITIONS_PER_TURN: Final = 64


class Scrubber:
    """The task that reads the closed segments of one broker."""

    def __init__(self, config: ScrubConfig, partitions: Partitions, random: Randomness) -> None:
        self._config = config
        self._partitions = partitions
        self._random = random
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Read from now on."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stop where it stands."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def configure(self, config: ScrubConfig) -> None:
        """Take changed settings over; they hold from the next piece on."""
        if config != self._config:
            self._config = config
            self._changed.set()

    async def _run(self) -> None:
        await self._rest(_FIRST_REST_S)
        while True:
            began_s = monotonic_s()
            try:
                if self._config.io_max_bytes_per_second:
                    await self._pass()
            except Exception:
                logger.exception("reading closed segments again failed")
            while (left_s := began_s + self._config.interval_ms / 1000 - monotonic_s()) > 0:
                if await self._rest(left_s) and self._config.io_max_bytes_per_second:
                    break

    async def _rest(self, seconds: float) -> bool:
        """Wait; shorter if the settings change. Whether they did."""
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def _pass(self) -> None:
        partitions = list(self._partitions)
        first = self._random.randrange(len(partitions)) if partitions else 0
        for count, partition in enumerate([*partitions[first:], *partitions[:first]]):
            for segment in tuple(partition.log.extent.segments)[:-1]:
                await self._read(partition, segment)
            if count % _PARTITIONS_PER_TURN == _PARTITIONS_PER_TURN - 1:
                await asyncio.sleep(0)

    async def _read(self, partition: HostedPartition, segment: Segment) -> None:
        log = partition.log
        if log.status.is_closed or segment not in tuple(log.extent.segments):
            return
        try:
            check = SegmentCheck(segment)
        except OSError:
            log.status.note_unread(segment.base_offset)
            return
        while not check.is_complete:
            began_s = monotonic_s()
            size_bytes = await asyncio.to_thread(check.step)
            rate = self._config.io_max_bytes_per_second
            if not rate:
                return
            await asyncio.sleep(max(0.0, began_s + size_bytes / rate - monotonic_s()))
        if check.damage is not None and not log.status.is_closed and check.is_current(log.extent.segments):
            log.status.note_unread(segment.base_offset)
