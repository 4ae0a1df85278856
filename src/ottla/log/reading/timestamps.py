"""From a timestamp to an offset (STO-8).

The answer to "at or after t" is the first record whose timestamp is at least t, in the first batch whose
largest timestamp is. Entries of the time index and of the offset index are written at the same moments, so
that batch lies in the one index interval before the first time entry beyond t: one binary search in each
index and a short walk. Only that one batch is decoded.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ottla.log.segments.extent import Extent
from ottla.log.segments.segment import Placed, Segment
from ottla.log.status import Status
from ottla.model import NO_TIMESTAMP
from ottla.records.batch import BatchView, CorruptRecord


class TimestampOffset(NamedTuple):
    """A record's timestamp and offset, and the leader epoch it was written in."""

    timestamp: int
    offset: int
    leader_epoch: int


NOTHING = TimestampOffset(NO_TIMESTAMP, -1, -1)


class Timestamps:
    """Finds records of one log by their timestamps. KafkaError if the log cannot be read."""

    __slots__ = ("_extent", "_status")

    def __init__(self, extent: Extent, status: Status) -> None:
        self._extent = extent
        self._status = status

    def first_at(self, timestamp_ms: int, *, upper_offset: int) -> TimestampOffset | None:
        """The first record at or after the timestamp, below `upper_offset`."""
        try:
            return self._first_at(timestamp_ms, upper_offset)
        except (OSError, CorruptRecord) as problem:
            raise self._status.read_error(problem) from problem

    def at_offset(self, offset: int) -> int | None:
        """The timestamp of the batch that holds an offset, or of the next one: that of the batch's first record.

        None at the end of the log. One index search and a short walk over headers.
        """
        try:
            for segment in self._extent.segments.from_offset(offset):
                placed = segment.find(offset) if offset < segment.next_offset else None
                if placed is not None:
                    return placed.header.base_timestamp
        except (OSError, CorruptRecord) as problem:
            raise self._status.read_error(problem) from problem
        return None

    def largest(self) -> TimestampOffset:
        """The first record with the largest timestamp; (-1, -1, -1) in an empty log."""
        try:
            return self._largest()
        except (OSError, CorruptRecord) as problem:
            raise self._status.read_error(problem) from problem

    def _first_at(self, timestamp_ms: int, upper_offset: int) -> TimestampOffset | None:
        for segment in self._extent.segments.from_offset(self._extent.start_offset):
            if segment.base_offset >= upper_offset:
                break
            if segment.largest_timestamp[0] < timestamp_ms:
                continue
            for placed in segment.walk(_walk_start(segment, timestamp_ms)):
                if placed.header.base_offset >= upper_offset:
                    return None
                found = self._first_record(segment, placed, timestamp_ms)
                if found is not None:
                    return found if found.offset < upper_offset else None
        return None

    def _largest(self) -> TimestampOffset:
        best = NOTHING
        for segment in self._extent.segments.from_offset(self._extent.start_offset):
            timestamp_ms, last_offset = segment.largest_timestamp
            if timestamp_ms > best.timestamp:
                placed = segment.find(last_offset)
                found = None if placed is None else self._first_record(segment, placed, timestamp_ms)
                best = found or self._largest_left(segment, best)
        return best

    def _largest_left(self, segment: Segment, best: TimestampOffset) -> TimestampOffset:
        """The largest timestamp of a segment from which the indexed one was removed."""
        for placed in segment.walk():
            header = placed.header
            if header.records_count and header.max_timestamp > best.timestamp:
                best = self._first_record(segment, placed, header.max_timestamp) or best
        return best

    def _first_record(self, segment: Segment, placed: Placed, timestamp_ms: int) -> TimestampOffset | None:
        """The first record of the batch at or after the timestamp and the log start offset."""
        header, start_offset = placed.header, self._extent.start_offset
        if header.max_timestamp < timestamp_ms or header.last_offset < start_offset:
            return None
        for timestamp, offset in _times_of(segment, placed):
            if timestamp >= timestamp_ms and offset >= start_offset:
                return TimestampOffset(timestamp, offset, header.partition_leader_epoch)
        return None


def _walk_start(segment: Segment, timestamp_ms: int) -> int:
    """A position at or before the first batch that reaches the timestamp, one index interval away at most."""
    times = segment.time_index
    number = times.file.floor(timestamp_ms)
    if number >= 0 and times.at(number)[0] == timestamp_ms:
        return segment.index.position_before(times.at(number)[1])
    if number + 1 < times.file.count:
        # The batch follows the previous index entry, where the largest timestamp was still smaller.
        return segment.index.position_before(times.at(number + 1)[1] - 1)
    return segment.index.last()[1]


def _times_of(segment: Segment, placed: Placed) -> Iterator[tuple[int, int]]:
    """(timestamp, offset) of each record; of the batch as a whole if its records cannot be read."""
    batch = BatchView(segment.file.read(placed.position, placed.header.size_bytes))
    try:
        for record in batch.records():
            yield record.timestamp, record.offset
    except CorruptRecord:
        yield batch.max_timestamp, batch.last_offset
