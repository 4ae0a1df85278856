"""The segments of a log in offset order. The last one is active: only it grows."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from ottla.log.segments.segment import Segment


class Segments:
    """An ordered collection that finds the segment of an offset. It always has at least one segment."""

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
        """The segment that holds `offset` and all that follow it."""
        return self._list[max(0, bisect_right(self._bases, offset) - 1) :]

    def add(self, segment: Segment) -> None:
        """Append a new active segment."""
        active = self.active
        assert segment.base_offset >= active.next_offset, f"{segment} does not follow {active}"
        self._list.append(segment)
        self._bases.append(segment.base_offset)
        self._sealed_bytes += active.size_bytes
        self.active = segment

    def remove(self, segment: Segment) -> None:
        """Remove one segment; ValueError if it is the only one."""
        if len(self._list) == 1:
            raise ValueError("a log has at least one segment")
        number = self._list.index(segment)
        del self._list[number]
        del self._bases[number]
        # If the active segment was removed, the one before it is no longer sealed.
        self._sealed_bytes -= self._list[-1].size_bytes if segment is self.active else segment.size_bytes
        self.active = self._list[-1]

    def replace(self, replaced: Sequence[Segment], replacement: Segment) -> None:
        """Put one sealed segment in the place of adjacent sealed ones."""
        start, stop = self._list.index(replaced[0]), self._list.index(replaced[-1]) + 1
        assert tuple(self._list[start:stop]) == tuple(replaced), "the replaced segments are not adjacent"
        assert stop < len(self._list), "the active segment cannot be replaced"
        assert replacement.base_offset == replaced[0].base_offset
        assert replacement.next_offset == replaced[-1].next_offset
        self._list[start:stop] = [replacement]
        self._bases[start:stop] = [replacement.base_offset]
        self._sealed_bytes += replacement.size_bytes - sum(segment.size_bytes for segment in replaced)

    def restart(self, empty: Segment) -> None:
        """Have only this segment, at whatever offset it begins."""
        self._list = [empty]
        self._bases = [empty.base_offset]
        self._sealed_bytes = 0
        self.active = empty
