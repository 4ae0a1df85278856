"""The segments of a log in the order of their offsets. The last one is active: only it grows."""

from bisect import bisect_right
from collections.abc import Iterator

from ottla.log.segments.segment import Segment


class Segments:
    """An ordered collection that finds the segment of an offset."""

    __slots__ = ("_bases", "_list", "_sealed_bytes", "active")

    def __init__(self, segments: list[Segment]) -> None:
        self._list = segments
        self._bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        self._sealed_bytes = sum(segment.size_bytes for segment in segments[:-1])

    @property
    def size_bytes(self) -> int:
        """The size of all batches."""
        return self._sealed_bytes + self.active.size_bytes

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._list)

    def __getitem__(self, number: int) -> Segment:
        return self._list[number]

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment that holds `offset` and all behind it."""
        return self._list[max(0, bisect_right(self._bases, offset) - 1) :]

    def add(self, segment: Segment) -> None:
        """A new active segment."""
        self._list.append(segment)
        self._bases.append(segment.base_offset)
        self._sealed_bytes += self.active.size_bytes
        self.active = segment

    def remove(self, segment: Segment) -> None:
        """Take a segment out; the last one that is left cannot go."""
        if len(self._list) == 1:
            raise ValueError("a log has at least one segment")
        number = self._list.index(segment)
        del self._list[number]
        del self._bases[number]
        # Where the active one goes, the one before it is no longer sealed.
        self._sealed_bytes -= self._list[-1].size_bytes if segment is self.active else segment.size_bytes
        self.active = self._list[-1]
