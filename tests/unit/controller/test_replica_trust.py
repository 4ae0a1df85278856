"""Which replicas of a broker that comes back are trusted, and who leads when one is not (CTL-3)."""

from uuid import UUID

import pytest
from tests.unit.controller.cluster import Cluster, registration, topic_on

from ottla.controller.records import PartitionRecord, TopicRecord
from ottla.controller.replica_trust import KEPT_WRITES_FEATURE
from ottla.model import NO_LEADER
from ottla.protocol.messages.brokers import BrokerRegistrationRequest, Feature, UnregisterBrokerRequest
from ottla.protocol.messages.partitions import ElectLeadersRequest, TopicPartitions

UNCLEAN = 1


def coming(
    node_id: int, incarnation: int = 2, *, disk: int = 0, keeps_writes: bool = False, clean: int = -1
) -> BrokerRegistrationRequest:
    """A broker that registers with its first disk, or with another one."""
    request = registration(node_id, incarnation, previous_epoch=clean)
    request.log_dirs = [UUID(int=1000 * (disk + 1) + node_id)]
    request.features = [Feature(KEPT_WRITES_FEATURE, 0, int(keeps_writes))]
    return request


def cluster_of(brokers: int, *replica_lists: list[int], **configs: str) -> Cluster:
    """Brokers with directories and the topic "a" on some of them; two have to be in sync."""
    cluster = Cluster(brokers=0)
    for node_id in range(1, brokers + 1):
        cluster.join(coming(node_id, 1))
    settings = {"min_insync_replicas": "2", **configs}
    assert cluster.create(topic_on("a", *replica_lists, **settings)).topics[0].error_code == 0
    return cluster


def standing(cluster: Cluster) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """The leader, the ISR and the ELR."""
    partition = cluster.partition("a")
    return partition.leader, partition.isr, partition.elr


def directories(cluster: Cluster) -> list[int]:
    return [directory.int for directory in cluster.partition("a").directories]


def test_replicas_get_the_directories_of_their_brokers() -> None:
    cluster = cluster_of(3, [3, 1])
    assert directories(cluster) == [1003, 1001]
    assert cluster.image.brokers[3].log_dirs == (UUID(int=1003),)


def test_a_directory_with_a_new_id_is_known_by_its_former_one() -> None:
    cluster = cluster_of(3, [3])
    cluster.fence(3)
    back = coming(3, keeps_writes=True, disk=1)
    back.log_dirs.append(UUID(int=1003))
    cluster.join(back)
    assert standing(cluster) == (3, (3,), ())


@pytest.mark.parametrize(
    ("back", "configs", "is_trusted"),
    [
        (coming(3, keeps_writes=True), {}, True),
        (coming(3, keeps_writes=False), {}, False),
        (coming(3, keeps_writes=False), {"flush_messages": "1"}, True),
        (coming(3, keeps_writes=False), {"ottla_flush_on_acks_all": "true"}, True),
        (coming(3, keeps_writes=True, disk=1), {}, False),
        (coming(3, keeps_writes=True, disk=1), {"flush_messages": "1"}, False),
    ],
)
def test_the_last_in_sync_keeps_its_place_only_if_it_lost_nothing(
    back: BrokerRegistrationRequest, configs: dict[str, str], is_trusted: bool
) -> None:
    cluster = cluster_of(3, [1, 2, 3], **configs)
    cluster.alter("a", [1, 3])
    cluster.fence(1)
    cluster.join(coming(1, 5, disk=7))  # so that it is not eligible: only broker 3 is trusted now
    assert standing(cluster) == (3, (3,), ())
    cluster.join(back)
    assert standing(cluster) == ((3, (3,), ()) if is_trusted else (NO_LEADER, (), ()))
    assert cluster.partition("a").last_known_leader == (NO_LEADER if is_trusted else 3)


def test_the_only_replica_leads_again_after_a_loss_of_power_but_not_without_its_disk() -> None:
    cluster = cluster_of(1, [1])
    cluster.join(coming(1))
    assert cluster.standing("a") == (1, (1,), 1)
    decision = cluster.decide(coming(1, 3, disk=1))
    assert decision.waiting == (("a", 0),)
    cluster.join(coming(1, 3, disk=1))
    assert standing(cluster) == (NO_LEADER, (), ())
    assert cluster.decide(coming(1, 4, disk=2)).waiting == ()


def test_a_broker_that_knows_its_epoch_is_still_not_trusted_with_another_disk() -> None:
    cluster = cluster_of(2, [1, 2])
    cluster.join(coming(1, disk=1, clean=cluster.image.brokers[1].epoch))
    assert standing(cluster) == (2, (2,), ())
    assert directories(cluster) == [2001, 1002]


def test_all_killed_and_the_disk_of_the_last_one_lost() -> None:
    cluster = cluster_of(3, [1, 2, 3])
    cluster.commit(coming(1, keeps_writes=True))
    cluster.commit(coming(2, keeps_writes=True))
    assert standing(cluster) == (3, (3,), (2,))
    for node_id in (1, 2):
        cluster.heartbeat(node_id)
    cluster.fence(3)
    assert standing(cluster) == (2, (2,), (3,))
    cluster.join(coming(3, disk=1))
    assert standing(cluster) == (2, (2,), ())
    cluster.alter("a", [1, 2, 3])
    assert standing(cluster) == (2, (1, 2, 3), ())


def test_an_eligible_leader_that_returns_leads() -> None:
    cluster = cluster_of(3, [1, 2, 3])
    cluster.fence(1)
    cluster.fence(2)
    assert standing(cluster) == (3, (3,), (2,))
    cluster.commit(coming(3, disk=1))
    assert standing(cluster) == (NO_LEADER, (), (2,))
    cluster.heartbeat(3)
    cluster.join(coming(1, keeps_writes=True))
    assert standing(cluster) == (NO_LEADER, (), (2,))
    cluster.join(coming(2, keeps_writes=True))
    assert standing(cluster) == (2, (2,), ())


def test_an_eligible_leader_that_returns_without_its_records_is_none() -> None:
    cluster = cluster_of(3, [1, 2, 3])
    cluster.fence(1)
    cluster.fence(2)
    cluster.join(coming(2))
    assert standing(cluster) == (3, (3,), ())


def test_a_directory_that_changes_out_of_sync_is_noted() -> None:
    cluster = cluster_of(3, [1, 2, 3])
    cluster.alter("a", [1, 2])
    cluster.join(coming(3, disk=1))
    assert directories(cluster) == [1001, 1002, 2003]
    cluster.alter("a", [1, 2, 3])
    cluster.join(coming(3, 3, disk=1, keeps_writes=True))
    assert standing(cluster) == (1, (1, 2), ())


def test_a_broker_that_was_unregistered_is_known_by_its_directory() -> None:
    cluster = cluster_of(2, [1, 2])
    cluster.fence(1)
    cluster.fence(2)
    cluster.commit(UnregisterBrokerRequest(2))
    cluster.join(coming(2, disk=1, keeps_writes=True))
    assert standing(cluster) == (NO_LEADER, (), (1,))


def test_an_old_log_without_directories_trusts_as_its_registrations_say() -> None:
    cluster = cluster_of(2, [1, 2])
    old = PartitionRecord(0, UUID(int=77), [1, 2], [2], leader=2, leader_epoch=3, partition_epoch=3)
    for record in (TopicRecord("old", UUID(int=77)), old):
        cluster.controller.replay(record, len(cluster.log))
        cluster.log.append(record)
    cluster.join(coming(2, keeps_writes=True))
    assert cluster.standing("old") == (2, (2,), 4)
    cluster.commit(coming(2, 3, disk=1, keeps_writes=True))
    assert cluster.standing("old") == (NO_LEADER, (), 5)
    assert [each.int for each in cluster.partition("old").directories] == [0, 2002]


def test_an_unclean_election_is_remembered_until_all_are_in_sync() -> None:
    cluster = cluster_of(3, [1, 2, 3])
    cluster.alter("a", [1])
    assert standing(cluster) == (1, (1,), (2, 3))
    cluster.join(coming(2))
    cluster.join(coming(3))
    cluster.fence(1)
    assert standing(cluster) == (NO_LEADER, (1,), ())
    cluster.commit(ElectLeadersRequest(UNCLEAN, [TopicPartitions("a", [0])]))
    assert standing(cluster) == (2, (2,), ())
    assert cluster.partition("a").is_recovering
    cluster.alter("a", [2, 3])
    assert cluster.partition("a").is_recovering
    cluster.join(coming(1))
    cluster.alter("a", [1, 2, 3])
    assert not cluster.partition("a").is_recovering


def test_a_topic_that_allows_it_is_led_by_whoever_is_there() -> None:
    cluster = cluster_of(3, [1, 2, 3], unclean_leader_election_enable="true")
    cluster.alter("a", [1])
    cluster.join(coming(2))
    cluster.join(coming(3))
    cluster.commit(coming(1, disk=1))
    assert standing(cluster) == (2, (2,), ())
