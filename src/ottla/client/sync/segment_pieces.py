"""Reads the record batches of one segment from an object store, piece by piece, the next piece ahead.

Rules
- Every byte is checked before it is handed out: checksums, that offsets follow each other, that the segment ends
  where the brokers say. What does not fit is read once more, because an answer may have been torn on its way.
- The piece after the one that is handed out is read meanwhile, in a thread. No more than two are held in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from crc32c import crc32c

from ottla.client.requests.remote_segments import INDEX, LOG, ReadableSegment
from ottla.client.sync.range_batches import PlacedBatch, RangeBatches
from ottla.records.corruption import CorruptRecord
from ottla.records.header import CRC_START, HEADER_BYTES, read_header
from ottla.records.index_lookup import position_before
from ottla.runtime.object_store import ObjectStore, StoreError
from ottla.runtime.threads import Executor, Future

T = TypeVar("T")

_ATTEMPTS: Final = 2


class Source(NamedTuple):
    """A store, threads that read from it, and how much they read at a time."""

    store: ObjectStore
    pool: Executor
    piece_bytes: int


class SegmentPieces:
    """The batches of a segment, from the one with `offset` on."""

    def __init__(self, source: Source, segment: ReadableSegment, offset: int) -> None:
        self.segment = segment
        self._source = source
        self._log = segment.objects[LOG]
        self._offset = offset  # what comes next
        self._place: _Place | None = _Place(0, segment.base_offset) if offset == segment.base_offset else None
        self._wanted_bytes = source.piece_bytes
        self._ahead: Future[bytes] | None = None

    @property
    def is_read(self) -> bool:
        """Whether everything was handed out."""
        return self._offset >= self.segment.next_offset

    def begin(self) -> None:
        """Read the next piece ahead, unless nobody knows yet where it begins."""
        if self._place is not None and self._ahead is None and not self.is_read:
            place, wanted = self._place, self._size_at(self._place)
            self._ahead = self._source.pool.submit(
                self._source.store.get, self._log.name, place.position, wanted
            )

    def read(self, end: int) -> RangeBatches:
        """The next batches with offsets below `end`, which are checked. StoreError."""
        end = min(end, self.segment.next_offset)
        return twice(self._log.name, lambda: self._read(end))

    def _read(self, end: int) -> RangeBatches:
        if self._place is None:
            self._place = self._found_place()
        place = self._place
        data = self._data(place)
        while True:
            batches, behind = _checked(data, place)
            if batches:
                break
            needed = HEADER_BYTES if len(data) < HEADER_BYTES else read_header(data, 0).size_bytes
            if len(data) >= self._log.size_bytes - place.position:
                raise CorruptRecord("the segment ends within a batch")
            self._wanted_bytes = max(needed, 2 * self._wanted_bytes)
            data = self._data(place)
        next_offset = batches[-1].header.last_offset + 1
        if place.position + behind == self._log.size_bytes and next_offset < self.segment.next_offset:
            raise CorruptRecord(f"the segment ends at offset {next_offset - 1}")
        start = self._offset
        self._place, self._offset = _Place(place.position + behind, next_offset), max(start, next_offset)
        wanted = [each for each in batches if each.header.last_offset >= start and each.header[0] < end]
        if self._offset < end:
            self.begin()
        return RangeBatches(
            memoryview(data), start, end, wanted, min(self._offset, end), None, is_checked=True
        )

    def _data(self, place: _Place) -> bytes:
        """The bytes at a place: those that were read ahead, if there are any."""
        wanted = self._size_at(place)
        ahead, self._ahead = self._ahead, None
        data = ahead.result() if ahead is not None else b""
        if len(data) < wanted:
            data = self._source.store.get(self._log.name, place.position, wanted)
        if len(data) != wanted:
            raise CorruptRecord(f"the store gave {len(data)} of {wanted} bytes")
        return data

    def _size_at(self, place: _Place) -> int:
        return min(self._wanted_bytes, self._log.size_bytes - place.position)

    def _found_place(self) -> _Place:
        """Where to begin to find an offset in the middle of the segment."""
        index = self.segment.objects.get(INDEX)
        if index is None:
            return _Place(0, self.segment.base_offset)
        data = whole(self._source.store, index.name, index.size_bytes, index.crc)
        position, last_offset = position_before(data, self.segment.base_offset, self._offset)
        return _Place(position, self.segment.base_offset if last_offset is None else None)


class _Place(NamedTuple):
    """Where a batch begins in the object, and its first offset if that is known."""

    position: int
    base_offset: int | None


def _checked(data: bytes, place: _Place) -> tuple[list[PlacedBatch], int]:
    """The whole batches, and where they end. CorruptRecord if they are not what was written."""
    batches: list[PlacedBatch] = []
    expected, position, size = place.base_offset, 0, len(data)
    view = memoryview(data)
    while size - position >= HEADER_BYTES:
        header = read_header(data, position)
        behind = position + header.size_bytes
        if behind > size:
            break
        if expected is not None and header.base_offset != expected:
            raise CorruptRecord(f"offset {header.base_offset} does not follow {expected - 1}")
        if crc32c(view[position + CRC_START : behind]) != header[4]:
            raise CorruptRecord(f"the batch with offset {header.base_offset} is not what was written")
        batches.append(PlacedBatch(position, behind, header))
        expected, position = header.last_offset + 1, behind
    return batches, position


def whole(store: ObjectStore, name: str, size_bytes: int, crc: int) -> bytes:
    """A small object, which is checked. StoreError."""

    def read() -> bytes:
        data = store.get(name, 0, size_bytes)
        if len(data) != size_bytes or crc32c(data) != crc:
            raise CorruptRecord("the object is not what was written")
        return data

    return twice(name, read)


def twice(name: str, read: Callable[[], T]) -> T:
    """Read again what came damaged; StoreError if it is damaged then, too."""
    for attempt in range(_ATTEMPTS):
        try:
            return read()
        except CorruptRecord as problem:
            if attempt == _ATTEMPTS - 1:
                raise StoreError(f"reading {name}: {problem}") from problem
    raise AssertionError
