"""Histograms of durations: exact bounds, sums that merge (OPS-2)."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.telemetry.histogram import MOST_BITS, Histogram, bound_of, bucket_of

VALUES = st.lists(st.integers(-5, 1 << (MOST_BITS + 2)) | st.integers(0, 200), max_size=60)


@given(VALUES, VALUES)
def test_merged_histograms_equal_one_over_all_values(some: list[int], others: list[int]) -> None:
    merged = Histogram(some)
    merged.merge(Histogram(others))
    assert merged == Histogram([*some, *others])
    assert merged.count == len(some) + len(others) == sum(merged.counts)
    assert merged.total == sum(max(0, value) for value in (*some, *others))


@given(st.integers(0, 1 << MOST_BITS))
def test_a_value_lies_in_its_bucket_and_a_bucket_is_a_quarter_wide_at_most(value: int) -> None:
    index = bucket_of(value)
    assert value <= bound_of(index)
    if index:
        below = bound_of(index - 1)
        assert value > below
        assert bound_of(index) - below <= max(1, below // 4)


def test_the_buckets_follow_each_other_without_a_gap_and_the_last_one_takes_the_rest() -> None:
    bounds = [bound_of(index) for index in range(len(Histogram().counts))]
    assert bounds == sorted(set(bounds))
    assert bounds[-1] == 1 << MOST_BITS
    assert [bucket_of(bound) for bound in bounds] == list(range(len(bounds)))
    assert bucket_of(1 << 60) == len(bounds) - 1


@given(VALUES)
def test_cumulated_counts_are_those_of_the_values_up_to_each_bound(values: list[int]) -> None:
    found = Histogram(values).cumulated(0, 20)
    assert found == [(1 << bits, sum(value <= 1 << bits for value in values)) for bits in range(21)]


@given(st.lists(st.integers(1, 1 << 30), min_size=1, max_size=50), st.sampled_from([0.0, 0.5, 0.99, 1.0]))
def test_a_quantile_is_the_bound_of_the_bucket_of_the_value_there(values: list[int], share: float) -> None:
    rank = max(1, -int(-share * len(values) // 1))
    assert Histogram(values).quantile(share) == bound_of(bucket_of(sorted(values)[rank - 1]))
    assert Histogram().quantile(share) == 0


def test_a_value_may_be_counted_many_times_at_once() -> None:
    together = Histogram()
    together.record(17, 3)
    assert together == Histogram([17, 17, 17])
    assert together != Histogram([17, 17])
    assert together != 3
