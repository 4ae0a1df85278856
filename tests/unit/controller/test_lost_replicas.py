"""A broker that finds records missing is not trusted with the replica (CTL-3)."""

from uuid import UUID

from tests.unit.controller.cluster import Cluster, registration, topic_on

from ottla.controller.describe.cluster import metadata_response
from ottla.controller.image import DAMAGED_DIRECTORY, LOST_DIRECTORY
from ottla.errors import ErrorCode
from ottla.model import NO_LEADER
from ottla.protocol.messages.brokers import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic


def report(
    cluster: Cluster,
    node_id: int,
    *indexes: int,
    directory: UUID = LOST_DIRECTORY,
    topic_id: UUID | None = None,
) -> AssignReplicasToDirsResponse:
    """A broker names the directory of replicas of the topic "a"."""
    named = topic_id or cluster.topic("a").topic_id
    topics = [TopicData(named, [PartitionData(index) for index in indexes])]
    epoch = cluster.image.brokers[node_id].epoch
    request = AssignReplicasToDirsRequest(node_id, epoch, [DirectoryData(directory, topics)])
    response: AssignReplicasToDirsResponse = cluster.commit(request)
    return response


def codes(response: AssignReplicasToDirsResponse) -> list[int]:
    return [each.error_code for each in response.directories[0].topics[0].partitions]


def standing(cluster: Cluster) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    partition = cluster.partition("a")
    return partition.leader, partition.isr, partition.elr


def alone_in_sync() -> Cluster:
    """Broker 1 was the last in sync; broker 2 left with everything; all are down."""
    cluster = Cluster(brokers=3)
    cluster.create(topic_on("a", [1, 2, 3], min_insync_replicas="2"), topic_on("b", [1]))
    cluster.fence(3)
    cluster.fence(2)
    cluster.fence(1)
    assert standing(cluster) == (NO_LEADER, (1,), (2,))
    return cluster


def test_a_lost_replica_leaves_the_in_sync_replicas() -> None:
    cluster = alone_in_sync()
    assert codes(report(cluster, 1, 0)) == [ErrorCode.NONE]
    assert standing(cluster) == (NO_LEADER, (), (2,))
    cluster.heartbeat(1)
    assert standing(cluster) == (NO_LEADER, (), (2,))
    cluster.heartbeat(2)
    assert standing(cluster) == (2, (2,), ())


def test_the_only_replica_stays() -> None:
    cluster = alone_in_sync()
    before = cluster.partition("b")
    assert codes(report(cluster, 1, 0, topic_id=cluster.topic("b").topic_id)) == [ErrorCode.NONE]
    assert cluster.partition("b") == before


def test_other_directories_and_unknown_partitions_change_nothing() -> None:
    cluster = alone_in_sync()
    assert codes(report(cluster, 1, 0, directory=UUID(int=7))) == [ErrorCode.NONE]
    assert codes(report(cluster, 1, 9)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert codes(report(cluster, 1, 0, topic_id=UUID(int=7))) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert standing(cluster) == (NO_LEADER, (1,), (2,))


def test_an_earlier_life_of_the_broker_is_refused() -> None:
    cluster = alone_in_sync()
    response = cluster.commit(AssignReplicasToDirsRequest(1, 0, []))
    assert response.error_code == ErrorCode.STALE_BROKER_EPOCH


def damaged(cluster: Cluster, node_id: int) -> ErrorCode:
    (code,) = codes(report(cluster, node_id, 0, directory=DAMAGED_DIRECTORY))
    return ErrorCode(code)


def repaired(cluster: Cluster, node_id: int) -> None:
    report(cluster, node_id, 0, directory=cluster.image.brokers[node_id].directory)


def three_in_sync(**configs: str) -> Cluster:
    cluster = Cluster(brokers=0)
    for node_id in (1, 2, 3):
        cluster.join(registration(node_id, directory=1000 + node_id))
    configs = {"min_insync_replicas": "2", **configs}
    cluster.create(topic_on("a", [1, 2, 3], **configs), topic_on("b", [1]))
    return cluster


def test_a_damaged_leader_hands_over_and_is_not_in_sync_before_it_is_repaired() -> None:
    cluster = three_in_sync()
    assert damaged(cluster, 1) is ErrorCode.NONE
    assert standing(cluster) == (2, (2, 3), ())
    assert cluster.partition("a").is_damaged_on(1)
    assert cluster.alter("a", [1, 2, 3]).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert damaged(cluster, 1) is ErrorCode.NONE
    repaired(cluster, 1)
    assert not cluster.partition("a").is_damaged_on(1)
    assert cluster.alter("a", [1, 2, 3]).error_code == ErrorCode.NONE


def test_a_damaged_replica_is_not_eligible_to_lead_although_too_few_are_left() -> None:
    cluster = three_in_sync()
    assert damaged(cluster, 1) is damaged(cluster, 3) is ErrorCode.NONE
    assert standing(cluster) == (2, (2,), ())


def test_the_last_replica_that_can_lead_stays_although_it_is_damaged() -> None:
    cluster = three_in_sync()
    cluster.fence(2)
    cluster.fence(3)
    assert damaged(cluster, 1) is ErrorCode.INELIGIBLE_REPLICA
    assert standing(cluster) == (1, (1,), (3,))
    assert not cluster.partition("a").is_damaged_on(1)
    topic_id = cluster.topic("b").topic_id
    assert codes(report(cluster, 1, 0, directory=DAMAGED_DIRECTORY, topic_id=topic_id)) == [
        ErrorCode.INELIGIBLE_REPLICA
    ]


def test_damage_is_remembered_over_a_restart_of_its_broker() -> None:
    cluster = three_in_sync()
    damaged(cluster, 1)
    cluster.commit(registration(1, incarnation=99, directory=1001))
    assert cluster.partition("a").is_damaged_on(1)


def test_an_unclean_election_trusts_a_damaged_replica() -> None:
    cluster = three_in_sync(unclean_leader_election_enable="true")
    damaged(cluster, 1)
    cluster.fence(2)
    cluster.fence(3)
    assert cluster.partition("a").leader == 1
    assert not cluster.partition("a").is_damaged_on(1)


def test_clients_see_a_damaged_replica_as_offline() -> None:
    cluster = three_in_sync()
    damaged(cluster, 1)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="a")])
    answer = metadata_response(
        cluster.image, request, 12, listener_name="PLAINTEXT", controller_id=1, auto_create=False
    )
    assert answer.response.topics[0].partitions[0].offline_replicas == [1]
