"""Bounded descriptors and memory maps, however many segments there are (STO-12).

A `Slot` is a file or a map that is opened when it is needed. The pool keeps at most `limit` of them open and
closes, by the clock algorithm, one that was not used since the hand last passed. Closing only drops the
pool's reference: a caller that still holds the value can go on using it.
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from ottla.runtime.disk import File, Map

T = TypeVar("T")


class Slot(Generic[T]):
    """A value that can be opened again at any time."""

    __slots__ = ("_open", "is_used", "pool", "value")

    def __init__(self, pool: "Pool[T]", open_value: Callable[[], T]) -> None:
        self.pool = pool
        self._open = open_value
        self.value: T | None = None
        self.is_used = False

    def get(self) -> T:
        """The open value; opened now if it was not."""
        value = self.value
        if value is not None:
            self.is_used = True
            return value
        self.pool.make_room()
        self.value = value = self._open()
        # Not used yet: a value that is read only once must not push out one that is read often.
        self.is_used = False
        self.pool.admit(self)
        return value

    def spare(self) -> bool:
        """Whether the value was used since the last call; the caller then keeps it open for another round."""
        was_used, self.is_used = self.is_used, False
        return was_used

    def drop(self) -> None:
        """Release the value, after the pool removed the slot; the value closes with its last reference."""
        self.value = None

    def close(self) -> None:
        """Release the value and leave the pool; the value closes with its last reference."""
        if self.value is not None:
            self.value = None
            self.pool.forget(self)


class Pool(Generic[T]):
    """The open slots, at most `limit` of them."""

    __slots__ = ("_ring", "limit")

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"a pool needs room for at least one open file, not {limit}")
        self.limit = limit
        self._ring: deque[Slot[T]] = deque()

    def __len__(self) -> int:
        return len(self._ring)

    def make_room(self) -> None:
        ring = self._ring
        while len(ring) >= self.limit:
            slot = ring.popleft()
            if slot.spare():
                # A second chance: the slot goes to the back, and is closed next time unless it was used
                # again.
                ring.append(slot)
            else:
                slot.drop()

    def admit(self, slot: Slot[T]) -> None:
        self._ring.append(slot)

    def forget(self, slot: Slot[T]) -> None:
        self._ring.remove(slot)


class OpenFiles:
    """One pool of segment files and one of index maps, shared by all logs of a broker."""

    __slots__ = ("files", "maps")

    def __init__(self, files: int = 512, maps: int = 512) -> None:
        self.files: Pool[File] = Pool(files)
        self.maps: Pool[Map] = Pool(maps)
