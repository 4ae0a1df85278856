"""From a time to an offset (STO-8).

The answer to "at or after t" is the first record whose timestamp is at least t, in the first batch whose largest
timestamp is. Time index entries and offset index entries are written at the same moments, so the batch lies in the
one index interval before the first time entry beyond t: one binary search in each index and a short walk. Only that
one batch is decoded.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ottla.log.segments.segment import Placed, Segment
from ottla.log.state import LogState
from ottla.model import NO_TIMESTAMP
from ottla.records.batch import BatchView, CorruptRecord


class TimestampOffset(NamedTuple):
    """A record's timestamp and offset, and the leader epoch it was written in."""

    timestamp: int
    offset: int
    leader_epoch: int


NOTHING = TimestampOffset(NO_TIMESTAMP, -1, -1)


def offset_for_timestamp(state: LogState, timestamp_ms: int, upper_offset: int) -> TimestampOffset | None:
    """The first record at or after the time that a reader bounded by `upper_offset` may see."""
    for segment in state.segments.from_offset(state.log_start_offset):
        if segment.base_offset >= upper_offset:
            break
        if segment.largest_timestamp[0] < timestamp_ms:
            continue
        for placed in segment.walk(_walk_start(segment, timestamp_ms)):
            if placed.header.base_offset >= upper_offset:
                return None
            found = _first_record(state, segment, placed, timestamp_ms)
            if found is not None:
                return found if found.offset < upper_offset else None
    return None


def max_timestamp(state: LogState) -> TimestampOffset:
    """The record with the largest timestamp, the first if there are several; NOTHING in an empty log."""
    best = NOTHING
    for segment in state.segments.from_offset(state.log_start_offset):
        timestamp_ms, last_offset = segment.largest_timestamp
        if timestamp_ms > best.timestamp:
            placed = segment.find(last_offset)
            found = None if placed is None else _first_record(state, segment, placed, timestamp_ms)
            best = found or _largest_left(state, segment, best)
    return best


def _largest_left(state: LogState, segment: Segment, best: TimestampOffset) -> TimestampOffset:
    """The record with the largest timestamp of a segment where compaction, or a new log start, took the largest."""
    for placed in segment.walk():
        header = placed.header
        if header.records_count and header.max_timestamp > best.timestamp:
            best = _first_record(state, segment, placed, header.max_timestamp) or best
    return best


def _walk_start(segment: Segment, timestamp_ms: int) -> int:
    """A position at or before the first batch that reaches the time, one index interval away at most."""
    times = segment.time_index
    number = times.file.floor(timestamp_ms)
    if number >= 0 and times.at(number)[0] == timestamp_ms:
        return segment.index.position_before(times.at(number)[1])
    if number + 1 < times.file.count:
        # The batch came after the index entry before this one's: there the largest timestamp was still smaller.
        return segment.index.position_before(times.at(number + 1)[1] - 1)
    return segment.index.last()[1]


def _first_record(
    state: LogState, segment: Segment, placed: Placed, timestamp_ms: int
) -> TimestampOffset | None:
    """The first record of the batch at or after the time that is still in the log."""
    header = placed.header
    if header.max_timestamp < timestamp_ms or header.last_offset < state.log_start_offset:
        return None
    for timestamp, offset in _times_of(segment, placed):
        if timestamp >= timestamp_ms and offset >= state.log_start_offset:
            return TimestampOffset(timestamp, offset, header.partition_leader_epoch)
    return None


def _times_of(segment: Segment, placed: Placed) -> Iterator[tuple[int, int]]:
    """(timestamp, offset) of each record; of the batch as a whole where its records cannot be read."""
    batch = BatchView(segment.file.read(placed.position, placed.header.size_bytes))
    try:
        for record in batch.records():
            yield record.timestamp, record.offset
    except CorruptRecord:
        yield batch.max_timestamp, batch.last_offset
