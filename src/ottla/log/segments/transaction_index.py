"""The aborted transactions of one segment: `.txnindex`.

An entry lies in the segment that has the abort marker. Its file is created with the first entry: few segments
have one. Unlike the other indexes, this one is needed for right answers, because a reader of committed
records would otherwise take aborted records for committed ones. So an entry is written before its marker, and
after a crash the entries are rebuilt with the producers (`producer_replay`).
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from ottla.log.files.location import Location
from ottla.log.files.open_files import Slot
from ottla.records.corruption import CorruptRecord
from ottla.records.index_entries import TXN_INDEX_ENTRY, VERSION, AbortedEntry
from ottla.runtime.disk import File

_ENTRY_BYTES: Final = TXN_INDEX_ENTRY.size
_ENTRIES_PER_READ: Final = 120  # a page


class TransactionIndex:
    """The entries of one file; there are `count` of them."""

    __slots__ = ("_disk", "_path", "_slot", "count")

    def __init__(self, location: Location, path: str) -> None:
        self._disk = disk = location.disk
        self._path = path
        self._slot: Slot[File] = Slot(location.open_files.files, lambda: disk.open(path, create=True))
        self.count = disk.size(path) // _ENTRY_BYTES if disk.exists(path) else 0

    def add(self, entries: Sequence[AbortedEntry]) -> None:
        """Add entries for markers that are about to be written. After an OSError `undo` must follow."""
        self._slot.get().append([b"".join(entry.pack() for entry in entries)])
        self.count += len(entries)

    def undo(self, end_offset: int) -> None:
        """Markers at `end_offset` and above were not written: drop their entries, and a torn one."""
        if not self._disk.exists(self._path):
            return  # on a full disk it cannot be created: there is nothing to drop
        self.count = self._first_at(end_offset)
        self._slot.get().truncate(self.count * _ENTRY_BYTES)

    def find(self, offset: int, upper_offset: int) -> tuple[list[AbortedEntry], bool]:
        """The transactions with records between two offsets, and whether later segments have no more."""
        found: list[AbortedEntry] = []
        for entry in self._from(self._first_at(offset)):
            if entry.first_offset < upper_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_offset:
                return found, True
        return found, False

    def truncate_from(self, offset: int) -> None:
        """Drop the entries of markers at `offset` or above."""
        if self.count:
            self.undo(offset)

    def clear(self) -> None:
        """Drop all entries, and whatever else is in the file."""
        self.count = 0
        if self._disk.exists(self._path):
            self._slot.get().truncate(0)

    def check(self, end_offset: int) -> None:
        """CorruptRecord if the file cannot be the index of a segment that ends at `end_offset`."""
        entries = list(self._from(0))
        is_whole = self._slot.get().size == len(entries) * _ENTRY_BYTES
        is_rising = all(one.last_offset < other.last_offset for one, other in pairwise(entries))
        if not (is_whole and is_rising and all(_is_plausible(entry, end_offset) for entry in entries)):
            raise CorruptRecord(f"{self._path} is not the index of its segment")

    def close(self) -> None:
        """Release the file."""
        self._slot.close()

    def _first_at(self, offset: int) -> int:
        """The number of the first entry whose marker is at `offset` or above."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) >> 1
            if self._at(middle).last_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def _at(self, number: int) -> AbortedEntry:
        return self._parse(self._slot.get().read(number * _ENTRY_BYTES, _ENTRY_BYTES))[0]

    def _from(self, number: int) -> Iterator[AbortedEntry]:
        while number < self.count:
            wanted = min(self.count - number, _ENTRIES_PER_READ)
            entries = self._parse(self._slot.get().read(number * _ENTRY_BYTES, wanted * _ENTRY_BYTES))
            yield from entries
            number += len(entries)

    def _parse(self, data: bytes) -> list[AbortedEntry]:
        if not data or len(data) % _ENTRY_BYTES:
            raise CorruptRecord(f"{self._path} is shorter than it was")
        entries = []
        for version, *fields in TXN_INDEX_ENTRY.iter_unpack(data):
            if version != VERSION:
                raise CorruptRecord(f"{self._path} has an entry of version {version}")
            entries.append(AbortedEntry(*fields))
        return entries


def _is_plausible(entry: AbortedEntry, end_offset: int) -> bool:
    return (
        0 <= entry.first_offset < entry.last_offset < end_offset
        and entry.last_stable_offset <= entry.last_offset + 1
    )
