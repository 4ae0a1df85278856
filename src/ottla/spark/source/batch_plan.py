"""The ranges of a batch query: what the options say, as far as it is there and the filters want it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.model import TopicPartition
from ottla.spark.option_values import OptionError
from ottla.spark.source.plan.data_loss import report_data_loss
from ottla.spark.source.plan.filters import Wanted
from ottla.spark.source.plan.intervals import between
from ottla.spark.source.plan.offsets import LATEST, OffsetRange, PartitionOffsets
from ottla.spark.source.plan.options import SourceOptions
from ottla.spark.source.plan.query_bounds import for_batch

if TYPE_CHECKING:
    from ottla.spark.source.topics import TopicOffsets


def planned_ranges(options: SourceOptions, wanted: Wanted, topics: TopicOffsets) -> list[OffsetRange]:
    """The ranges a batch reads, by topic, partition and offset. Raises for options that do not fit the
    cluster.
    """
    starting, ending = for_batch(options)
    everything = topics.partitions()
    starts = topics.resolve(starting, everything, side="starting")
    ends = topics.resolve(ending, everything, side="ending")
    partitions = {each for each in everything & starts.keys() & ends.keys() if wanted.has(each)}
    for partition in partitions:
        _check_in_order(partition, starts[partition], ends[partition])
    starts = _late_enough(starts, ends, partitions, wanted.since_ms, topics)
    there = _There(topics.earliest(partitions), topics.latest(partitions), options.fail_on_data_loss)
    return [
        there.part_of(OffsetRange(*partition, start, end))
        for partition in sorted(partitions)
        for start, end in (between(starts[partition], ends[partition]) & wanted.offsets).spans
    ]


def _check_in_order(partition: TopicPartition, start: int, end: int) -> None:
    if start > end:
        raise OptionError(
            f"The starting offset {start} of {partition} is after its ending offset {end}. "
            "Check the options, and whether the topic was deleted and created again."
        )


def _late_enough(
    starts: PartitionOffsets,
    ends: PartitionOffsets,
    partitions: set[TopicPartition],
    since_ms: int | None,
    topics: TopicOffsets,
) -> PartitionOffsets:
    """No record before the first one that is as late as `since_ms` can be wanted."""
    if since_ms is None:
        return starts
    first = topics.first_at(dict.fromkeys(partitions, max(since_ms, 0)))
    late = {each: ends[each] if offset == LATEST else offset for each, offset in first.items()}
    return {each: max(start, late.get(each, start)) for each, start in starts.items()}


@dataclass(frozen=True, slots=True)
class _There:
    """The first and last offsets of each partition while the batch is planned."""

    earliest: Mapping[TopicPartition, int]
    latest: Mapping[TopicPartition, int]
    fail_on_data_loss: bool

    def part_of(self, wanted: OffsetRange) -> OffsetRange:
        """Without what is not there, which is data loss."""
        partition = wanted.topic_partition
        earliest = self.earliest.get(partition, wanted.start)
        latest = self.latest.get(partition, wanted.end)
        if wanted.start < earliest:
            reason = f"{partition} is to be read from offset {wanted.start}, and begins at {earliest}."
            report_data_loss(reason, fail=self.fail_on_data_loss)
        if wanted.end > latest:
            reason = f"{partition} is to be read up to offset {wanted.end}, and ends at {latest}."
            report_data_loss(reason, fail=self.fail_on_data_loss)
        end = min(wanted.end, latest)
        return OffsetRange(*partition, min(max(wanted.start, earliest), end), end)
