"""The ranges of a query divided among tasks, as the options say and as the object store suggests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.model import TopicPartition
from ottla.spark.source.plan.offsets import OffsetRange
from ottla.spark.source.plan.options import SourceOptions
from ottla.spark.source.plan.splitting import split

if TYPE_CHECKING:
    from ottla.spark.source.topics import TopicOffsets


def task_ranges(
    ranges: Sequence[OffsetRange], options: SourceOptions, topics: TopicOffsets
) -> list[OffsetRange]:
    """One range for each task. The leaders are asked what lies in the store if tasks may read it."""
    if options.read_tier:
        # Imported here: most queries read from brokers alone.
        from ottla.spark.source.plan.tier_cuts import cut_at_segments

        ranges = cut_at_segments(ranges, topics.remote_segments(_spans(ranges)))
    return split(ranges, options.min_partitions, options.max_records_per_partition)


def _spans(ranges: Sequence[OffsetRange]) -> dict[TopicPartition, tuple[int, int]]:
    """From the first to the last offset that is read of each partition."""
    spans: dict[TopicPartition, tuple[int, int]] = {}
    for each in ranges:
        if each.size > 0:
            first, end = spans.get(each.topic_partition, (each.start, each.end))
            spans[each.topic_partition] = min(first, each.start), max(end, each.end)
    return spans
