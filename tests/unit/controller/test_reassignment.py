"""Replicas move to other brokers, and what was begun can be changed and called off (CTL-7)."""

import pytest
from tests.unit.controller.cluster import Cluster, topic_on

from ottla.controller.image import PartitionImage
from ottla.errors import ErrorCode
from ottla.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
)


def made(*replicas: int, brokers: int = 5) -> Cluster:
    cluster = Cluster(brokers=brokers)
    cluster.create(topic_on("a", list(replicas)))
    return cluster


def move(
    cluster: Cluster, replicas: list[int] | None, name: str = "a", index: int = 0, **request: bool
) -> ReassignablePartitionResponse:
    topics = [ReassignableTopic(name, [ReassignablePartition(index, replicas)])]
    response = cluster.commit(AlterPartitionReassignmentsRequest(topics=topics, **request))
    assert (response.error_code, response.error_message) == (0, None)
    (found,) = response.responses[0].partitions
    assert isinstance(found, ReassignablePartitionResponse)
    return found


def shape(partition: PartitionImage) -> tuple[tuple[int, ...], ...]:
    """Replicas, those added, those removed, the ISR."""
    return partition.replicas, partition.adding_replicas, partition.removing_replicas, partition.isr


def test_a_move_adds_first_and_removes_when_all_is_copied() -> None:
    cluster = made(1, 2)
    assert move(cluster, [3, 4]) == ReassignablePartitionResponse(0, 0, None)
    assert shape(cluster.partition("a")) == ((3, 4, 1, 2), (3, 4), (1, 2), (1, 2))
    assert cluster.standing("a") == (1, (1, 2), 0)
    cluster.alter("a", [1, 2, 3])
    assert cluster.partition("a").is_moving
    assert cluster.alter("a", [1, 2, 3, 4]).error_code == ErrorCode.NEW_LEADER_ELECTED
    assert shape(cluster.partition("a")) == ((3, 4), (), (), (3, 4))
    assert cluster.standing("a") == (3, (3, 4), 1)


def test_a_leader_that_stays_keeps_leading() -> None:
    cluster = made(1, 2)
    move(cluster, [1, 3])
    assert cluster.alter("a", [1, 2, 3]).error_code == 0
    assert cluster.standing("a") == (1, (1, 3), 1)


@pytest.mark.parametrize(
    ("target", "expected", "standing"),
    [
        ([2, 1], ((2, 1), (), (), (1, 2)), (1, (1, 2), 0)),  # another preferred leader, nothing to copy
        ([2], ((2,), (), (), (2,)), (2, (2,), 1)),
        ([1], ((1,), (), (), (1,)), (1, (1,), 1)),
        ([1, 2], ((1, 2), (), (), (1, 2)), (1, (1, 2), 0)),
    ],
)
def test_what_needs_no_copying_is_done_at_once(
    target: list[int],
    expected: tuple[tuple[int, ...], ...],
    standing: tuple[int, tuple[int, ...], int],
) -> None:
    cluster = made(1, 2)
    assert move(cluster, target).error_code == 0
    assert shape(cluster.partition("a")) == expected
    assert cluster.standing("a") == standing


def test_replicas_are_not_removed_before_somebody_else_is_in_sync() -> None:
    cluster = made(1, 2)
    cluster.alter("a", [1])
    move(cluster, [2])
    assert shape(cluster.partition("a")) == ((2, 1), (), (1,), (1,))
    cluster.alter("a", [1, 2])
    assert shape(cluster.partition("a")) == ((2,), (), (), (2,))
    assert cluster.standing("a") == (2, (2,), 1)


def test_a_move_can_be_called_off() -> None:
    cluster = made(1, 2)
    move(cluster, [3, 4, 2])
    cluster.alter("a", [1, 2, 3])
    assert move(cluster, None).error_code == 0
    replicas, adding, removing, isr = shape(cluster.partition("a"))
    assert (set(replicas), adding, removing, isr) == ({1, 2}, (), (), (1, 2))
    assert cluster.standing("a")[::2] == (1, 1)
    assert move(cluster, None).error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_move_cannot_be_called_off_while_only_the_new_are_in_sync() -> None:
    cluster = made(1, 2)
    move(cluster, [3, 4])
    cluster.alter("a", [1, 2, 3])
    cluster.fence(1, 2)
    assert cluster.standing("a")[:2] == (3, (3,))
    refused = move(cluster, None)
    assert refused.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "let others catch up" in (refused.error_message or "")
    assert cluster.partition("a").is_moving


def test_a_new_target_replaces_the_one_under_way() -> None:
    cluster = made(1, 2)
    move(cluster, [3, 4])
    cluster.alter("a", [1, 2, 3])
    move(cluster, [4, 5])
    assert shape(cluster.partition("a")) == ((4, 5, 1, 2), (4, 5), (1, 2), (1, 2))
    move(cluster, [1, 5])
    assert shape(cluster.partition("a")) == ((1, 5, 2), (5,), (2,), (1, 2))


def test_a_leader_that_the_new_target_does_not_want_any_more_goes() -> None:
    cluster = made(1, 2)
    move(cluster, [3, 4, 2])
    cluster.alter("a", [1, 2, 3])
    cluster.fence(1)
    cluster.fence(2)
    cluster.heartbeat(2)
    cluster.alter("a", [3, 2])
    assert cluster.standing("a")[0] == 3
    move(cluster, [2, 4])
    assert cluster.standing("a")[:2] == (2, (2,))


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 9], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([-1, 2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_target_consists_of_registered_brokers(target: list[int], code: ErrorCode) -> None:
    cluster = made(1, 2)
    refused = move(cluster, target)
    assert refused.error_code == code
    assert refused.error_message
    assert shape(cluster.partition("a")) == ((1, 2), (), (), (1, 2))


def test_the_replication_factor_stays_if_the_request_says_so() -> None:
    cluster = made(1, 2)
    refused = move(cluster, [1, 2, 3], allow_replication_factor_change=False)
    assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert move(cluster, [2, 3], allow_replication_factor_change=False).error_code == 0
    # What counts is where the partition is going, not that it stands on three brokers meanwhile.
    assert move(cluster, [3, 4], allow_replication_factor_change=False).error_code == 0


def test_what_does_not_exist_cannot_be_moved() -> None:
    cluster = made(1, 2)
    assert move(cluster, [1], "b").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert move(cluster, [1], "a", 1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert move(cluster, None, "a", -1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_stands_once_in_a_request() -> None:
    cluster = made(1, 2)
    twice = ReassignableTopic("a", [ReassignablePartition(0, [3]), ReassignablePartition(0, [4])])
    for topics in ([twice], [ReassignableTopic("a", [ReassignablePartition(0, [3])])] * 2):
        response = cluster.commit(AlterPartitionReassignmentsRequest(topics=topics))
        codes = {found.error_code for each in response.responses for found in each.partitions}
        assert codes == {ErrorCode.INVALID_REQUEST}
    assert not cluster.partition("a").is_moving


def test_a_move_away_from_a_dead_broker_ends() -> None:
    cluster = made(1, 2)
    cluster.fence(2)
    move(cluster, [1, 3])
    cluster.alter("a", [1, 3])
    assert shape(cluster.partition("a")) == ((1, 3), (), (), (1, 3))


def test_a_move_ends_although_a_replica_that_stays_is_dead() -> None:
    cluster = made(1, 2, 3)
    cluster.fence(2)
    move(cluster, [1, 2, 4])
    cluster.alter("a", [1, 3, 4])
    assert shape(cluster.partition("a")) == ((1, 2, 4), (), (), (1, 4))
