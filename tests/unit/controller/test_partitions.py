"""Adding partitions to topics that exist (CTL-7)."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.controller.cluster import Cluster, registration, topic, topic_on

from ottla.controller.partitions import MAX_PARTITIONS_PER_COMMAND
from ottla.errors import ErrorCode
from ottla.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.topics import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)


def grown(name: str, count: int, *replica_lists: list[int]) -> CreatePartitionsTopic:
    assignments = [CreatePartitionsAssignment(replicas) for replicas in replica_lists]
    return CreatePartitionsTopic(name, count, assignments or None)


def test_partitions_are_added_behind_the_existing_ones() -> None:
    cluster = Cluster()
    cluster.create(topic("a", 2))
    before = cluster.topic("a")
    (result,) = cluster.commit(CreatePartitionsRequest(topics=[grown("a", 5)])).results
    assert (result.error_code, result.error_message) == (0, None)
    after = cluster.topic("a")
    assert [partition.index for partition in after.partitions] == [0, 1, 2, 3, 4]
    assert after.partitions[:2] == before.partitions
    assert after.topic_id == before.topic_id


def test_new_partitions_have_as_many_replicas_as_the_old_ones() -> None:
    cluster = Cluster(brokers=3)
    cluster.create(topic("a", 1, 2))
    cluster.commit(CreatePartitionsRequest(topics=[grown("a", 4)]))
    assert all(len(partition.replicas) == 2 for partition in cluster.topic("a").partitions)


def test_a_partition_that_moves_does_not_count_for_more_replicas() -> None:
    cluster = Cluster(brokers=3)
    cluster.create(topic_on("a", [1]))
    target = [ReassignableTopic("a", [ReassignablePartition(0, [2])])]
    cluster.commit(AlterPartitionReassignmentsRequest(topics=target))
    assert len(cluster.partition("a").replicas) == 2
    cluster.commit(CreatePartitionsRequest(topics=[grown("a", 2)]))
    assert len(cluster.partition("a", 1).replicas) == 1


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.data())
def test_equal_brokers_hold_and_lead_as_much_as_each_other(brokers: int, data: st.DataObject) -> None:
    cluster = Cluster(brokers=brokers)
    factor = data.draw(st.integers(1, brokers))
    counts = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=5))
    cluster.create(*(topic(f"t{number}", count, factor) for number, count in enumerate(counts)))
    cluster.commit(CreatePartitionsRequest(topics=[grown("t0", counts[0] + data.draw(st.integers(1, 9)))]))
    for counted in (lambda partition: partition.replicas, lambda partition: [partition.leader]):
        found = Counter(dict.fromkeys(cluster.image.brokers, 0))
        for _, partition in cluster.image.partitions():
            found.update(counted(partition))
        assert max(found.values()) - min(found.values()) <= 1


def test_after_growth_new_partitions_go_where_there_is_least() -> None:
    cluster = Cluster(brokers=2)
    cluster.create(topic("a", 4, 2))
    cluster.join(registration(3))
    cluster.join(registration(4, capacity=2))
    cluster.commit(CreatePartitionsRequest(topics=[grown("a", 8)]))
    assert {frozenset(each.replicas) for each in cluster.topic("a").partitions[4:]} == {frozenset({3, 4})}


def test_replicas_are_placed_in_different_racks_by_capacity() -> None:
    cluster = Cluster(brokers=0)
    for node_id, rack, capacity in ((1, "x", 1), (2, "x", 3), (3, "y", 2), (4, "y", 2)):
        cluster.join(registration(node_id, rack=rack, capacity=capacity))
    cluster.create(topic("a", 16, 2))
    held = Counter(node_id for each in cluster.topic("a").partitions for node_id in each.replicas)
    assert held == {1: 4, 2: 12, 3: 8, 4: 8}
    assert all(len({1, 2} & set(each.replicas)) == 1 for each in cluster.topic("a").partitions)


def test_racks_do_not_count_unless_every_broker_has_one() -> None:
    cluster = Cluster(brokers=2)
    cluster.join(registration(3, rack="x"))
    cluster.create(topic("a", 9, 2))
    held = Counter(node_id for each in cluster.topic("a").partitions for node_id in each.replicas)
    assert held == {1: 6, 2: 6, 3: 6}


def test_new_partitions_can_be_assigned() -> None:
    cluster = Cluster(brokers=3)
    cluster.create(topic("a"))
    cluster.commit(CreatePartitionsRequest(topics=[grown("a", 3, [3], [2])]))
    assert [partition.leader for partition in cluster.topic("a").partitions[1:]] == [3, 2]


def test_validating_only_writes_nothing() -> None:
    cluster = Cluster()
    cluster.create(topic("a"))
    decision = cluster.decide(CreatePartitionsRequest(topics=[grown("a", 3)], validate_only=True))
    assert (decision.records, decision.response.results[0].error_code) == ([], 0)


@pytest.mark.parametrize(
    ("wanted", "code", "words"),
    [
        (grown("a", 3), ErrorCode.INVALID_PARTITIONS, "has 3 partitions already"),
        (grown("a", 2), ErrorCode.INVALID_PARTITIONS, "partitions can only be added"),
        (grown("a", -1), ErrorCode.INVALID_PARTITIONS, "partitions can only be added"),
        (grown("zzz", 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no topic 'zzz'"),
        (grown("a", 5, [1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "2 partitions are to be added"),
        (grown("a", 4, [9]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "No broker 9"),
        (grown("a", 4, [1, 2]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "same number of replicas"),
        (grown("a", MAX_PARTITIONS_PER_COMMAND + 4), ErrorCode.POLICY_VIOLATION, "use several requests"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(
    wanted: CreatePartitionsTopic, code: ErrorCode, words: str
) -> None:
    cluster = Cluster(brokers=2)
    cluster.create(topic("a", 3))
    decision = cluster.decide(CreatePartitionsRequest(topics=[wanted]))
    (result,) = decision.response.results
    assert decision.records == []
    assert result.error_code == code
    assert words in result.error_message


def test_a_topic_named_twice_is_refused_and_others_grow() -> None:
    cluster = Cluster()
    cluster.create(topic("a"), topic("b"))
    request = CreatePartitionsRequest(topics=[grown("a", 2), grown("b", 2), grown("a", 3)])
    results = cluster.commit(request).results
    assert [(item.name, item.error_code) for item in results] == [("a", ErrorCode.INVALID_REQUEST), ("b", 0)]
    assert len(cluster.topic("a").partitions) == 1
