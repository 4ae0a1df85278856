"""Lookups in the bytes of a segment's indexes, as an object store gives them.

An index only says where to begin reading: a lookup in an index that is missing or empty begins at the start of the
segment.
"""

from bisect import bisect_right
from struct import Struct
from typing import Final

from ottla.records.corruption import CorruptRecord
from ottla.records.index_entries import OFFSET_ENTRY, TIME_ENTRY, TXN_INDEX_ENTRY, VERSION, AbortedEntry


class _Column:
    """One column of an index as a sequence, for binary searches."""

    __slots__ = ("_data", "_entry", "_number")

    def __init__(self, data: bytes, entry: Struct, number: int = 0) -> None:
        self._data = data
        self._entry = entry
        self._number = number

    def __len__(self) -> int:
        return len(self._data) // self._entry.size

    def __getitem__(self, number: int) -> int:
        return int(self._entry.unpack_from(self._data, number * self._entry.size)[self._number])


def position_before(index: bytes, base_offset: int, offset: int) -> tuple[int, int | None]:
    """Where to begin reading to find `offset`: the start of a batch at or before it, and its last offset.

    The last offset is None at the start of the segment, which has no entry.
    """
    number = bisect_right(_Column(index, OFFSET_ENTRY), offset - base_offset) - 1
    if number < 0:
        return 0, None
    relative, position = OFFSET_ENTRY.unpack_from(index, number * OFFSET_ENTRY.size)
    return int(position), base_offset + int(relative)


def offset_before(time_index: bytes, base_offset: int, timestamp_ms: int) -> int:
    """An offset at or before the first record whose timestamp is at least `timestamp_ms`."""
    number = bisect_right(_Column(time_index, TIME_ENTRY), timestamp_ms - 1) - 1
    if number < 0:
        return base_offset
    # Up to this entry all timestamps are smaller, the batch of the entry included.
    return base_offset + int(TIME_ENTRY.unpack_from(time_index, number * TIME_ENTRY.size)[1])


_ENTRY_BYTES: Final = TXN_INDEX_ENTRY.size


def aborted_entries(transaction_index: bytes) -> list[AbortedEntry]:
    """All entries of a `.txnindex`. CorruptRecord if the bytes are not one."""
    if len(transaction_index) % _ENTRY_BYTES:
        raise CorruptRecord("a transaction index ends within an entry")
    entries = []
    for version, *fields in TXN_INDEX_ENTRY.iter_unpack(transaction_index):
        if version != VERSION:
            raise CorruptRecord(f"a transaction index has an entry of version {version}")
        entries.append(AbortedEntry(*fields))
    return entries
