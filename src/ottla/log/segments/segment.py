"""One segment: a .log file of whole batches in rising offsets, with its indexes (STO-2, STO-5).

The file and the maps are opened when they are used, and the pool may close them at any time (`open_files`).
After a clean stop a segment's size comes from the directory listing, its end from the next segment's name,
its largest timestamp from the last entry of its time index: nothing is read before it is needed.
"""

import logging
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from ottla.log.files.file_names import INDEX, LOG, SEGMENT_KINDS, TIME_INDEX, TXN_INDEX
from ottla.log.files.location import Location
from ottla.log.files.open_files import Slot
from ottla.log.segments.index import IndexFile, OffsetIndex, TimeIndex
from ottla.log.segments.transaction_index import TransactionIndex
from ottla.model import NO_TIMESTAMP
from ottla.records.batch import (
    BATCH_OVERHEAD_BYTES,
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    CorruptRecord,
    read_header,
)
from ottla.records.index_entries import OFFSET_ENTRY, TIME_ENTRY
from ottla.runtime.disk import File

logger = logging.getLogger(__name__)

_WALK_BYTES: Final = 8192  # an index interval and the header after it, in one read

_GLANCE: Final = Struct(">qi4xb6xi")  # base offset, length, magic, last offset delta

_START: Final = Struct(">q8xb")  # base offset, magic

# Indexes that must be rebuilt follow Kafka's defaults.
_INDEX_INTERVAL_BYTES: Final = 4096
_MAX_INDEX_BYTES: Final = 10 << 20
_LARGEST_WITHOUT_INDEX_BYTES: Final = 64 << 10

MAX_RELATIVE_OFFSET: Final = (1 << 31) - 1  # what an index entry can hold


class Placed(NamedTuple):
    """A batch's header and where the batch starts in the file."""

    position: int
    header: BatchHeader

    @property
    def end(self) -> int:
        return self.position + self.header.size_bytes

    @property
    def next_offset(self) -> int:
        return self.header.last_offset + 1


class Segment:
    """The batches from `base_offset` up to `next_offset`, in `size_bytes` bytes."""

    __slots__ = (
        "_first_timestamp",
        "_index",
        "_largest",
        "_location",
        "_slot",
        "_time_index",
        "_txn_index",
        "base_offset",
        "created_ms",
        "modified_ms",
        "next_offset",
        "since_index_bytes",
        "size_bytes",
    )

    def __init__(
        self,
        location: Location,
        base_offset: int,
        *,
        size_bytes: int,
        created_ms: int,
        modified_ms: int | None = None,
        next_offset: int | None = None,
    ) -> None:
        self._location = location
        self._index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._txn_index: TransactionIndex | None = None
        self._first_timestamp: int | None = None
        self._largest: tuple[int, int] | None = None if size_bytes else (NO_TIMESTAMP, base_offset)
        self.base_offset = base_offset
        self.next_offset = base_offset if next_offset is None else next_offset
        self.size_bytes = size_bytes
        self.since_index_bytes = 0
        self.created_ms = created_ms
        self.modified_ms = created_ms if modified_ms is None else modified_ms
        disk, path = location.disk, self.path(LOG)
        self._slot = Slot(location.open_files.files, lambda: disk.open(path))

    @classmethod
    def create(cls, location: Location, base_offset: int, *, now_ms: int) -> "Segment":
        """A new, empty segment; its three files exist afterwards."""
        for kind in (INDEX, TIME_INDEX, LOG):
            location.disk.open(location.path(base_offset, kind), create=True).truncate(0)
        return cls(location, base_offset, size_bytes=0, created_ms=now_ms)

    def __repr__(self) -> str:
        return (
            f"Segment({self._location.name}, {self.base_offset}..{self.next_offset}, {self.size_bytes} bytes)"
        )

    def path(self, kind: str) -> str:
        """The path of the segment's file of this kind."""
        return self._location.path(self.base_offset, kind)

    @property
    def file(self) -> File:
        """The .log file, open."""
        return self._slot.get()

    @property
    def index(self) -> OffsetIndex:
        """The offset index, loaded at its first use."""
        if self._index is None:
            self._load_indexes()
        assert self._index is not None
        return self._index

    @property
    def time_index(self) -> TimeIndex:
        """The time index, loaded at its first use."""
        if self._time_index is None:
            self._load_indexes()
        assert self._time_index is not None
        return self._time_index

    @property
    def txn_index(self) -> TransactionIndex:
        """The index of aborted transactions, loaded at its first use."""
        if self._txn_index is None:
            self._txn_index = TransactionIndex(self._location, self.path(TXN_INDEX))
        return self._txn_index

    def _load_indexes(self) -> None:
        self._index = OffsetIndex(self._index_file(INDEX, OFFSET_ENTRY), self.base_offset)
        self._time_index = TimeIndex(self._index_file(TIME_INDEX, TIME_ENTRY), self.base_offset)
        self.check_indexes()

    def check_indexes(self) -> None:
        """Rebuild the indexes if they cannot be this segment's."""
        if self.size_bytes and not self._indexes_fit():
            logger.warning("the indexes of %s are missing or damaged and are rebuilt", self.path(LOG))
            self.rebuild_indexes()

    def _index_file(self, kind: str, entry: Struct) -> IndexFile:
        disk, path = self._location.disk, self.path(kind)
        size_bytes = disk.size(path) if disk.exists(path) else 0
        return IndexFile(disk, path, entry, self._location.open_files.maps, size_bytes=size_bytes)

    def _indexes_fit(self) -> bool:
        """Whether the last entries point into the log, and no necessary entry is missing."""
        last_offset, position = self.index.last()
        time, time_offset = self.time_index.last
        # The end of an active segment is unknown before the segment was walked.
        end = (
            self.next_offset
            if self.next_offset > self.base_offset
            else self.base_offset + MAX_RELATIVE_OFFSET
        )
        if position >= self.size_bytes or not self.base_offset <= last_offset < end:
            return False
        if not self.base_offset <= time_offset < end or (self.index.file.count and not position):
            return False
        if not self.index.file.count and self.size_bytes > _LARGEST_WITHOUT_INDEX_BYTES:
            return self._last_batch_starts_within(_LARGEST_WITHOUT_INDEX_BYTES)
        return time != NO_TIMESTAMP or not self._has_times()

    def _has_times(self) -> bool:
        """Whether a record has a timestamp; most often the first batch has."""
        if self.header_at(0).records_count:
            return self.header_at(0).max_timestamp != NO_TIMESTAMP
        return any(placed.header.newest_record_ms != NO_TIMESTAMP for placed in self.walk())

    def _last_batch_starts_within(self, size_bytes: int) -> bool:
        """Whether no batch follows the first one that ends beyond `size_bytes`: there is nothing to index."""
        return next(placed.end for placed in self.walk() if placed.end > size_bytes) == self.size_bytes

    def rebuild_indexes(
        self, interval_bytes: int = _INDEX_INTERVAL_BYTES, max_index_bytes: int = _MAX_INDEX_BYTES
    ) -> None:
        """Rebuild both indexes from the batches, with entries where an append would have written them."""
        self._index = OffsetIndex(self._empty_index_file(INDEX, OFFSET_ENTRY), self.base_offset)
        self._time_index = TimeIndex(self._empty_index_file(TIME_INDEX, TIME_ENTRY), self.base_offset)
        largest, since_index_bytes = (NO_TIMESTAMP, self.base_offset), 0
        for placed in self.walk():
            header = placed.header
            if header.newest_record_ms > largest[0]:
                largest = (header.newest_record_ms, header.last_offset)
            if since_index_bytes > interval_bytes:
                self.add_index_entry(header.last_offset, placed.position, largest, max_index_bytes)
                since_index_bytes = 0
            since_index_bytes += header.size_bytes
            self.next_offset = max(self.next_offset, placed.next_offset)
        self._largest = largest
        self.since_index_bytes = since_index_bytes
        self.seal(max_index_bytes)

    def _empty_index_file(self, kind: str, entry: Struct) -> IndexFile:
        disk, path = self._location.disk, self.path(kind)
        file = IndexFile(disk, path, entry, self._location.open_files.maps, size_bytes=0)
        disk.open(path, create=True).truncate(0)
        return file

    @property
    def largest_timestamp(self) -> tuple[int, int]:
        """The largest timestamp, and the last offset of the batch that has it."""
        if self._largest is None:
            self._largest = self.time_index.last
        return self._largest

    def extend(
        self, size_bytes: int, next_offset: int, since_index_bytes: int, largest: tuple[int, int]
    ) -> None:
        """Batches were written at the end of the file: take its new size and end."""
        assert size_bytes > self.size_bytes, f"{self} cannot shrink to {size_bytes} bytes"
        assert next_offset > self.next_offset, f"{self} cannot end at {next_offset}"
        self.size_bytes = size_bytes
        self.next_offset = next_offset
        self.since_index_bytes = since_index_bytes
        self._largest = largest

    def end_at(self, next_offset: int) -> None:
        """Set the end offset of a segment that ends with a gap: the offset of the batch that follows it."""
        self.next_offset = next_offset

    def end_with_roll(self, next_offset: int, now_ms: int) -> None:
        """A segment with base offset `next_offset` now follows, and this one changes no more."""
        self.next_offset = next_offset
        self.modified_ms = now_ms

    def find_end(self) -> None:
        """Find the end offset from the last index entry on, after a clean stop.

        CorruptRecord if it is not found.
        """
        if not self.size_bytes:
            return
        position = self.index.last()[1]
        for placed in self.walk(position):
            self.next_offset = placed.next_offset
        self.since_index_bytes = self.size_bytes - position
        # Once more, now that the end is known.
        self.check_indexes()

    def recover(self, next_offset: int) -> None:
        """Take the end offset that a scan found, and the size of the file as it is now."""
        self.next_offset = next_offset
        self.size_bytes = self._location.disk.size(self.path(LOG))

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch; the segment's age counts from it."""
        if self._first_timestamp is None:
            if not self.size_bytes:
                return NO_TIMESTAMP
            try:
                self._first_timestamp = self.header_at(0).max_timestamp
            except CorruptRecord:
                return NO_TIMESTAMP
        return self._first_timestamp

    def header_at(self, position: int) -> BatchHeader:
        """The header of the batch that starts at `position`."""
        return read_header(self.file.read(position, HEADER_BYTES))

    def base_offset_at(self, position: int) -> int:
        """The base offset of the batch that starts at an indexed `position`; CorruptRecord if none does."""
        base_offset, magic = _START.unpack(self.file.read(position, _START.size))
        if magic != MAGIC or not self.base_offset <= base_offset < self.next_offset:
            raise CorruptRecord(f"no batch starts at {position} of {self.path(LOG)}")
        return int(base_offset)

    def walk(self, position: int = 0) -> Iterator[Placed]:
        """The headers of the batches from `position` to the end. CorruptRecord where no batch starts."""
        file, end = self.file, self.size_bytes
        window, window_start = b"", position
        while position < end:
            if position + HEADER_BYTES > window_start + len(window):
                window, window_start = file.read(position, min(_WALK_BYTES, end - position)), position
            header = read_header(window, position - window_start)
            if position + header.size_bytes > end:
                raise CorruptRecord(f"the batch at {position} of {self.path(LOG)} is cut off")
            yield Placed(position, header)
            position += header.size_bytes

    def find(self, offset: int) -> Placed | None:
        """The batch that holds `offset` or, where there is a gap, the first one after it."""
        try:
            return self._find(offset, self.index.position_before(offset))
        except CorruptRecord as problem:
            self.heal(problem)
            return self._find(offset, self.index.position_before(offset))

    def heal(self, problem: CorruptRecord) -> None:
        """An index entry was wrong: rebuild both.

        If the log itself is damaged, the caller's retry raises again.
        """
        logger.error("%s: %s; its indexes are rebuilt", self.path(LOG), problem)
        self.rebuild_indexes()

    def _find(self, offset: int, position: int) -> Placed | None:
        # Like `walk`, but reads only four fields of each header: a random read pays this per batch.
        file, end, is_indexed = self.file, self.size_bytes, position > 0
        window, window_start = b"", position
        while position + HEADER_BYTES <= end:
            start = position - window_start
            if start + HEADER_BYTES > len(window):
                window, window_start, start = (
                    file.read(position, min(_WALK_BYTES, end - position)),
                    position,
                    0,
                )
            base_offset, length, magic, delta = _GLANCE.unpack_from(window, start)
            if (
                magic != MAGIC
                or length < HEADER_BYTES - BATCH_OVERHEAD_BYTES
                or (is_indexed and base_offset > offset)
            ):
                raise CorruptRecord(f"no batch of offset {offset} or less starts at {position}")
            if base_offset + delta >= offset:
                return Placed(position, read_header(window, start))
            position += length + BATCH_OVERHEAD_BYTES
            is_indexed = False
        return None

    def add_index_entry(
        self, last_offset: int, position: int, largest: tuple[int, int], max_bytes: int
    ) -> bool:
        """Index the batch at `position`; False if the disk has no space for the entry."""
        return self.index.add(last_offset, position, max_bytes=max_bytes) and self.time_index.add(
            *largest, max_bytes=max_bytes
        )

    def seal(self, max_index_bytes: int) -> None:
        """Write the last time index entry and trim both indexes."""
        if self.size_bytes:
            # The one entry that `TimeIndex.is_full` reserves.
            self.time_index.add(*self.largest_timestamp, max_bytes=max_index_bytes)
        self.index.file.trim()
        self.time_index.file.trim()

    def sync(self) -> None:
        """Make everything durable: batches first, then the indexes that point into them."""
        self.file.sync()
        self.index.file.sync()
        self.time_index.file.sync()

    def truncate(self, position: int, next_offset: int) -> None:
        """Truncate the segment at a batch boundary."""
        self.file.truncate(position)
        self.size_bytes = position
        self.next_offset = next_offset
        self._first_timestamp = None
        self.txn_index.truncate_from(next_offset)
        try:
            self._truncate_indexes(position, next_offset)
        except CorruptRecord as problem:
            self.heal(problem)

    def _truncate_indexes(self, position: int, next_offset: int) -> None:
        self.index.truncate_from(position)
        self.time_index.truncate_from(next_offset)
        self._largest = self.time_index.last
        self.since_index_bytes = position - self.index.last()[1]
        for placed in self.walk(self.index.last()[1]):
            if placed.header.newest_record_ms > self._largest[0]:
                self._largest = (placed.header.newest_record_ms, placed.header.last_offset)

    def remove_files(self) -> None:
        """Remove the segment from the disk; the .log first, because without it the indexes are ignored."""
        self.close()
        for kind in SEGMENT_KINDS:
            if self._location.disk.exists(self.path(kind)):
                self._location.disk.remove(self.path(kind))

    def close(self) -> None:
        """Release the file and the maps; readers that hold them can go on."""
        self._slot.close()
        if self._index is not None:
            self._index.file.close()
        if self._time_index is not None:
            self._time_index.file.close()
        if self._txn_index is not None:
            self._txn_index.close()
