"""Leaders change the in-sync replicas by compare-and-set (REP-2, CTL-3)."""

from collections.abc import Callable
from uuid import UUID

import pytest
from tests.unit.controller.cluster import Cluster, registration, topic_on

from ottla.errors import ErrorCode
from ottla.model import LEAVING_BROKER_EPOCH
from ottla.protocol.messages.partitions import (
    AlterPartitionPartitionData,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    AlterPartitionResponsePartitionData,
    AlterPartitionTopicData,
    BrokerState,
    ReassignablePartition,
    ReassignableTopic,
)


@pytest.fixture
def cluster() -> Cluster:
    """Four brokers; the partition a-0 on three of them, and only its leader in sync."""
    made = Cluster(brokers=4)
    made.create(topic_on("a", [1, 2, 3]))
    assert made.alter("a", [1]) == AlterPartitionResponsePartitionData(0, 0, 1, 0, [1], 0, 1)
    return made


def test_followers_join_and_leave(cluster: Cluster) -> None:
    assert cluster.alter("a", [1, 3]).isr == [1, 3]
    assert cluster.alter("a", [1, 3, 2]).isr == [1, 3, 2]
    answer = cluster.alter("a", [1, 2])
    assert (answer.error_code, answer.isr, answer.partition_epoch) == (0, [1, 2], 4)
    assert cluster.standing("a") == (1, (1, 2), 0)
    assert cluster.partition("a").partition_epoch == 4


def test_a_proposal_that_changes_nothing_raises_the_partition_epoch_all_the_same(cluster: Cluster) -> None:
    before = cluster.partition("a").partition_epoch
    answer = cluster.alter("a", [1])
    assert (answer.error_code, answer.partition_epoch, answer.leader_epoch) == (0, before + 1, 0)
    assert cluster.partition("a").partition_epoch == before + 1


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ({"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"partition_epoch": 2}, ErrorCode.NOT_CONTROLLER),
    ],
)
def test_a_proposal_holds_for_one_epoch_of_each(
    cluster: Cluster, wrong: dict[str, int], code: ErrorCode
) -> None:
    answer = cluster.alter("a", [1, 2], **wrong)
    assert answer == AlterPartitionResponsePartitionData(0, code, 1, 0, [1], 0, 1)
    assert cluster.standing("a") == (1, (1,), 0)


@pytest.mark.parametrize(
    ("isr", "code"),
    [
        ([], ErrorCode.INVALID_REQUEST),
        ([1, 1], ErrorCode.INVALID_REQUEST),
        ([1, 4], ErrorCode.INVALID_REQUEST),  # not a replica
        ([1, 9], ErrorCode.INVALID_REQUEST),  # not even a broker
        ([2], ErrorCode.INVALID_REQUEST),  # the leader may step down, but not for one that is not in sync
    ],
)
def test_an_isr_consists_of_replicas(cluster: Cluster, isr: list[int], code: ErrorCode) -> None:
    assert cluster.alter("a", isr).error_code == code
    assert cluster.standing("a") == (1, (1,), 0)


def test_only_the_leader_is_heard(cluster: Cluster) -> None:
    request = cluster.proposal("a", [1, 2])
    request.broker_id, request.broker_epoch = 2, cluster.image.brokers[2].epoch
    assert cluster.propose(request).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "spoil",
    [
        lambda cluster: cluster.fence(2),
        lambda cluster: cluster.heartbeat(2, want_shut_down=True),
        lambda cluster: cluster.restart(2, clean=True),
    ],
    ids=["fenced", "stopping", "registered anew"],
)
def test_who_is_not_there_cannot_join(cluster: Cluster, spoil: Callable[[Cluster], object]) -> None:
    request = cluster.proposal("a", [1, 2])
    spoil(cluster)
    answer = cluster.propose(request)
    assert (answer.error_code, answer.isr) == (ErrorCode.INELIGIBLE_REPLICA, [1])
    assert cluster.standing("a") == (1, (1,), 0)


def test_a_member_of_an_older_life_cannot_join(cluster: Cluster) -> None:
    request = cluster.proposal("a", [1, 2])
    cluster.join(registration(2, incarnation=5))
    assert cluster.propose(request).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert cluster.alter("a", [1, 2]).error_code == 0


def test_only_for_members_in_sync_may_the_epoch_be_unknown(cluster: Cluster) -> None:
    request = cluster.proposal("a", [1, 2])
    members = request.topics[0].partitions[0].new_isr_with_epochs
    members[0].broker_epoch = -1
    assert cluster.propose(request).error_code == 0
    members.append(BrokerState(3))
    request.topics[0].partitions[0].partition_epoch += 1
    assert cluster.propose(request).error_code == ErrorCode.INELIGIBLE_REPLICA


def test_version_2_names_members_without_epochs_and_can_shrink(cluster: Cluster) -> None:
    cluster.alter("a", [1, 2])
    request = cluster.proposal("a", [])
    request.topics[0].partitions[0].new_isr = [1]
    assert cluster.propose(request).isr == [1]


def test_a_recovery_that_is_not_ours_is_refused(cluster: Cluster) -> None:
    request = cluster.proposal("a", [1, 2])
    request.topics[0].partitions[0].leader_recovery_state = 1
    assert cluster.propose(request).error_code == ErrorCode.INVALID_REQUEST


def test_a_leader_may_step_down_for_those_in_sync(cluster: Cluster) -> None:
    cluster.alter("a", [1, 2, 3])
    answer = cluster.alter("a", [3, 2])
    assert (answer.error_code, answer.leader_id, answer.leader_epoch, answer.isr) == (
        ErrorCode.NEW_LEADER_ELECTED,
        2,
        1,
        [3, 2],
    )
    assert cluster.standing("a") == (2, (3, 2), 1)


def test_a_partition_stands_once_in_a_request(cluster: Cluster) -> None:
    request = cluster.proposal("a", [1, 2])
    request.topics *= 2
    response = cluster.commit(request)
    codes = [answer.error_code for found in response.topics for answer in found.partitions]
    assert codes == [0, ErrorCode.INVALID_REQUEST]
    assert cluster.partition("a").partition_epoch == 2


def test_what_does_not_exist_cannot_be_changed(cluster: Cluster) -> None:
    known = AlterPartitionTopicData(cluster.topic("a").topic_id, [AlterPartitionPartitionData(7)])
    unknown = AlterPartitionTopicData(UUID(int=5), [AlterPartitionPartitionData(0)])
    epoch = cluster.image.brokers[1].epoch
    response = cluster.commit(AlterPartitionRequest(1, epoch, [known, unknown]))
    assert [found.partitions[0].error_code for found in response.topics] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]


@pytest.mark.parametrize(
    ("node_id", "epoch", "code"),
    [(1, 0, ErrorCode.STALE_BROKER_EPOCH), (9, 0, ErrorCode.BROKER_ID_NOT_REGISTERED)],
)
def test_a_broker_has_to_be_who_it_says(cluster: Cluster, node_id: int, epoch: int, code: ErrorCode) -> None:
    assert cluster.commit(AlterPartitionRequest(node_id, epoch)).error_code == code


def test_the_last_added_replica_in_sync_finishes_a_move(cluster: Cluster) -> None:
    target = [ReassignableTopic("a", [ReassignablePartition(0, [4, 2])])]
    cluster.commit(AlterPartitionReassignmentsRequest(topics=target))
    assert cluster.alter("a", [1, 2]).error_code == 0
    answer = cluster.alter("a", [1, 2, 4])
    assert answer == AlterPartitionResponsePartitionData(
        0, ErrorCode.NEW_LEADER_ELECTED, 4, 1, [2, 4], 0, cluster.partition("a").partition_epoch
    )
    assert cluster.partition("a").replicas == (4, 2)
    assert not cluster.partition("a").is_moving


def test_a_leader_that_steps_down_whole_leads_again_if_the_others_are_dead() -> None:
    cluster = Cluster(brokers=3)
    cluster.create(topic_on("a", [1, 2, 3], min_insync_replicas="2"))
    cluster.fence(3)
    partition = cluster.partition("a")
    members = [BrokerState(2, -1), BrokerState(1, LEAVING_BROKER_EPOCH)]
    data = AlterPartitionPartitionData(
        0, partition.leader_epoch, new_isr_with_epochs=members, partition_epoch=partition.partition_epoch
    )
    topics = [AlterPartitionTopicData(cluster.topic("a").topic_id, [data])]
    request = AlterPartitionRequest(1, cluster.image.brokers[1].epoch, topics)
    assert cluster.propose(request).error_code == ErrorCode.NEW_LEADER_ELECTED
    assert cluster.standing("a")[:2] == (2, (2,))
    assert cluster.partition("a").elr == (1,)
    cluster.fence(2)
    assert cluster.standing("a")[:2] == (1, (1,))
