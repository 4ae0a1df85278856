"""How much a batch takes of what is there."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.model import TopicPartition
from ottla.spark.source.plan.admission import Admission, limited

A, B, C = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 2)


def test_the_limit_is_shared_in_proportion_to_what_each_partition_has() -> None:
    assert limited({A: 0, B: 100}, {A: 300, B: 200}, 40) == {A: 30, B: 110}


def test_a_partition_with_little_still_gets_something() -> None:
    assert limited({A: 0, B: 0}, {A: 10_000, B: 1}, 10) == {A: 9, B: 1}


def test_what_is_within_the_limit_is_taken_whole() -> None:
    assert limited({A: 5, B: 7}, {A: 8, B: 7}, 3) == {A: 8, B: 7}


def test_a_partition_that_went_back_is_left_to_those_who_look_for_loss() -> None:
    assert limited({A: 50, B: 0}, {A: 10, B: 100}, 10) == {A: 10, B: 10}


sizes = st.lists(st.integers(0, 10**12), min_size=1, max_size=20)


@given(sizes, st.integers(1, 10**12))
def test_a_limited_batch_makes_headway_and_stays_within_what_is_there(
    available: list[int], most: int
) -> None:
    start = {TopicPartition("t", index): 7 for index in range(len(available))}
    latest = {TopicPartition("t", index): 7 + size for index, size in enumerate(available)}
    end = limited(start, latest, most)
    assert end.keys() == latest.keys()
    assert all(start[each] <= end[each] <= latest[each] for each in end)
    taken = sum(end[each] - start[each] for each in end)
    # Only shares of less than one are rounded up.
    assert taken <= most + len(available)
    if sum(available):
        assert taken > 0


def test_a_batch_waits_for_enough_but_not_for_ever() -> None:
    patient = Admission(max_offsets=None, min_offsets=10, max_delay_ms=1000)
    assert not patient.must_wait({A: 0}, {A: 3}, waited_ms=None)  # the first one never waits
    assert patient.must_wait({A: 0}, {A: 9}, waited_ms=999)
    assert not patient.must_wait({A: 0}, {A: 10}, waited_ms=0)
    assert not patient.must_wait({A: 0}, {A: 3}, waited_ms=1000)
    assert not patient.must_wait({A: 0}, {A: 5, B: 5}, waited_ms=0)  # a new partition counts from 0
    assert not Admission(max_offsets=5, min_offsets=None, max_delay_ms=1).must_wait({A: 0}, {A: 0}, 0)
