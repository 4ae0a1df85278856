"""The sparse indexes of a segment: offset → position and time → offset (STO-6).

Both are arrays of fixed-size entries in a memory-mapped file, rising in every column, so that a lookup is a
binary search. The index file of an active segment is preallocated and zero-filled from its first entry on;
when the segment is closed or rolled, the file is trimmed to its entries. A reader of an untrimmed file stops
at the first zero entry.

An index only says where to start walking through the log, and it can be rebuilt from the log at any time. So
losing an entry costs speed, never data: an entry for which the disk has no space is left out.
"""

from struct import Struct
from typing import Any, Final

from ottla.log.files.open_files import Pool, Slot
from ottla.model import NO_TIMESTAMP
from ottla.runtime.disk import Disk, Map

_RESERVE_BYTES: Final = 4096  # one page of entries covers 2 MiB of log: few calls, little waste


class IndexFile:
    """Entries of one format in one file; there are `count` of them."""

    __slots__ = ("_disk", "_entry", "_path", "_reserved_bytes", "_room", "_slot", "count", "entry_bytes")

    def __init__(self, disk: Disk, path: str, entry: Struct, maps: Pool[Map], *, size_bytes: int) -> None:
        self._disk = disk
        self._path = path
        self._entry = entry
        self._slot = Slot(maps, lambda: disk.map(path))
        self.entry_bytes = entry.size
        self._room = size_bytes // entry.size
        self.count = self._room
        self._reserved_bytes = 0
        if self.count and not any(self.entry(self.count - 1)):
            self.count = self._first_zero_entry()

    @property
    def path(self) -> str:
        return self._path

    def entry(self, number: int) -> tuple[Any, ...]:
        """The fields of one entry, as they are in the file."""
        return self._entry.unpack_from(self._slot.get().buffer, number * self.entry_bytes)

    def floor(self, target: int, column: int = 0) -> int:
        """The number of the last entry whose `column` is at most `target`; -1 if there is none."""
        return self._floor_between(target, column, 0, self.count)

    def floor_near(self, target: int, column: int, guess: int) -> tuple[Any, ...] | None:
        """The last entry whose `column` is at most `target`, in two probes if `guess` is nearly right."""
        # A consumer that catches up calls this for every range, hence the local names.
        count, unpack_from, entry_bytes = self.count, self._entry.unpack_from, self.entry_bytes
        if not count:
            return None
        buffer = self._slot.get().buffer
        low = min(max(guess, 0), count - 1)
        high, step = low + 1, 1
        found = unpack_from(buffer, low * entry_bytes)
        if found[column] > target:
            while found[column] > target:
                if not low:
                    return None
                low, high, step = max(low - step, 0), low, step * 4
                found = unpack_from(buffer, low * entry_bytes)
        else:
            while high < count:
                above = unpack_from(buffer, high * entry_bytes)
                if above[column] > target:
                    break
                low, high, step, found = high, high + step, step * 4, above
        high = min(high, count)
        if high - low == 1:
            return found
        return self.entry(self._floor_between(target, column, low + 1, high))

    def _floor_between(self, target: int, column: int, low: int, high: int) -> int:
        if low >= high:
            return low - 1
        unpack_from, entry_bytes, buffer = self._entry.unpack_from, self.entry_bytes, self._slot.get().buffer
        while low < high:
            middle = (low + high) >> 1
            if unpack_from(buffer, middle * entry_bytes)[column] <= target:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def put(self, first: int, second: int, *, max_bytes: int) -> bool:
        """Add an entry; False if the disk has no space for it."""
        try:
            if self.count >= self._room:
                self._preallocate(max_bytes)
            position = self.count * self.entry_bytes
            end = position + self.entry_bytes
            current = self._slot.get()
            if end > self._reserved_bytes:
                size = min(_RESERVE_BYTES, self._room * self.entry_bytes - position)
                current.reserve(position, size)
                self._reserved_bytes = position + size
        except OSError:
            return False
        self._entry.pack_into(current.buffer, position, first, second)
        self.count += 1
        return True

    def truncate(self, count: int) -> None:
        """Keep only the first `count` entries; the file is trimmed to them."""
        self.count = count
        self.trim()

    def trim(self) -> None:
        """Free the preallocated space."""
        # The map is closed first: touching a page after the end of the file would kill the process.
        self._slot.close()
        self._resize(self.count)

    def sync(self) -> None:
        """Make the entries durable."""
        self._disk.open(self._path).sync()

    def close(self) -> None:
        """Release the map."""
        self._slot.close()

    def _preallocate(self, max_bytes: int) -> None:
        capacity = max(max_bytes // self.entry_bytes, self.count + 1)
        self._slot.close()
        self._resize(capacity)

    def _resize(self, room: int) -> None:
        if room != self._room:
            self._disk.open(self._path, create=True).truncate(room * self.entry_bytes)
            self._room = room
        self._reserved_bytes = 0

    def _first_zero_entry(self) -> int:
        low, high = 0, self.count
        while low < high:
            middle = (low + high) >> 1
            if any(self.entry(middle)):
                low = middle + 1
            else:
                high = middle
        return low


class OffsetIndex:
    """Offset → position: the last offset of a batch, and where that batch starts in the segment."""

    __slots__ = ("_base_offset", "file")

    def __init__(self, file: IndexFile, base_offset: int) -> None:
        self.file = file
        self._base_offset = base_offset

    def is_full(self, max_bytes: int, pending: int = 0) -> bool:
        """Whether one more entry would not fit after the pending ones."""
        return self.file.count + pending >= max_bytes // self.file.entry_bytes

    def add(self, last_offset: int, position: int, *, max_bytes: int) -> bool:
        return self.file.put(last_offset - self._base_offset, position, max_bytes=max_bytes)

    def position_before(self, offset: int) -> int:
        """Where to start walking to find `offset`: the start of a batch at or before it."""
        number = self.file.floor(offset - self._base_offset)
        return 0 if number < 0 else int(self.file.entry(number)[1])

    def floor_position(self, position: int, size_bytes: int) -> int:
        """The last indexed batch start at or before `position`; 0 if there is none."""
        # Entries are about evenly spaced, so the number of the right one can be guessed.
        guess = position * self.file.count // max(size_bytes, 1)
        found = self.file.floor_near(position, 1, guess)
        return 0 if found is None else int(found[1])

    def last(self) -> tuple[int, int]:
        """(last offset, position) of the newest entry; the segment's start if there is none."""
        if not self.file.count:
            return self._base_offset, 0
        relative, position = self.file.entry(self.file.count - 1)
        return self._base_offset + relative, position

    def truncate_from(self, position: int) -> None:
        """Drop the entries for batches that start at `position` or later."""
        self.file.truncate(self.file.floor(position - 1, column=1) + 1)


class TimeIndex:
    """Time → offset: the largest timestamp so far, and the last offset of the batch that brought it."""

    __slots__ = ("_base_offset", "file", "last")

    def __init__(self, file: IndexFile, base_offset: int) -> None:
        self.file = file
        self._base_offset = base_offset
        self.last = self._newest()

    def is_full(self, max_bytes: int, pending: int = 0) -> bool:
        """Whether one more entry would not fit; one is reserved for the entry that `Segment.seal` writes."""
        return self.file.count + pending >= max_bytes // self.file.entry_bytes - 1

    def add(self, timestamp_ms: int, last_offset: int, *, max_bytes: int) -> bool:
        """Add an entry for a larger timestamp; one that is not larger is ignored."""
        if timestamp_ms <= self.last[0]:
            return True
        is_put = self.file.put(timestamp_ms, last_offset - self._base_offset, max_bytes=max_bytes)
        if is_put:
            self.last = (timestamp_ms, last_offset)
        return is_put

    def at(self, number: int) -> tuple[int, int]:
        """(timestamp, offset) of one entry."""
        timestamp_ms, relative = self.file.entry(number)
        return timestamp_ms, self._base_offset + relative

    def truncate_from(self, offset: int) -> None:
        """Drop the entries whose offset is `offset` or above."""
        self.file.truncate(self.file.floor(offset - 1 - self._base_offset, column=1) + 1)
        self.last = self._newest()

    def _newest(self) -> tuple[int, int]:
        """NO_TIMESTAMP if there is no entry."""
        return self.at(self.file.count - 1) if self.file.count else (NO_TIMESTAMP, self._base_offset)
