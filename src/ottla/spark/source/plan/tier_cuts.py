"""Tasks that read the object store: whole segments, and never both sides of the seam to the brokers.

    task 1            task 2            task 3       task 4
    |== segment ==|== segment ==|== segment ==|== ===|-------------- brokers -------------|

One task reads a partition from its leader, because more would not make the leader faster; a store serves as many as
there are. A cut costs nothing: each task asks by itself where its range lies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from ottla.client.requests.remote_segments import ReadableSegment
from ottla.model import TopicPartition
from ottla.spark.source.plan.offsets import OffsetRange

# As much as Spark puts into a task that reads files (spark.sql.files.maxPartitionBytes).
TASK_BYTES: Final = 128 << 20


def cut_at_segments(
    ranges: Iterable[OffsetRange], segments: Mapping[TopicPartition, Sequence[ReadableSegment]]
) -> list[OffsetRange]:
    """The same offsets in more ranges, in the same order."""
    return [
        OffsetRange(each.topic, each.partition, start, end)
        for each in ranges
        for start, end in pairwise(_borders(each, segments.get(each.topic_partition, ())))
    ]


def _borders(whole: OffsetRange, segments: Sequence[ReadableSegment]) -> Iterator[int]:
    """Where the range is cut, its ends included."""
    yield whole.start
    inside = [each for each in segments if each.next_offset > whole.start and each.base_offset < whole.end]
    task_bytes = 0
    for number, segment in enumerate(inside):
        if number and task_bytes + segment.size_bytes > TASK_BYTES:
            yield segment.base_offset
            task_bytes = 0
        task_bytes += segment.size_bytes
    if inside and inside[-1].next_offset < whole.end:
        yield inside[-1].next_offset
    yield whole.end
