"""More tasks than partitions: ranges are cut by maxRecordsPerPartition, then the large ones until there are
minPartitions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from ottla.spark.source.plan.offsets import OffsetRange


def split(
    ranges: Iterable[OffsetRange], min_partitions: int | None, max_records_per_partition: int | None
) -> list[OffsetRange]:
    """The tasks of a batch, in the order of the ranges. There are about `min_partitions`, more or less by
    rounding.
    """
    pieces = [each for each in ranges if each.size > 0]
    if max_records_per_partition is not None:
        pieces = [
            piece for each in pieces for piece in _cut(each, math.ceil(each.size / max_records_per_partition))
        ]
    if min_partitions is not None and min_partitions > len(pieces):
        pieces = _cut_the_large(pieces, min_partitions)
    return pieces


def _cut_the_large(ranges: Sequence[OffsetRange], min_partitions: int) -> list[OffsetRange]:
    """Partitions too small to be divided keep their one task; the others share the rest in proportion to
    their size.
    """
    total = sum(each.size for each in ranges)
    small = [each for each in ranges if _parts(each.size, total, min_partitions) == 1]
    rest_total = total - sum(each.size for each in small)
    rest_parts = max(min_partitions - len(small), 1)
    kept = set(small)
    return [
        piece
        for each in ranges
        for piece in _cut(each, 1 if each in kept else _parts(each.size, rest_total, rest_parts))
    ]


def _parts(size: int, total: int, min_partitions: int) -> int:
    return max(math.floor(size / total * min_partitions + 0.5), 1)


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """Pieces whose sizes differ by one at most, and none without an offset."""
    parts = min(parts, whole.size)
    borders = [whole.start + whole.size * index // parts for index in range(parts + 1)]
    return [
        OffsetRange(whole.topic, whole.partition, start, end) for start, end in itertools.pairwise(borders)
    ]
