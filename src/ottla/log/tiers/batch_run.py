"""Whole batches that were read from an object store, every byte of them checked before a reader sees it.

A batch's checksum covers all but its base offset and its leader epoch. Those follow from the rest: offsets are
dense, and the metadata has the leader epochs. What does not fit is CorruptRecord, and is never served.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from io import UnsupportedOperation
from typing import NamedTuple

from ottla.log.reading.reader import FileRange
from ottla.log.status import Status
from ottla.model import NO_EPOCH, NO_OFFSET
from ottla.records.batch import HEADER_BYTES, BatchView, CorruptRecord, read_header
from ottla.runtime.disk import Buffer


class Bounds(NamedTuple):
    """What the batches of a segment's object must keep to: its size, the offsets that count, the leader epochs."""

    size_bytes: int
    base_offset: int
    next_offset: int
    epochs: tuple[tuple[int, int], ...] | None  # None: they are not known, and not compared

    def has_epoch(self, epoch: int, offset: int) -> bool:
        """Whether the record at `offset` was written in a leader epoch."""
        if self.epochs is None:
            return True
        return epoch == next((known for known, start in reversed(self.epochs) if start <= offset), NO_EPOCH)


class BatchRun:
    """Batches without a gap between them, as they stand in the object from `position` on."""

    __slots__ = ("_batches", "_file", "_last_offsets", "data", "first_offset", "next_offset", "next_position")

    def __init__(self, data: memoryview, position: int, batches: "list[PlacedBatch]") -> None:
        self.data = data
        self._file = _HeldBytes(data)
        self._batches = batches
        self._last_offsets = [each.last_offset for each in batches]
        self.first_offset = batches[0].base_offset
        self.next_offset = batches[-1].last_offset + 1
        self.next_position = position + len(data)

    def covers(self, offset: int) -> bool:
        """Whether a read at `offset` can be answered from here."""
        return self.first_offset <= offset < self.next_offset

    def read(
        self, offset: int, max_bytes: int, upper_offset: int, at_least_one: bool, status: Status
    ) -> FileRange | None:
        """Whole batches from the one with `offset` on, that begin below `upper_offset`."""
        first = bisect_left(self._last_offsets, offset)
        start = self._batches[first].start
        end, next_offset = start, offset
        for number, batch in enumerate(self._batches[first:]):
            is_too_much = batch.end - start > max_bytes and (number or not at_least_one)
            if is_too_much or batch.base_offset >= upper_offset:
                break
            end, next_offset = batch.end, batch.last_offset + 1
        return FileRange(self._file, start, end - start, next_offset, status) if end > start else None

    def first_at(self, timestamp_ms: int, start_offset: int) -> tuple[int, int] | None:
        """(timestamp, offset) of the first record at or after a time and an offset."""
        for placed in self._batches:
            batch = BatchView(self.data, placed.start)
            if batch.max_timestamp < timestamp_ms or batch.last_offset < start_offset:
                continue
            for record in batch.records():
                if record.timestamp >= timestamp_ms and record.offset >= start_offset:
                    return record.timestamp, record.offset
        return None


class PlacedBatch(NamedTuple):
    """Where a batch stands in the data of its run, and its offsets."""

    start: int
    end: int
    base_offset: int
    last_offset: int
    leader_epoch: int


def parse_run(
    data: bytes, position: int, bounds: Bounds, wanted_offset: int, first_last_offset: int | None = None
) -> BatchRun | int | None:
    """The whole batches in `data`, which was read at `position`, from the one with `wanted_offset` on.

    If there is not one whole batch, the number of bytes that are needed from `position` on; None if the segment
    has no batch there. `first_last_offset` is the last offset of the batch at `position`, as the index has it.
    CorruptRecord if the bytes cannot be what was written.
    """
    batches, at, is_end = whole_batches(data, position, bounds, first_last_offset)
    wanted = [batch for batch in batches if batch.last_offset >= wanted_offset]
    if wanted:
        start = wanted[0].start
        moved = [batch._replace(start=batch.start - start, end=batch.end - start) for batch in wanted]
        return BatchRun(memoryview(data)[start : wanted[-1].end], position + start, moved)
    if is_end:
        return None
    left = len(data) - at
    batch_bytes = read_header(data, at).size_bytes if left >= HEADER_BYTES else HEADER_BYTES
    if position + at + batch_bytes > bounds.size_bytes:
        raise CorruptRecord("a batch claims more bytes than its segment has")
    return at + batch_bytes


def whole_batches(
    data: bytes, position: int, bounds: Bounds, first_last_offset: int | None
) -> tuple[list[PlacedBatch], int, bool]:
    """The batches, where the last of them ends, and whether the segment has no more."""
    has_all = position + len(data) >= bounds.size_bytes
    batches: list[PlacedBatch] = []
    at, expected = 0, None if position else bounds.base_offset
    while at < len(data):
        left = len(data) - at
        if left < HEADER_BYTES or read_header(data, at).size_bytes > left:
            if has_all:
                raise CorruptRecord("the segment ends within a batch")
            return batches, at, False
        batch = BatchView(data, at)
        if expected is None:
            expected = batch.base_offset if first_last_offset in (None, batch.last_offset) else NO_OFFSET
        if batch.base_offset != expected or not batch.crc_is_valid():
            raise CorruptRecord(f"{batch} is not what was written, or does not follow offset {expected - 1}")
        if batch.base_offset >= bounds.next_offset:
            return batches, at, True
        epoch = batch.partition_leader_epoch
        if not bounds.has_epoch(epoch, batch.base_offset):
            raise CorruptRecord(f"{batch} has another leader epoch than was written")
        batches.append(PlacedBatch(at, at + batch.size_bytes, batch.base_offset, batch.last_offset, epoch))
        at, expected = at + batch.size_bytes, batch.next_offset
    return batches, at, has_all


def run_that_covers(runs: Sequence[BatchRun], offset: int) -> BatchRun | None:
    """The run, among runs in the order of their offsets, that answers a read at `offset`."""
    number = bisect_right(runs, offset, key=lambda run: run.first_offset) - 1
    found = runs[number] if number >= 0 else None
    return found if found is not None and found.covers(offset) else None


class _HeldBytes:
    """Bytes in memory that are read like a file."""

    __slots__ = ("_data",)

    def __init__(self, data: memoryview) -> None:
        self._data = data

    @property
    def size(self) -> int:
        return len(self._data)

    def read(self, position: int, size: int) -> bytes:
        return bytes(self._data[position : position + size])

    def fileno(self) -> int | None:
        return None

    def append(self, buffers: Sequence[Buffer]) -> int:
        raise UnsupportedOperation("what was read from an object store cannot be written")

    def sync(self) -> None:
        raise UnsupportedOperation("what was read from an object store cannot be flushed")

    def truncate(self, size: int) -> None:
        raise UnsupportedOperation("what was read from an object store cannot be truncated")
