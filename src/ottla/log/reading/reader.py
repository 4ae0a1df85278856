"""From an offset to a range of a file (STO-7).

A range holds whole batches: from the batch with the offset, or the next one, to the last that ends before the
reader's bound. A consumer that continues where it stopped costs no lookup: the end positions of the last few
ranges are remembered by the offset that follows. Other reads need an index search and a walk over one index
interval.
"""

from typing import Final, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.log.segments.extent import Extent
from ottla.log.segments.segment import Segment
from ottla.log.status import Status
from ottla.model import NO_OFFSET
from ottla.records.batch import CorruptRecord
from ottla.runtime.disk import File

# More than usually read one partition; a hundred bytes each.
_PLACES_KEPT: Final = 32


class FileRange(NamedTuple):
    """Bytes `position` to `position + size` of a file, and the offset that follows them.

    `status` hears of it when the bytes cannot be read.
    """

    file: File
    position: int
    size: int
    next_offset: int
    status: Status

    def note_unread(self) -> None:
        """The bytes could not be read."""
        self.status.note_unread(self.next_offset - 1)


class Reader:
    """Finds ranges in one log."""

    __slots__ = ("_extent", "_places", "_segments", "_status")

    def __init__(self, extent: Extent, status: Status) -> None:
        self._extent = extent
        self._status = status
        self._segments = extent.segments
        # By offset: the position where the next read begins, or where a bounded one ends.
        self._places: dict[int, tuple[Segment, int]] = {}

    def forget_places(self) -> None:
        """Drop the remembered positions; to be called before segments are truncated, replaced or removed."""
        self._places.clear()

    def read(self, offset: int, max_bytes: int, *, upper_offset: int, at_least_one: bool) -> FileRange | None:
        """The batches from `offset` up to `upper_offset`, as many as `max_bytes` allow."""
        start_offset, end_offset = self._extent.start_offset, self._segments.active.next_offset
        if not start_offset <= offset <= end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} lies outside {start_offset}..{end_offset}"
            )
        if offset >= upper_offset:
            return None
        place = self._places.get(offset)
        if place is None or place[1] >= place[0].size_bytes:
            place = self._locate(offset)
            if place is None:
                return None
        segment, start = place
        end, next_offset = segment.size_bytes, segment.next_offset
        if next_offset > upper_offset:
            end, next_offset = self._bound(segment, upper_offset)
        if end - start > max_bytes:
            end, next_offset = _fit(segment, start, start + max_bytes, at_least_one)
        if end <= start:
            return None
        self._keep(next_offset, segment, end)
        return FileRange(segment.file, start, end - start, next_offset, self._status)

    def _locate(self, offset: int) -> tuple[Segment, int] | None:
        """Where the batch of `offset`, or the next one, starts; None if there is none."""
        for segment in self._segments.from_offset(offset):
            if segment.base_offset >= offset and segment.size_bytes:
                return segment, 0
            if segment.next_offset > offset:
                placed = segment.find(offset)
                if placed is not None:
                    if placed.header.base_offset >= offset:
                        self._keep(offset, segment, placed.position)
                    return segment, placed.position
        return None

    def _bound(self, segment: Segment, upper_offset: int) -> tuple[int, int]:
        """Where the batches before `upper_offset` end in this segment, and the offset that follows."""
        known = self._places.get(upper_offset)
        if known is not None and known[0] is segment:
            return known[1], upper_offset
        placed = segment.find(upper_offset)
        if placed is None:
            return segment.size_bytes, segment.next_offset
        if placed.header.base_offset < upper_offset:
            return placed.position, placed.header.base_offset
        self._keep(upper_offset, segment, placed.position)
        return placed.position, upper_offset

    def _keep(self, offset: int, segment: Segment, position: int) -> None:
        """Remember where the batch of `offset`, or the next one after a gap, starts."""
        places = self._places
        if len(places) >= _PLACES_KEPT and offset not in places:
            del places[next(iter(places))]
        places[offset] = (segment, position)


def _fit(segment: Segment, start: int, limit: int, at_least_one: bool) -> tuple[int, int]:
    """The last batch boundary up to `limit`; with `at_least_one` never before the first batch's end."""
    indexed = segment.index.floor_position(limit, segment.size_bytes)
    if indexed > start:
        # Returns up to one index interval less than allowed, for one small read instead of a walk.
        try:
            return indexed, segment.base_offset_at(indexed)
        except CorruptRecord as problem:
            segment.heal(problem)
    end, next_offset = start, NO_OFFSET
    for placed in segment.walk(start):
        if placed.end > limit and not (at_least_one and end == start):
            break
        end, next_offset = placed.end, placed.next_offset
    return end, next_offset
