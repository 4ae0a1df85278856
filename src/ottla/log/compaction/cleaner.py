"""Compacts one log's segments into .cleaned files (RET-3, RET-5), which the log then swaps in (`swap`).

    cleaner = Cleaner(OsDisk(), limits, throttle)
    mapped = cleaner.build_map(job)          how far the pass goes: the job's end, or less if the map is full
    cleaner.clean(bases)                     once per group of segments, in the order of the log

It changes no file of the log, so it may run beside it, in another process (cleaner_process.py). Memory is
bounded by the offset map, the read and write buffers, and the largest single batch. CorruptRecord and OSError
stop the pass: what was not swapped in yet is worth nothing then, and the log is what it was.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from ottla.log.compaction.cleaned_segment import CleanedSegment, SegmentWriter
from ottla.log.compaction.plan.batch_cleaning import BatchCleaner, LastBatches
from ottla.log.compaction.plan.offset_map import OffsetMap
from ottla.log.compaction.plan.record_spans import open_block, read_spans
from ottla.log.compaction.plan.transaction_trail import TransactionTrail, find_aborted, kept_entries
from ottla.log.compaction.segment_reader import SegmentReader, Throttle
from ottla.log.files.file_names import LOG, TXN_INDEX, file_name
from ottla.records.batch import BatchView
from ottla.runtime.disk import Disk

_LARGEST_OFFSET: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class CleanerLimits:
    """The memory and the throughput that a cleaner may use: three of the settings, with their values.

    A class of its own, because the cleaner's process does not import the settings: they would take 4.6 of its
    24 MB, and a fifth of its start.
    """

    map_bytes: int
    io_bytes: int
    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class CleaningJob:
    """One pass over one log: the plan, and the facts about the log that the cleaner needs."""

    directory: str
    first_dirty_offset: int
    end_offset: int
    now_ms: int
    delete_retention_ms: int
    index_interval_bytes: int
    segment_index_bytes: int
    segments: tuple[tuple[int, int], ...]
    """(base offset, bytes) of each, including the active one, whose markers may be needed."""
    producers: tuple[tuple[int, int, int], ...] = ()
    """(id, epoch, offset of the first batch that it may send again, or -1) of each live producer."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """The end of the pass: up to `end_offset` the newest offset of every key is known."""

    end_offset: int
    is_full: bool  # the map had no more room: another pass must continue from there
    keys: int


class Cleaner:
    """Carries out one job after the other."""

    def __init__(self, disk: Disk, limits: CleanerLimits, throttle: Throttle) -> None:
        self._disk = disk
        self._limits = limits
        self._throttle = throttle
        self._pass: _Pass | None = None

    def build_map(self, job: CleaningJob) -> Mapped:
        """Begin a pass: map each key of the dirty part to its newest offset."""
        self._pass = None  # free the map of the last pass before the next one is allocated
        self._pass = _Pass(self._disk, self._limits, self._throttle, job)
        return self._pass.build_map()

    def clean(self, base_offsets: Sequence[int]) -> CleanedSegment:
        """Rewrite one group of segments as one segment."""
        if self._pass is None:
            raise ValueError("there is no map yet")
        return self._pass.clean(base_offsets)


class _Files:
    """The segments of a job, to be read."""

    def __init__(self, disk: Disk, limits: CleanerLimits, throttle: Throttle, job: CleaningJob) -> None:
        self._disk = disk
        self._piece_bytes = limits.io_bytes
        self._throttle = throttle
        self._directory = job.directory
        self._first_dirty_offset = job.first_dirty_offset
        self._sizes = dict(job.segments)
        self._ends = dict(pairwise([*self._sizes, _LARGEST_OFFSET]))

    def dirty(self) -> Iterator[SegmentReader]:
        """The segments from the one with the first dirty offset to the log's end."""
        first = max((base for base in self._sizes if base <= self._first_dirty_offset), default=0)
        return (self.reader(base) for base in self._sizes if base >= first)

    def reader(self, base_offset: int) -> SegmentReader:
        path = f"{self._directory}/{file_name(base_offset, LOG)}"
        return SegmentReader(
            self._disk.open(path),
            path,
            self._sizes[base_offset],
            range(base_offset, self._ends[base_offset]),
            piece_bytes=self._piece_bytes,
            throttle=self._throttle,
        )

    def txn_entries(self, base_offset: int) -> bytes:
        path = f"{self._directory}/{file_name(base_offset, TXN_INDEX)}"
        return self._disk.read(path) if self._disk.exists(path) else b""


class _Pass:
    """One job in progress.

    It is in no reference cycle: its map must be freed before the next one is allocated.
    """

    def __init__(self, disk: Disk, limits: CleanerLimits, throttle: Throttle, job: CleaningJob) -> None:
        self._disk = disk
        self._limits = limits
        self._throttle = throttle
        self._job = job
        self._files = files = _Files(disk, limits, throttle, job)
        span = job.end_offset - job.first_dirty_offset
        self._map = OffsetMap(limits.map_bytes, job.first_dirty_offset, keys=span)
        self._trail = TransactionTrail(lambda: find_aborted(files.dirty(), job.first_dirty_offset))
        self._end_offset = job.end_offset

    def build_map(self) -> Mapped:
        self._end_offset = self._fill()
        self._batches = BatchCleaner(
            self._map,
            self._end_offset,
            self._trail,
            {producer_id: LastBatches(epoch, offset) for producer_id, epoch, offset in self._job.producers},
            now_ms=self._job.now_ms,
            delete_retention_ms=self._job.delete_retention_ms,
        )
        return Mapped(self._end_offset, self._end_offset < self._job.end_offset, self._map.count)

    def _fill(self) -> int:
        """Fill the map; return the offset up to which all keys are in it."""
        for segment in self._files.dirty():
            for batch, _ in segment.batches():
                if batch.base_offset >= self._job.end_offset:
                    return self._job.end_offset
                if batch.last_offset >= self._job.first_dirty_offset and not batch.is_control:
                    refused_offset = self._learn(batch)
                    if refused_offset is not None:
                        return refused_offset
        return self._job.end_offset

    def _learn(self, batch: BatchView) -> int | None:
        """Map a batch's keys; return the offset of the first record for which the map has no room."""
        if self._trail.is_aborted(batch.header):
            return None
        put, base_offset = self._map.put, batch.base_offset
        first_dirty_delta = self._job.first_dirty_offset - base_offset
        for _, _, delta, key, _ in read_spans(open_block(batch)):
            if key is not None and delta >= first_dirty_delta and not put(key, base_offset + delta):
                return base_offset + delta
        return None

    def clean(self, base_offsets: Sequence[int]) -> CleanedSegment:
        job = self._job
        writer = SegmentWriter(
            self._disk,
            job.directory,
            base_offsets[0],
            interval_bytes=job.index_interval_bytes,
            max_index_bytes=job.segment_index_bytes,
            io_bytes=self._limits.io_bytes,
            throttle=self._throttle,
        )
        for base_offset in base_offsets:
            for batch, is_last in self._files.reader(base_offset).batches():
                is_last = is_last and base_offset == base_offsets[-1]
                kept = self._batches.clean(batch, is_last=is_last)
                if kept is not None:
                    writer.add(kept.data, kept.header)
        txn_entries = b"".join(
            kept_entries(self._files.txn_entries(base_offset), self._trail, self._end_offset)
            for base_offset in base_offsets
        )
        writer.finish(txn_entries)
        tally = self._batches.take_tally()
        return CleanedSegment(
            base_offset=base_offsets[0],
            size_bytes=writer.size_bytes,
            has_txn_index=bool(txn_entries),
            records_seen=tally.records_seen,
            records_kept=tally.records_kept,
            next_horizon_ms=tally.next_horizon_ms,
        )
