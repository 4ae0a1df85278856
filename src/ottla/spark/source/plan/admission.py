"""How much of what is there a batch takes: maxOffsetsPerTrigger, minOffsetsPerTrigger and maxTriggerDelay.

The limit is shared among the partitions in proportion to what each has to offer, as Spark's Kafka source
does, so that no partition falls behind for good; a partition with little still gets something.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ottla.model import TopicPartition
from ottla.spark.source.plan.offsets import PartitionOffsets
from ottla.spark.source.plan.options import SourceOptions


@dataclass(frozen=True, slots=True)
class Admission:
    """The limits that the options set; None is none."""

    max_offsets: int | None
    min_offsets: int | None
    max_delay_ms: int

    @classmethod
    def of(cls, options: SourceOptions) -> Admission:
        return cls(
            options.max_offsets_per_trigger, options.min_offsets_per_trigger, options.max_trigger_delay_ms
        )

    def must_wait(
        self,
        start: Mapping[TopicPartition, int],
        latest: Mapping[TopicPartition, int],
        waited_ms: float | None,
    ) -> bool:
        """Whether there is too little for a batch yet. `waited_ms` is None if there has been none."""
        if self.min_offsets is None or waited_ms is None or waited_ms >= self.max_delay_ms:
            return False
        return sum(_sizes(start, latest).values()) < self.min_offsets


def limited(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], max_offsets: int
) -> PartitionOffsets:
    """Where the batch ends: about `max_offsets` behind `start`, which has an offset for each partition of
    `latest`.
    """
    sizes = _sizes(start, latest)
    total = sum(sizes.values())
    if total <= max_offsets:
        return dict(latest)
    return {
        partition: start[partition] + _share(size, total, max_offsets) if size > 0 else latest[partition]
        for partition, size in sizes.items()
    }


def _sizes(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    return {partition: max(end - start.get(partition, 0), 0) for partition, end in latest.items()}


def _share(size: int, total: int, max_offsets: int) -> int:
    share = max_offsets * size / total
    return min(size, math.ceil(share) if share < 1 else math.floor(share))
