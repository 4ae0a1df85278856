"""Adding partitions to topics that exist (CTL-7)."""

import pytest
from tests.unit.controller.cluster import Cluster, topic

from ottla.controller.partitions import MAX_PARTITIONS_PER_COMMAND
from ottla.errors import ErrorCode
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
