"""Which part of a topic is audited, and what is refused."""

from __future__ import annotations

import pytest

from ottla.spark.audit.scope import (
    FROM_EARLIEST,
    TO_LATEST,
    AuditError,
    Bound,
    Edge,
    LogEnds,
    PartitionScope,
    scope_of,
)

ENDS = LogEnds(earliest={0: 5, 1: 0}, latest={0: 20, 1: 10}, moments={1000: {0: 7, 1: 10}})


def ranges(start: Bound = FROM_EARLIEST, end: Bound = TO_LATEST, **table_ends: int) -> list[tuple[int, int]]:
    ends = {int(partition[1:]): offset for partition, offset in table_ends.items()}
    return [(each.start, each.end) for each in scope_of("orders", ENDS, start, end, ends).values()]


def test_everything_there_is_by_default() -> None:
    assert scope_of("orders", ENDS, FROM_EARLIEST, TO_LATEST, {}) == {
        0: PartitionScope(5, 20, 5, 20),
        1: PartitionScope(0, 10, 0, 10),
    }


def test_bounds_are_offsets_offsets_by_partition_or_moments() -> None:
    assert ranges(Bound(offset=6), Bound(offset=8)) == [(6, 8), (6, 8)]
    assert ranges(Bound(offsets={1: 3}), Bound(offsets={0: 9})) == [(5, 9), (3, 10)]
    assert ranges(Bound(time_ms=1000)) == [(7, 20), (10, 10)]


def test_as_far_as_the_table_goes() -> None:
    assert ranges(end=Bound(Edge.TABLE), p0=12) == [(5, 12), (0, 0)]
    assert ranges(end=Bound(Edge.TABLE), p0=99, p1=4) == [(5, 20), (0, 4)]


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [
        (Bound(offset=4), TO_LATEST, "begins at offset 5: the records from 4 to 4 were deleted"),
        (Bound(offset=5), Bound(offset=15), "partition 1 of orders ends at offset 10"),
        (Bound(offset=8), Bound(offset=7), "partition 0 of orders is empty the wrong way round: from 8 to 7"),
        (Bound(offsets={2: 1}), TO_LATEST, "--from names partition 2: orders has the partitions 0 to 1"),
        (FROM_EARLIEST, Bound(offsets={9: 1}), "--to names partition 9"),
    ],
)
def test_what_is_not_there_is_refused(start: Bound, end: Bound, words: str) -> None:
    with pytest.raises(AuditError, match=words):
        ranges(start, end)
