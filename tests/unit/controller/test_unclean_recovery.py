"""Partitions that no replica is trusted with, and the one whose log is the most complete."""

from tests.unit.controller.cluster import Cluster, topic_on

from ottla.controller.image import PartitionImage
from ottla.controller.unclean_recovery import LogEnd, election_of, most_complete, recoverable
from ottla.model import NO_LEADER, TopicPartition

PARTITION = PartitionImage(0, (1, 2, 3), (), NO_LEADER)


def without_trust() -> Cluster:
    """Two topics on three brokers which all lost power; one of the topics is to recover by itself."""
    cluster = Cluster(brokers=3)
    cluster.create(topic_on("waits", [1, 2, 3]))
    cluster.create(topic_on("recovers", [3, 1, 2], unclean_recovery_strategy="Balanced"))
    cluster.fence(1, 2, 3)
    for node_id in (1, 2, 3):
        cluster.restart(node_id, clean=False)
    return cluster


def found(cluster: Cluster) -> list[TopicPartition]:
    return [partition for partition, _ in recoverable(cluster.image, cluster.settings)]


def test_a_partition_recovers_when_all_its_replicas_are_back() -> None:
    cluster = without_trust()
    cluster.heartbeat(1)
    cluster.heartbeat(2)
    assert found(cluster) == []
    cluster.heartbeat(3)
    assert found(cluster) == [("recovers", 0)]
    cluster.commit(election_of(TopicPartition("recovers", 0), 2))
    assert found(cluster) == []
    assert cluster.standing("recovers", 0)[:2] == (2, (2,))
    assert cluster.standing("waits", 0)[0] == NO_LEADER


def test_the_most_complete_log_has_the_highest_epoch_and_is_the_longest_of_those() -> None:
    assert most_complete(PARTITION, {1: LogEnd(4, 90), 2: LogEnd(5, 70), 3: LogEnd(5, 80)}) == 3
    assert most_complete(PARTITION, {1: LogEnd(-1, 0), 2: LogEnd(5, 80), 3: LogEnd(5, 80)}) == 2
    assert most_complete(PARTITION, {1: LogEnd(4, 90), 2: LogEnd(5, 70)}) is None
