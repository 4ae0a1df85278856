"""The newest offset of each key, in a fixed number of bytes (RET-5).

One flat array, two 64-bit words a slot, open addressing with double hashing:

    first word    the key's hash
    second word   32 bits of a second, independent hash | the offset, relative to the map's start, plus one

The keys themselves are not stored, only 96 bits of their hashes. If two keys had the same 96 bits, the older
record of one would count as superseded by the other and be removed, although it was the newest of its key.
Both hashes are Python's own (SipHash with a secret of this process, so that clients cannot choose keys that
collide): for a full map of 64 MiB the probability is 10^-16.

At most four fifths of the slots are used. Beyond that the probes cost more than another pass over the log: at
0.9 a lookup takes twice as long as at 0.8.
"""

from array import array
from typing import Final

SLOT_BYTES: Final = 16
_LOAD: Final = 0.8
_SMALLEST_SLOTS: Final = 5  # room for four keys; fewer would only mean more passes
_LARGEST_SPAN: Final = (1 << 32) - 2  # what the offset's half of a word can hold


class OffsetMap:
    """Keys to offsets, from `start_offset` on. `put` returns False if there is no room for another key."""

    __slots__ = ("_before_start", "_limit", "_slots", "_words", "count")

    def __init__(self, size_bytes: int, start_offset: int, *, keys: int | None = None) -> None:
        """At most `size_bytes` large, and no larger than `keys` need, if their number is known."""
        slots = max(size_bytes // SLOT_BYTES, _SMALLEST_SLOTS)
        enough = slots if keys is None else _next_prime(int(keys / _LOAD) + _SMALLEST_SLOTS, 1)
        self._slots = enough if enough < slots else _next_prime(slots, -1)
        self._limit = int(self._slots * _LOAD)
        self._words = array("q", bytes(8)) * (2 * self._slots)
        self._before_start = start_offset - 1
        self.count = 0

    @property
    def limit(self) -> int:
        """The maximum number of keys."""
        return self._limit

    @property
    def size_bytes(self) -> int:
        return len(self._words) * 8

    def put(self, key: bytes, offset: int) -> bool:
        """The newest record of `key` is at `offset`. False if the key is new and there is no room for it."""
        # Dense for speed, like `get`: a compaction calls them once per record. -1 << 32 is the mask of the
        # upper half; an array of signed words takes the hashes as they are.
        relative = offset - self._before_start
        if relative > _LARGEST_SPAN:
            return False
        words, slots = self._words, self._slots
        first, second = hash(key), hash(b"\xff" + key)
        slot = first % slots
        at = slot << 1
        if word := words[at | 1]:
            check, step = second & -1 << 32, second % (slots - 1) + 1
            while word:
                if words[at] == first and word & -1 << 32 == check:
                    words[at | 1] = check | relative
                    return True
                slot += step
                if slot >= slots:
                    slot -= slots
                at = slot << 1
                word = words[at | 1]
        if self.count >= self._limit:
            return False
        self.count += 1
        words[at] = first
        words[at | 1] = second & -1 << 32 | relative
        return True

    def get(self, key: bytes) -> int:
        """The newest offset of `key`; -1 if the key is not in the map."""
        words, slots = self._words, self._slots
        first, second = hash(key), hash(b"\xff" + key)
        slot = first % slots
        at = slot << 1
        if not (word := words[at | 1]):
            return -1
        check, step = second & -1 << 32, second % (slots - 1) + 1
        while word:
            if words[at] == first and word & -1 << 32 == check:
                return self._before_start + (word & 0xFFFFFFFF)
            slot += step
            if slot >= slots:
                slot -= slots
            at = slot << 1
            word = words[at | 1]
        return -1


def _next_prime(number: int, step: int) -> int:
    """A prime number of slots, so that every step of the second hash visits every slot."""
    while any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number += step
    return number
