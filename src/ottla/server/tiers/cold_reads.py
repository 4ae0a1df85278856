"""Records below the local log start, for Fetch.

A read is answered from the cache or not at all: `read` never waits. What is missing is loaded in the background,
once for all who want it, and whoever waits is told; the piece after a piece that is read is loaded ahead. So a
cold read holds up no other: a fetch of several partitions is answered with what there is.

A store that fails gives its readers KAFKA_STORAGE_ERROR, which clients try again.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple
from uuid import UUID

from ottla.config import TierConfig
from ottla.controller.remote_log import RemoteLog, RemoteSegment
from ottla.errors import ErrorCode, KafkaError
from ottla.log.files.file_names import INDEX, TXN_INDEX
from ottla.log.reading.reader import FileRange
from ottla.log.tiers.batch_run import BatchRun
from ottla.records.corruption import CorruptRecord
from ottla.records.index_entries import AbortedEntry
from ottla.records.index_lookup import aborted_entries
from ottla.runtime.object_store import ObjectStore, StoreError
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.tiers.read_cache import CachedRun, ReadCache
from ottla.server.tiers.segment_reads import SegmentReads
from ottla.server.tiers.store_access import StoreAccess

# Failed loads whose readers have not come back for the reason.
_MOST_FAILURES: Final = 1024


class ColdRange(NamedTuple):
    """Records that were read, and the aborted transactions among them."""

    records: FileRange
    aborted: list[AbortedEntry]


_Key = tuple[UUID, int, int]
"""Of a load: the topic, the partition and the offset."""


class ColdReads:
    """The reads of one broker."""

    def __init__(self, config: TierConfig, access: StoreAccess) -> None:
        self._read_bytes = config.read_bytes
        self._access = access
        self.cache = ReadCache(config.cache_bytes)
        self._loads: dict[_Key, asyncio.Task[None]] = {}
        self._failures: dict[_Key, KafkaError] = {}
        # Pieces that were read from the store, and answered from the cache.
        self.loads = 0
        self.hits = 0

    def read(
        self, partition: HostedPartition, offset: int, max_bytes: int, *, at_least_one: bool
    ) -> ColdRange | None:
        """Whole batches from `offset` on, which lies below the local log start; None if they are not here yet.

        KafkaError if the last attempt to load them failed, or if nobody holds the offset.
        """
        failure = self._failures.pop(_key(partition, offset), None)
        if failure is not None:
            raise failure
        segment = self._segment(partition, offset)
        cached = self.cache.run(segment.segment_id, offset)
        local_start = partition.log.log_start_offset
        if cached is None or (cached.aborted_up_to is not None and cached.aborted_up_to < local_start):
            return None
        self.hits += 1
        self._read_ahead(partition, cached.run)
        found = cached.run.read(offset, max_bytes, local_start, at_least_one, partition.log.status)
        if found is None:
            return None
        return ColdRange(found, self._aborted(partition, cached, offset, found.next_offset))

    def load(self, partition: HostedPartition, offset: int) -> asyncio.Task[None]:
        """Load what `read` did not find. The task never fails: `read` tells the reason."""
        key = _key(partition, offset)
        task = self._loads.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._load(partition, offset))
            self._loads[key] = task
            task.add_done_callback(lambda _: self._loads.pop(key, None))
        return task

    async def stop(self) -> None:
        """Stop loading."""
        tasks = tuple(self._loads.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def run_at(self, partition: HostedPartition, offset: int) -> CachedRun:
        """The run of batches that holds `offset`, from the cache or the store. KafkaError."""
        segment = self._segment(partition, offset)
        cached = self.cache.run(segment.segment_id, offset)
        if cached is not None:
            return cached
        try:
            return await self._fetch(partition, segment, offset)
        except (StoreError, CorruptRecord) as problem:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{partition.name} at {offset}: {problem}"
            ) from problem

    async def index_of(self, partition: HostedPartition, segment: RemoteSegment, kind: str) -> bytes:
        """The bytes of an index; empty if the segment has none. StoreError."""
        data = self.cache.index(segment.segment_id, kind)
        if data is None:
            reads = _reads(partition, segment)
            data = await self._access.read(lambda store: reads.whole(store, kind))
            self.cache.add_index(segment.segment_id, kind, data)
        return data

    async def _load(self, partition: HostedPartition, offset: int) -> None:
        try:
            await self.run_at(partition, offset)
        except KafkaError as failure:
            if len(self._failures) >= _MOST_FAILURES:
                self._failures.pop(next(iter(self._failures)))
            self._failures[_key(partition, offset)] = failure

    async def _fetch(self, partition: HostedPartition, segment: RemoteSegment, offset: int) -> CachedRun:
        """Read a run from the store, and keep it."""
        index = await self.index_of(partition, segment, INDEX)
        found = await self._access.read(_run(_reads(partition, segment), index, self._read_bytes, offset))
        self.loads += 1
        cached = await self._with_aborted(partition, found)
        self.cache.add_run(segment.segment_id, cached)
        return cached

    async def _with_aborted(self, partition: HostedPartition, run: BatchRun) -> CachedRun:
        """Look for the aborted transactions of a run: the entry of each lies in the segment of its marker."""
        found: list[AbortedEntry] = []
        remote = _remote_of(partition)
        for segment in remote.from_offset(run.first_offset):
            if segment.object(TXN_INDEX) is None:
                continue
            for entry in aborted_entries(await self.index_of(partition, segment, TXN_INDEX)):
                if entry.last_offset >= segment.next_offset:
                    break  # the log was truncated within the segment: this marker is not in it
                is_later = entry.last_offset >= run.first_offset
                if is_later and entry.first_offset < run.next_offset:
                    found.append(entry)
                if is_later and entry.last_stable_offset >= run.next_offset:
                    return CachedRun(run, found, None)
        return CachedRun(run, found, remote.next_offset)

    def _aborted(
        self, partition: HostedPartition, cached: CachedRun, offset: int, next_offset: int
    ) -> list[AbortedEntry]:
        """The aborted transactions with records between two offsets of a run, markers in the local log included."""
        entries = {
            (entry.producer_id, entry.first_offset): entry
            for entry in cached.aborted
            if entry.last_offset >= offset and entry.first_offset < next_offset
        }
        if cached.aborted_up_to is not None:
            log = partition.log
            for entry in log.aborted_transactions(log.log_start_offset, next_offset):
                entries.setdefault((entry.producer_id, entry.first_offset), entry)
        return list(entries.values())

    def _read_ahead(self, partition: HostedPartition, run: BatchRun) -> None:
        """Load the piece after a run that is being read."""
        following = run.next_offset
        if following >= partition.log.log_start_offset or self._access.problem is not None:
            return
        segment = _remote_of(partition).segment_of(following)
        if segment is not None and self.cache.run(segment.segment_id, following) is None:
            self.load(partition, following)

    def _segment(self, partition: HostedPartition, offset: int) -> RemoteSegment:
        segment = _remote_of(partition).segment_of(offset)
        if segment is None:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"nobody holds offset {offset}")
        return segment


def _run(
    reads: SegmentReads, index: bytes, size_bytes: int, offset: int
) -> Callable[[ObjectStore], BatchRun]:
    return lambda store: reads.run(store, index, size_bytes, offset)


def _reads(partition: HostedPartition, segment: RemoteSegment) -> SegmentReads:
    return SegmentReads(partition.topic, partition.topic_id, partition.index, segment)


def _remote_of(partition: HostedPartition) -> RemoteLog:
    tier = partition.tier
    return RemoteLog() if tier is None else tier.remote


def _key(partition: HostedPartition, offset: int) -> _Key:
    return partition.topic_id, partition.index, offset
