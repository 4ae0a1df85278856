"""Sets of offsets as intervals agree with sets of numbers."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.source.plan.intervals import EVERYTHING, NOTHING, Intervals, between, points

UP_TO = 40
numbers = st.lists(st.integers(-3, UP_TO - 1), max_size=12)


def members(intervals: Intervals) -> set[int]:
    return {each for each in range(UP_TO) if any(start <= each < end for start, end in intervals.spans)}


@given(numbers, numbers)
def test_the_algebra_is_that_of_sets(some: list[int], others: list[int]) -> None:
    one, two = points(some), points(others)
    everything = set(range(UP_TO))
    assert members(one) == {each for each in some if each >= 0}
    assert members(one & two) == members(one) & members(two)
    assert members(~one) == everything - members(one)
    assert ~~one == one


@given(numbers)
def test_intervals_are_apart_and_in_order(some: list[int]) -> None:
    borders = [border for span in points(some).spans for border in span]
    assert borders == sorted(set(borders))


def test_bounds() -> None:
    assert between(3, 5).spans == ((3, 5),)
    assert between(-3, 5).spans == ((0, 5),)
    assert between(5, 5) == NOTHING
    assert between() == EVERYTHING
    assert between(start=2**70) == NOTHING
    assert ~EVERYTHING == NOTHING
    assert ~NOTHING == EVERYTHING
