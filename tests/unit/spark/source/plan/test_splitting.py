"""Ranges become tasks: a least number, a largest size, and nothing lost or read twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.source.plan.offsets import OffsetRange
from ottla.spark.source.plan.splitting import split


def ranges(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange("t", index, 10, 10 + size) for index, size in enumerate(sizes)]


def sizes_by_partition(pieces: list[OffsetRange]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for piece in pieces:
        found.setdefault(piece.partition, []).append(piece.size)
    return found


def test_without_options_a_partition_is_a_task_and_an_empty_one_is_none() -> None:
    assert split(ranges(5, 0, 7), None, None) == [OffsetRange("t", 0, 10, 15), OffsetRange("t", 2, 10, 17)]


@pytest.mark.parametrize(
    ("sizes", "least", "tasks"),
    [
        ((100, 100), 1, {0: [100], 1: [100]}),
        ((100, 100), 4, {0: [50, 50], 1: [50, 50]}),
        ((300, 100), 4, {0: [100, 100, 100], 1: [100]}),
        ((1000, 1), 3, {0: [500, 500], 1: [1]}),  # the small one is not counted when the large one is cut
        ((2,), 5, {0: [1, 1]}),  # no task without an offset
        ((10, 10, 10), 4, {0: [10], 1: [10], 2: [10]}),  # about as many: rounding, as in Spark's Kafka source
    ],
)
def test_there_are_about_as_many_tasks_as_wanted(
    sizes: tuple[int, ...], least: int, tasks: dict[int, list[int]]
) -> None:
    assert sizes_by_partition(split(ranges(*sizes), least, None)) == tasks


def test_no_task_is_larger_than_wanted() -> None:
    assert sizes_by_partition(split(ranges(10, 3), None, 4)) == {0: [3, 3, 4], 1: [3]}


def test_both_at_once() -> None:
    pieces = split(ranges(1000, 10), 10, 400)
    assert len(pieces) == 10
    assert max(piece.size for piece in pieces) <= 400


@given(
    st.lists(st.integers(0, 10**9), max_size=8),
    st.none() | st.integers(1, 50),
    st.none() | st.integers(10**7, 10**9),
)
def test_the_pieces_are_the_ranges(sizes: list[int], least: int | None, most: int | None) -> None:
    pieces = split(ranges(*sizes), least, most)
    for index, size in enumerate(sizes):
        mine = [piece for piece in pieces if piece.partition == index]
        borders = [10, *(piece.end for piece in mine)]
        assert [piece.start for piece in mine] == borders[:-1]
        assert borders[-1] == 10 + size
    assert all(piece.size > 0 for piece in pieces)
    assert most is None or all(piece.size <= most for piece in pieces)
