"""Plans even a cluster out with as few moves as it takes, and empty brokers (CTL-2, CTL-7)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.controller.image import (
    CAPACITY_FEATURE,
    BrokerImage,
    ClusterImage,
    PartitionImage,
    SupportedFeature,
    TopicImage,
)
from ottla.controller.placement import Candidate, Load, place
from ottla.errors import ErrorCode, KafkaError
from ottla.localcluster.plan.rebalance import Move, plan_drain, plan_rebalance

Topics = Mapping[str, list[list[int]]]


def broker(node_id: int, rack: str | None = None, capacity: int = 1) -> BrokerImage:
    features = (SupportedFeature(CAPACITY_FEATURE, 0, capacity),)
    return BrokerImage(node_id, 1, UUID(int=node_id), (), rack, features=features)


def image_of(brokers: Iterable[BrokerImage], topics: Topics) -> ClusterImage:
    made = [
        TopicImage(
            name,
            UUID(int=number + 100),
            tuple(
                PartitionImage(index, tuple(replicas), tuple(replicas), replicas[0])
                for index, replicas in enumerate(lists)
            ),
        )
        for number, (name, lists) in enumerate(topics.items())
    ]
    return ClusterImage(
        "cluster",
        {topic.name: topic for topic in made},
        {topic.topic_id: topic for topic in made},
        {each.node_id: each for each in brokers},
    )


def after(topics: Topics, moves: list[Move]) -> dict[str, list[list[int]]]:
    moved = {name: [list(replicas) for replicas in lists] for name, lists in topics.items()}
    for move in moves:
        assert len(set(move.replicas)) == len(topics[move.topic][move.partition])
        moved[move.topic][move.partition] = list(move.replicas)
    return moved


def load(topics: Topics) -> Load:
    return Load(tuple(replicas) for lists in topics.values() for replicas in lists)


def spread(counts: Mapping[int, int], nodes: Iterable[int]) -> int:
    found = [counts.get(node_id, 0) for node_id in nodes]
    return max(found) - min(found)


def copies(topics: Topics, moves: list[Move]) -> int:
    """How many replicas have to be copied."""
    return sum(len(set(move.replicas) - set(topics[move.topic][move.partition])) for move in moves)


@st.composite
def uneven(draw: st.DrawFn) -> tuple[list[int], dict[str, list[list[int]]]]:
    """Brokers, and topics that stand on some of them anyhow."""
    nodes = list(range(1, draw(st.integers(1, 6)) + 1))
    old = nodes[: draw(st.integers(1, len(nodes)))]
    replicas = st.lists(st.sampled_from(old), min_size=1, max_size=3, unique=True)
    lists = st.lists(replicas, min_size=1, max_size=12)
    return nodes, draw(st.dictionaries(st.sampled_from("abcd"), lists, max_size=4))


@settings(deadline=None)
@given(uneven())
def test_a_rebalance_leaves_a_spread_of_one_with_no_copy_too_many(
    given_cluster: tuple[list[int], dict[str, list[list[int]]]],
) -> None:
    nodes, topics = given_cluster
    brokers = [broker(node_id) for node_id in nodes]
    moves = plan_rebalance(image_of(brokers, topics))
    moved = after(topics, moves)
    before, now = load(topics).held, load(moved).held
    assert spread(now, nodes) <= 1
    assert copies(topics, moves) == sum(max(0, before[node_id] - now[node_id]) for node_id in nodes)
    assert plan_rebalance(image_of(brokers, moved)) == []


@settings(deadline=None)
@given(st.data())
def test_a_broker_that_joins_gets_its_share_and_nobody_else_anything(data: st.DataObject) -> None:
    count, factor = data.draw(st.integers(2, 5)), data.draw(st.integers(1, 2))
    nodes = list(range(1, count + 1))
    topics: dict[str, list[list[int]]] = {}
    held = Load()
    for name in "abc":
        topics[name] = place(
            [Candidate(node_id) for node_id in nodes], data.draw(st.integers(1, 20)), factor, held
        )
        for replicas in topics[name]:
            held.add(replicas)
    moves = plan_rebalance(image_of([broker(node_id) for node_id in (*nodes, 9)], topics))
    now = load(after(topics, moves))
    assert spread(now.held, (*nodes, 9)) <= 1
    assert spread(now.led, (*nodes, 9)) <= 1
    assert copies(topics, moves) == now.held[9]


@settings(deadline=None)
@given(st.data())
def test_racks_come_before_brokers(data: st.DataObject) -> None:
    racks, size = data.draw(st.integers(2, 3)), data.draw(st.integers(1, 2))
    nodes = list(range(racks * size))
    factor = data.draw(st.integers(1, len(nodes)))
    replicas = st.lists(st.sampled_from(nodes), min_size=factor, max_size=factor, unique=True)
    topics = {"a": data.draw(st.lists(replicas, min_size=1, max_size=15))}
    image = image_of([broker(node_id, f"rack{node_id % racks}") for node_id in nodes], topics)
    moved = after(topics, plan_rebalance(image))
    for found in moved["a"]:
        assert spread(Counter(node_id % racks for node_id in found), range(racks)) <= 1
    assert spread(load(moved).held, nodes) <= 1


def test_a_broker_of_twice_the_capacity_gets_twice_as_much() -> None:
    topics = {"a": [[1] for _ in range(40)]}
    moves = plan_rebalance(image_of([broker(1), broker(2, capacity=2), broker(3)], topics))
    assert load(after(topics, moves)).held == {1: 10, 2: 20, 3: 10}


def test_preferred_leaders_are_evened_out_without_copying() -> None:
    topics = {"a": [[1, 2, 3] for _ in range(9)]}
    moves = plan_rebalance(image_of(map(broker, (1, 2, 3)), topics))
    assert copies(topics, moves) == 0
    assert load(after(topics, moves)).led == {1: 3, 2: 3, 3: 3}


def test_a_topic_is_spread_over_all_brokers_not_only_the_cluster() -> None:
    topics = {name: [[1, 2, 3] for _ in range(8)] for name in "abcde"}
    moved = after(topics, plan_rebalance(image_of(map(broker, (1, 2, 3, 4)), topics)))
    for lists in moved.values():
        assert spread(load({"one": lists}).held, (1, 2, 3, 4)) <= 1


def test_what_is_on_a_broker_that_is_away_stays_there() -> None:
    topics = {"a": [[3] for _ in range(6)]}
    for away in (replace(broker(3), is_fenced=True), replace(broker(3), in_controlled_shutdown=True)):
        assert plan_rebalance(image_of([broker(1), broker(2), away], topics)) == []


def test_a_move_under_way_counts_as_done() -> None:
    image = image_of(map(broker, (1, 2)), {"a": [[1], [1]]})
    (topic,) = image.topics_by_id.values()
    moving = replace(topic.partitions[1], replicas=(2, 1), adding_replicas=(2,), removing_replicas=(1,))
    topic = replace(topic, partitions=(topic.partitions[0], moving))
    image = replace(image, topics_by_name={"a": topic}, topics_by_id={topic.topic_id: topic})
    assert plan_rebalance(image) == []
    assert plan_drain(image, [2]) == [Move("a", 1, (1,))]


@settings(deadline=None)
@given(st.data())
def test_a_drain_empties_brokers_and_leaves_an_even_cluster_even(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 6))
    nodes = list(range(1, count + 1))
    factor = data.draw(st.integers(1, min(3, count - 1)))
    drained = data.draw(st.sets(st.sampled_from(nodes), min_size=1, max_size=count - factor))
    partitions = data.draw(st.integers(1, 30))
    topics = {"a": place([Candidate(node_id) for node_id in nodes], partitions, factor, Load())}
    moves = plan_drain(image_of(map(broker, nodes), topics), drained)
    held = load(after(topics, moves)).held
    assert not drained & {node_id for node_id in held if held[node_id]}
    assert spread(held, set(nodes) - drained) <= 1


def test_a_drain_moves_nothing_that_it_need_not() -> None:
    topics = {"a": [[1, 2], [1, 2], [1, 2], [3, 2]]}
    moves = plan_drain(image_of(map(broker, (1, 2, 3, 4)), topics), [3])
    assert moves == [Move("a", 3, (2, 4))]  # the one that has the records leads


def test_a_drain_keeps_replicas_apart_in_racks() -> None:
    brokers = [broker(1, "a"), broker(2, "a"), broker(3, "b"), broker(4, "b")]
    topics = {"a": [[1, 3]], "b": [[2], [2], [2]]}
    assert plan_drain(image_of(brokers, topics), [1]) == [Move("a", 0, (3, 2))]


def test_a_drain_of_brokers_that_are_gone_is_possible() -> None:
    topics = {"a": [[1, 2]]}
    image = image_of([replace(broker(1), is_fenced=True), broker(2), broker(3)], topics)
    assert plan_drain(image, [1]) == [Move("a", 0, (2, 3))]


@pytest.mark.parametrize(
    ("drained", "code", "words"),
    [
        ([9], ErrorCode.BROKER_ID_NOT_REGISTERED, "No broker 9"),
        ([1], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a-0 has 2 replicas"),
        ([1, 2], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "add a broker"),
    ],
)
def test_a_drain_that_cannot_be_is_refused(drained: list[int], code: ErrorCode, words: str) -> None:
    with pytest.raises(KafkaError, match=words) as raised:
        plan_drain(image_of(map(broker, (1, 2)), {"a": [[1, 2]]}), drained)
    assert raised.value.code == code
