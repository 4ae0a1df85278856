"""Where table and log meet in one query.

    table's first        the table's next offset          the log's end
         |=================================|-------------------|
               cold: files of a snapshot         hot: the log

Rules
- The snapshot of the table is fixed first, the end of the log after it: so the end is never before the seam.
- A record before the seam comes from the table, one at or after it from the log: no gap, no duplicate.
- A log that begins after the seam (retention was faster than the table) is an error, not a gap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.lake.plan.conditions import Bounds
from ottla.lake.plan.next_commit import LogState, LostRecordsError
from ottla.spark.source.plan.offsets import OffsetRange


@dataclass(frozen=True, slots=True)
class FileSpan:
    """What a data file can hold, by its statistics; None where there are none."""

    partitions: tuple[int, int] | None
    offsets: tuple[int, int] | None
    timestamps_ms: tuple[int, int] | None


def hot_ranges(seam: Mapping[int, int], log: LogState, bounds: Bounds) -> list[OffsetRange]:
    """What is read from the log: from the seam on, as far as the conditions can want it."""
    ranges = []
    for partition, end in sorted(log.ends.items()):
        if not bounds.wants_partition(partition):
            continue
        low, high = bounds.offsets_of(partition)
        begin = max(seam[partition], low)
        end = min(end, high)
        if begin >= end:
            continue
        if log.starts[partition] > begin:
            raise LostRecordsError(
                f"The offsets {begin} to {log.starts[partition] - 1} of {log.topic}-{partition} are neither in the "
                "table nor in the log: retention deleted them before they were written to the table."
            )
        ranges.append(OffsetRange(log.topic, partition, begin, end))
    return ranges


def is_wanted(span: FileSpan, bounds: Bounds) -> bool:
    """Whether a file can hold a row that the conditions want."""
    if span.timestamps_ms is not None:
        first_ms, last_ms = span.timestamps_ms
        if last_ms < bounds.since_ms or first_ms >= bounds.until_ms:
            return False
    if span.partitions is None or span.partitions[0] != span.partitions[1]:
        return True
    partition = span.partitions[0]
    if not bounds.wants_partition(partition):
        return False
    if span.offsets is None:
        return True
    low, high = bounds.offsets_of(partition)
    return span.offsets[1] >= low and span.offsets[0] < high
