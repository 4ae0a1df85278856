"""Replicas are spread evenly over racks and brokers, by what these can hold and hold already (CTL-2)."""

from collections import Counter
from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.controller.placement import Candidate, Load, place


def spread(counts: Counter[int], nodes: Iterable[int]) -> int:
    found = [counts[node_id] for node_id in nodes]
    return max(found) - min(found)


def place_topics(brokers: list[Candidate], topics: list[tuple[int, int]], load: Load) -> list[list[int]]:
    """Topics with these numbers of partitions and replicas, one after the other."""
    everything = []
    for count, factor in topics:
        placed = place(brokers, count, factor, load)
        for replicas in placed:
            assert len(set(replicas)) == factor
            load.add(replicas)
        everything += placed
    return everything


@settings(deadline=None)
@given(st.data())
def test_no_broker_leads_or_holds_two_partitions_more_than_another(data: st.DataObject) -> None:
    nodes = data.draw(st.lists(st.integers(0, 1000), min_size=1, max_size=9, unique=True))
    factor = data.draw(st.integers(1, len(nodes)))
    counts = data.draw(st.lists(st.integers(1, 30), max_size=6))
    load = Load()
    place_topics([Candidate(node_id) for node_id in nodes], [(count, factor) for count in counts], load)
    assert spread(load.held, nodes) <= 1
    assert spread(load.led, nodes) <= 1


@settings(deadline=None)
@given(st.data())
def test_topics_of_different_replication_leave_replicas_even(data: st.DataObject) -> None:
    nodes = range(data.draw(st.integers(1, 7)))
    topics = data.draw(st.lists(st.tuples(st.integers(1, 9), st.integers(1, len(nodes))), max_size=10))
    load = Load()
    place_topics([Candidate(node_id) for node_id in nodes], topics, load)
    assert spread(load.held, nodes) <= 1


@settings(deadline=None)
@given(st.data())
def test_replicas_stand_apart_in_racks_and_equal_racks_are_even(data: st.DataObject) -> None:
    racks, size = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    brokers = [Candidate(node_id, f"rack{node_id % racks}") for node_id in range(racks * size)]
    factor = data.draw(st.integers(1, len(brokers)))
    load = Load()
    for replicas in place_topics(brokers, [(data.draw(st.integers(1, 40)), factor)], load):
        in_rack = Counter(node_id % racks for node_id in replicas)
        assert spread(in_rack, range(racks)) <= 1
    assert spread(load.held, range(len(brokers))) <= 1
    assert spread(load.led, range(len(brokers))) <= 1


def test_a_rack_with_one_broker_takes_its_share_of_every_partition() -> None:
    brokers = [Candidate(1, "a"), Candidate(2, "a"), Candidate(3, "b")]
    load = Load()
    for replicas in place_topics(brokers, [(10, 2)], load):
        assert 3 in replicas
    assert load.held == {1: 5, 2: 5, 3: 10}


def test_a_broker_of_twice_the_capacity_takes_twice_as_much() -> None:
    brokers = [Candidate(1), Candidate(2, capacity=2), Candidate(3)]
    load = Load()
    place_topics(brokers, [(40, 1), (40, 1)], load)
    assert load.held == {1: 20, 2: 40, 3: 20}
    assert load.led == load.held


def test_what_comes_after_growth_goes_where_there_is_least() -> None:
    load = Load()
    place_topics([Candidate(1), Candidate(2)], [(6, 2)], load)
    grown = [Candidate(node_id) for node_id in (1, 2, 3)]
    assert {replicas[0] for replicas in place_topics(grown, [(6, 1)], load)} == {3}
    place_topics(grown, [(3, 2)], load)
    assert spread(load.held, (1, 2, 3)) <= 1


def test_the_partitions_of_one_leader_are_inherited_by_different_brokers() -> None:
    for brokers, factor in ((3, 3), (3, 2), (4, 3), (5, 3)):
        load = Load()
        place_topics([Candidate(node_id) for node_id in range(brokers)], [(60, factor), (1, factor)], load)
        for leader in range(brokers):
            inherited = [load.heirs[leader, heir] for heir in range(brokers) if heir != leader]
            assert max(inherited) - min(inherited) <= 2


def test_topics_of_one_partition_do_not_meet_on_one_broker() -> None:
    load = Load()
    placed = place_topics([Candidate(node_id) for node_id in (7, 8, 9)], [(1, 1)] * 4, load)
    assert placed == [[7], [8], [9], [7]]
