"""Writes a cleaned segment: `<base>.log.cleaned` and its indexes, durable when it is finished.

Index entries follow the rule of the append path. The indexes are small and written at the end, as
ordinary files: they are not read before they have their final names.
"""

from dataclasses import dataclass
from typing import Final

from ottla.log.compaction.segment_reader import Throttle
from ottla.log.files.file_names import CLEANED, INDEX, LOG, TIME_INDEX, TXN_INDEX, file_name
from ottla.model import NO_TIMESTAMP
from ottla.records.batch import BatchHeader, Readable
from ottla.records.index_entries import OFFSET_ENTRY, TIME_ENTRY
from ottla.runtime.disk import Disk, File

# Synced now and then, so that the last sync does not occupy the disk for long while producers wait for it.
_SYNC_BYTES: Final = 32 << 20
_LARGEST_POSITION: Final = (1 << 31) - 1  # what an index entry can hold


@dataclass(frozen=True, slots=True)
class CleanedSegment:
    """A segment in .cleaned files, ready to replace others."""

    base_offset: int
    size_bytes: int
    has_txn_index: bool
    records_seen: int
    records_kept: int
    next_horizon_ms: int | None  # when its next tombstones may be removed

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its files, the .log last: with it the segment is complete."""
        return (*((TXN_INDEX,) if self.has_txn_index else ()), INDEX, TIME_INDEX, LOG)


class SegmentWriter:
    """One cleaned segment while it is being written."""

    __slots__ = (
        "_base_offset",
        "_buffered_bytes",
        "_buffers",
        "_directory",
        "_disk",
        "_file",
        "_index",
        "_interval_bytes",
        "_io_bytes",
        "_largest",
        "_last_indexed_ms",
        "_max_index_bytes",
        "_since_index_bytes",
        "_throttle",
        "_time_index",
        "_unsynced_bytes",
        "size_bytes",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        *,
        interval_bytes: int,
        max_index_bytes: int,
        io_bytes: int,
        throttle: Throttle,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._max_index_bytes = max_index_bytes
        self._io_bytes = io_bytes
        self._throttle = throttle
        self._buffers: list[Readable] = []
        self._buffered_bytes = self._unsynced_bytes = self._since_index_bytes = 0
        self._largest = (NO_TIMESTAMP, base_offset)
        self._last_indexed_ms = NO_TIMESTAMP
        self._index = bytearray()
        self._time_index = bytearray()
        self.size_bytes = 0
        self._file = self._create(LOG)

    def add(self, data: Readable, header: BatchHeader) -> None:
        """Add the next batch. OSError if the disk does not take it."""
        if header.newest_record_ms > self._largest[0]:
            self._largest = (header.newest_record_ms, header.last_offset)
        if self._since_index_bytes > self._interval_bytes:
            self._add_index_entry(header.last_offset)
        self._buffers.append(data)
        self._buffered_bytes += len(data)
        self._since_index_bytes += len(data)
        self.size_bytes += len(data)
        if self._buffered_bytes >= self._io_bytes:
            self._flush()

    def finish(self, txn_entries: bytes) -> None:
        """Write the buffered batches and the indexes; everything is durable then."""
        self._flush()
        self._file.sync()
        self._add_time_entry()
        self._write(INDEX, bytes(self._index))
        self._write(TIME_INDEX, bytes(self._time_index))
        if txn_entries:
            self._write(TXN_INDEX, txn_entries)
        self._disk.sync_directory(self._directory)

    def _add_index_entry(self, last_offset: int) -> None:
        if (
            len(self._index) + OFFSET_ENTRY.size <= self._max_index_bytes
            and self.size_bytes <= _LARGEST_POSITION
        ):
            self._index += OFFSET_ENTRY.pack(last_offset - self._base_offset, self.size_bytes)
            self._add_time_entry()
        self._since_index_bytes = 0

    def _add_time_entry(self) -> None:
        timestamp_ms, offset = self._largest
        if timestamp_ms > self._last_indexed_ms:
            self._time_index += TIME_ENTRY.pack(timestamp_ms, offset - self._base_offset)
            self._last_indexed_ms = timestamp_ms

    def _flush(self) -> None:
        if not self._buffers:
            return
        self._throttle.spend(self._buffered_bytes)
        self._file.append([b"".join(self._buffers)])
        self._unsynced_bytes += self._buffered_bytes
        self._buffers, self._buffered_bytes = [], 0
        if self._unsynced_bytes >= _SYNC_BYTES:
            self._file.sync()
            self._unsynced_bytes = 0

    def _write(self, kind: str, data: bytes) -> None:
        self._throttle.spend(len(data))
        file = self._create(kind)
        file.append([data])
        file.sync()

    def _create(self, kind: str) -> File:
        file = self._disk.open(
            f"{self._directory}/{file_name(self._base_offset, kind + CLEANED)}", create=True
        )
        file.truncate(0)
        return file
