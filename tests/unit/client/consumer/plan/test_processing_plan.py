"""The plan of what is processed when: order within a lane, bounds, and commits that never pass an unfinished
record (GRP-9).
"""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.consumer.plan.processing_plan import Order, ProcessingPlan, Work
from ottla.client.fetching.plan.record_batch import ConsumerRecord
from ottla.model import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def record(partition: int, offset: int, key: bytes | None = None) -> ConsumerRecord:
    return ConsumerRecord("t", partition, offset, 0, key, b"v", ())


def begun(plan: ProcessingPlan) -> dict[tuple[int, int], Work]:
    """The records that may begin now, by partition and offset."""
    return {(work.record.partition, work.record.offset): work for work in plan.begin()}


def test_a_partition_is_first_in_first_out_and_partitions_go_side_by_side() -> None:
    plan = ProcessingPlan("partition", most_running=9)
    plan.add([record(0, 0), record(0, 1), record(1, 5)])
    first = begun(plan)
    assert first.keys() == {(0, 0), (1, 5)}
    assert (plan.running, plan.waiting) == (2, 1)
    plan.finish(first[0, 0])
    assert begun(plan).keys() == {(0, 1)}


def test_records_of_one_key_wait_for_each_other_and_others_do_not() -> None:
    plan = ProcessingPlan("key", most_running=9)
    plan.add([record(0, 0, b"a"), record(0, 1, b"b"), record(0, 2, b"a"), record(0, 3), record(0, 4)])
    first = begun(plan)
    assert first.keys() == {(0, 0), (0, 1), (0, 3), (0, 4)}
    plan.finish(first[0, 1])
    assert begun(plan) == {}
    plan.finish(first[0, 0])
    assert begun(plan).keys() == {(0, 2)}


def test_no_more_run_than_may() -> None:
    plan = ProcessingPlan("none", most_running=2)
    plan.add([record(0, offset) for offset in range(4)])
    first = begun(plan)
    assert first.keys() == {(0, 0), (0, 1)}
    assert begun(plan) == {}
    plan.finish(first[0, 1])
    assert begun(plan).keys() == {(0, 2)}


def test_a_partition_is_done_up_to_its_first_unfinished_record() -> None:
    plan = ProcessingPlan("none", most_running=9)
    plan.add([record(0, 3), record(0, 7), record(0, 8), record(1, 0)])
    work = begun(plan)
    assert (plan.unfinished(T0), plan.unfinished(T1)) == (3, 0)
    plan.finish(work[0, 7])
    plan.finish(work[0, 8])
    assert plan.unfinished(T0) == 3
    plan.finish(work[0, 3])
    assert (plan.unfinished(T0), plan.unfinished(T1)) == (None, 0)


def test_what_failed_is_never_passed() -> None:
    plan = ProcessingPlan("none", most_running=9)
    plan.add([record(0, 0), record(0, 1)])
    work = begun(plan)
    plan.finish(work[0, 0], is_done=False)
    plan.finish(work[0, 1])
    assert plan.unfinished(T0) == 0


@pytest.mark.parametrize("order", ["partition", "key", "none"])
def test_what_waits_of_a_partition_can_be_dropped_and_counts_as_unfinished(order: Order) -> None:
    plan = ProcessingPlan(order, most_running=1)
    plan.add([record(0, 0, b"a"), record(0, 1, b"a"), record(0, 2, b"b"), record(1, 0, b"a")])
    (work,) = begun(plan).values()
    leaving = frozenset({T0})
    assert (plan.waiting_of(leaving), plan.running_of(leaving)) == (2, [work])
    plan.drop_waiting(leaving)
    plan.finish(work)
    assert (plan.unfinished(T0), plan.waiting, plan.running_of(leaving)) == (1, 1, [])
    plan.forget(leaving)
    assert plan.unfinished(T0) is None
    plan.add([record(0, 1, b"a")])
    assert begun(plan).keys() == {(1, 0)}


def test_what_is_finished_after_its_partition_went_and_came_back_does_not_count() -> None:
    plan = ProcessingPlan("key", most_running=9)
    plan.add([record(0, 5, b"a")])
    (old,) = begun(plan).values()
    plan.forget([T0])
    plan.add([record(0, 5, b"b")])
    plan.finish(old)
    assert plan.unfinished(T0) == 5


@given(
    order=st.sampled_from(["partition", "key", "none"]),
    workers=st.integers(1, 6),
    seed=st.integers(0, 10_000),
)
def test_at_random_order_and_commits_hold(order: Order, workers: int, seed: int) -> None:
    rnd = random.Random(seed)
    plan = ProcessingPlan(order, most_running=workers)
    ends: defaultdict[int, int] = defaultdict(int)
    running: list[Work] = []
    finished: set[tuple[int, int]] = set()
    lanes: dict[object, int] = {}
    for _ in range(60):
        if rnd.random() < 0.5:
            partition = rnd.randrange(2)
            key = rnd.choice([b"a", b"b", None])
            plan.add([record(partition, ends[partition], key)])
            ends[partition] += rnd.randint(1, 2)  # compaction leaves gaps
        elif running:
            work = running.pop(rnd.randrange(len(running)))
            plan.finish(work)
            finished.add((work.record.partition, work.record.offset))
        for work in plan.begin():
            assert lanes.get(work.lane, -1) < work.record.offset  # in order
            assert all(other.lane != work.lane for other in running)  # one at a time
            lanes[work.lane] = work.record.offset
            running.append(work)
        assert len(running) == plan.running <= workers
        for work in running:
            unfinished = plan.unfinished(work.partition)
            assert unfinished is not None
            assert unfinished <= work.record.offset
            assert (work.record.partition, unfinished) not in finished
