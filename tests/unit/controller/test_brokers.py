"""The life of brokers: registration, heartbeats, fencing, stopping, returning (CTL-1, CTL-3)."""

import pytest
from tests.unit.controller.cluster import Cluster, registration, topic, topic_on

from ottla.controller.commands import FenceBrokers
from ottla.controller.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from ottla.errors import ErrorCode
from ottla.model import NO_LEADER
from ottla.protocol.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    Feature,
    UnregisterBrokerRequest,
)


def flags(response: BrokerHeartbeatResponse) -> tuple[int, bool, bool, bool]:
    return (
        response.error_code,
        response.is_caught_up,
        response.is_fenced,
        response.should_shut_down,
    )


def replicated(*replica_lists: list[int], brokers: int = 3, **configs: str) -> Cluster:
    """A cluster with the topic "a" on given brokers."""
    cluster = Cluster(brokers=brokers)
    assert cluster.create(topic_on("a", *replica_lists, **configs)).topics[0].error_code == 0
    return cluster


# ---- registration


def test_a_log_begins_with_the_level_of_its_metadata() -> None:
    cluster = Cluster(brokers=2)
    assert [type(record) for record in cluster.log] == [
        FeatureLevelRecord,
        FeatureLevelRecord,
        FeatureLevelRecord,
        ConfigRecord,
        RegisterBrokerRecord,
        BrokerRegistrationChangeRecord,
        RegisterBrokerRecord,
        BrokerRegistrationChangeRecord,
    ]
    assert cluster.image.features == {
        "metadata.version": 23,
        "eligible.leader.replicas.version": 1,
        "transaction.version": 2,
    }


def test_a_registration_raises_the_level_that_an_earlier_version_wrote() -> None:
    cluster = Cluster(brokers=0)
    cluster.controller.replay(FeatureLevelRecord("metadata.version", 14), 0)
    cluster.log.append(None)
    assert cluster.commit(registration(1)).broker_epoch == 4
    assert cluster.image.features == {"metadata.version": 23, "eligible.leader.replicas.version": 1}


def test_a_brokers_epoch_is_the_offset_of_its_registration() -> None:
    cluster = Cluster(brokers=0)
    response = cluster.commit(registration(1))
    assert response.broker_epoch == 4
    assert cluster.log[4].broker_epoch == 4
    again = cluster.commit(registration(1, incarnation=2, rack="r1", capacity=3))
    assert again.broker_epoch == 5
    broker = cluster.image.brokers[1]
    assert (broker.epoch, broker.is_fenced, broker.rack, broker.capacity) == (5, True, "r1", 3)
    endpoint = broker.endpoint("PLAINTEXT")
    assert endpoint is not None
    assert (endpoint.host, endpoint.port) == ("host1", 9092)


def test_an_offset_without_a_record_of_ours_counts_for_the_epoch() -> None:
    cluster = Cluster()
    cluster.controller.replay(None, cluster.image.last_offset + 5)
    expected = cluster.image.last_offset + 1
    assert cluster.controller.command(registration(2), now_ms=0).response.broker_epoch == expected


def test_a_registration_sent_twice_is_one() -> None:
    cluster = Cluster(brokers=2)
    epoch = cluster.image.brokers[1].epoch
    decision = cluster.decide(registration(1))
    assert (decision.records, decision.response.broker_epoch) == ([], epoch)
    assert not cluster.image.brokers[1].is_fenced


def test_a_broker_of_another_cluster_is_refused() -> None:
    cluster = Cluster()
    request = registration(2)
    request.cluster_id = "another"
    assert cluster.commit(request).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert set(cluster.image.brokers) == {1}


@pytest.mark.parametrize(
    ("feature", "code"),
    [
        (Feature("metadata.version", 1, 23), ErrorCode.NONE),
        (Feature("metadata.version", 1, 22), ErrorCode.UNSUPPORTED_VERSION),
        (Feature("metadata.version", 24, 29), ErrorCode.UNSUPPORTED_VERSION),
        (Feature("something.else", 1, 2), ErrorCode.NONE),
        (Feature("ottla.capacity", 0, 0), ErrorCode.INVALID_REGISTRATION),
        (Feature("ottla.capacity", 0, 5), ErrorCode.NONE),
    ],
)
def test_a_broker_has_to_work_at_the_level_of_the_cluster(feature: Feature, code: ErrorCode) -> None:
    request = registration(2)
    request.features = [feature]
    assert Cluster().commit(request).error_code == code


# ---- heartbeats


def test_a_broker_is_let_in_when_it_knows_of_its_registration() -> None:
    cluster = Cluster()
    epoch = cluster.commit(registration(2)).broker_epoch
    behind = cluster.commit(BrokerHeartbeatRequest(2, epoch, epoch - 1))
    assert flags(behind) == (0, False, True, False)
    assert flags(cluster.commit(BrokerHeartbeatRequest(2, epoch, epoch))) == (0, True, False, False)
    assert not cluster.image.brokers[2].is_fenced
    assert cluster.decide(BrokerHeartbeatRequest(2, epoch, epoch)).records == []


def test_a_heartbeat_of_a_stranger_or_of_a_former_self_is_refused() -> None:
    cluster = Cluster()
    stranger = cluster.commit(BrokerHeartbeatRequest(7, 0))
    assert stranger.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    former = cluster.commit(BrokerHeartbeatRequest(1, 0))
    assert former.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_broker_may_ask_to_stay_out() -> None:
    cluster = replicated([1, 2])
    assert flags(cluster.heartbeat(1, want_fence=True)) == (0, True, True, False)
    assert cluster.standing("a") == (2, (2,), 1)
    assert flags(cluster.heartbeat(1, want_fence=True)) == (0, True, True, False)
    assert flags(cluster.heartbeat(1)) == (0, True, False, False)


# ---- fencing


@pytest.mark.parametrize(
    ("replicas", "fenced", "leader", "isr", "leader_epoch", "partition_epoch"),
    [
        ([1, 2, 3], [1], 2, (2, 3), 1, 1),
        ([1, 2, 3], [2], 1, (1, 3), 0, 1),
        ([3, 2, 1], [3], 2, (2, 1), 1, 1),
        ([1, 2, 3], [1, 2], 3, (3,), 1, 1),
        ([1, 2], [3], 1, (1, 2), 0, 0),
        ([1], [1], NO_LEADER, (1,), 1, 1),
        ([1, 2, 3], [1, 2, 3], NO_LEADER, (1, 2, 3), 1, 1),  # any of them may return with everything
    ],
)
def test_the_first_replica_in_sync_leads_when_brokers_are_gone(
    replicas: list[int],
    fenced: list[int],
    leader: int,
    isr: tuple[int, ...],
    leader_epoch: int,
    partition_epoch: int,
) -> None:
    cluster = replicated(replicas)
    cluster.fence(*fenced)
    assert cluster.standing("a") == (leader, isr, leader_epoch)
    assert cluster.partition("a").partition_epoch == partition_epoch
    assert {node_id for node_id, broker in cluster.image.brokers.items() if broker.is_fenced} == set(fenced)


def test_one_after_the_other_leaves_the_last_one_in_sync() -> None:
    cluster = replicated([1, 2, 3])
    for node_id in (1, 3, 2):
        cluster.fence(node_id)
    assert cluster.standing("a") == (NO_LEADER, (2,), 2)
    cluster.heartbeat(1)
    assert cluster.standing("a") == (NO_LEADER, (2,), 2)
    cluster.heartbeat(2)
    assert cluster.standing("a") == (2, (2,), 3)


def test_of_those_that_fell_together_the_first_to_return_leads_alone() -> None:
    cluster = replicated([1, 2, 3])
    cluster.fence(1, 2, 3)
    cluster.heartbeat(3)
    assert cluster.standing("a") == (3, (3,), 2)


def test_a_broker_that_is_fenced_or_unknown_is_not_fenced_again() -> None:
    cluster = replicated([1, 2])
    cluster.fence(1)
    assert cluster.decide(FenceBrokers((1, 9))).records == []


def test_one_decision_fences_and_elects() -> None:
    cluster = replicated([1, 2], [2, 1], [3, 2])
    decision = cluster.decide(FenceBrokers((1,)))
    assert decision.records == [
        BrokerRegistrationChangeRecord(1, cluster.image.brokers[1].epoch, fenced=1),
        PartitionChangeRecord(0, cluster.topic("a").topic_id, isr=[2], leader=2),
        PartitionChangeRecord(1, cluster.topic("a").topic_id, isr=[2]),
    ]


@pytest.mark.parametrize("allowed", [False, True])
def test_a_replica_out_of_sync_leads_only_where_the_topic_allows_it(allowed: bool) -> None:
    cluster = replicated([1, 2, 3], unclean_leader_election_enable=str(allowed).lower())
    cluster.alter("a", [1])
    decision = cluster.decide(FenceBrokers((1,)))
    assert decision.unclean_elections == ((("a", 0),) if allowed else ())
    cluster.fence(1)
    assert cluster.standing("a") == ((2, (2,), 1) if allowed else (NO_LEADER, (1,), 1))


def test_an_unclean_election_waits_for_somebody_who_is_there() -> None:
    cluster = replicated([1, 2], unclean_leader_election_enable="true")
    cluster.fence(2)
    cluster.fence(1)
    assert cluster.standing("a") == (NO_LEADER, (1,), 1)
    epoch, offset = cluster.image.brokers[2].epoch, cluster.image.last_offset
    decision = cluster.decide(BrokerHeartbeatRequest(2, epoch, offset))
    assert decision.unclean_elections == (("a", 0),)
    cluster.heartbeat(2)
    assert cluster.standing("a") == (2, (2,), 2)


# ---- stopping


def test_a_broker_that_wants_to_stop_hands_over_what_others_can_lead() -> None:
    cluster = replicated([1, 2], [2, 1])
    cluster.create(topic_on("lone", [1]))
    response = cluster.heartbeat(1, want_shut_down=True)
    assert flags(response) == (0, True, False, True)
    assert cluster.standing("a") == (2, (2,), 1)
    assert cluster.standing("a", 1) == (2, (2,), 0)
    assert cluster.standing("lone") == (1, (1,), 0)
    assert cluster.image.brokers[1].in_controlled_shutdown
    epoch, offset = cluster.image.brokers[1].epoch, cluster.image.last_offset
    again = cluster.decide(BrokerHeartbeatRequest(1, epoch, offset, want_shut_down=True))
    assert (again.records, again.response.should_shut_down) == ([], True)


def test_a_broker_that_stops_is_given_nothing_new() -> None:
    cluster = replicated([1, 2])
    cluster.heartbeat(1, want_shut_down=True)
    assert cluster.alter("a", [2, 1]).error_code == ErrorCode.INELIGIBLE_REPLICA
    cluster.create(topic("b", 4))
    assert 1 not in {partition.leader for partition in cluster.topic("b").partitions}


def test_a_broker_that_returns_does_not_take_what_one_that_stops_still_leads() -> None:
    cluster = replicated([1, 2], unclean_leader_election_enable="true")
    cluster.fence(2)
    cluster.heartbeat(1, want_shut_down=True)
    cluster.heartbeat(2)
    assert cluster.standing("a") == (1, (1,), 0)
    cluster.fence(1)
    assert cluster.standing("a") == (2, (2,), 1)


def test_a_fenced_broker_may_stop_at_once() -> None:
    cluster = replicated([1, 2])
    cluster.fence(1)
    epoch, offset = cluster.image.brokers[1].epoch, cluster.image.last_offset
    decision = cluster.decide(BrokerHeartbeatRequest(1, epoch, offset, want_shut_down=True))
    assert decision.records == []
    assert flags(decision.response) == (0, True, True, True)


def test_a_broker_on_its_way_out_is_not_let_in_again() -> None:
    cluster = replicated([1, 2])
    cluster.heartbeat(1, want_shut_down=True)
    cluster.fence(1)
    assert cluster.heartbeat(1).is_fenced
    cluster.join(registration(1, incarnation=5))
    assert not cluster.image.brokers[1].in_controlled_shutdown


# ---- a log directory that takes no writes


def on_directories(*replica_lists: list[int]) -> Cluster:
    """A cluster of two brokers that named their log directories."""
    cluster = Cluster(brokers=0)
    for node_id in (1, 2):
        cluster.join(registration(node_id, directory=20 + node_id))
    cluster.create(topic_on("a", *replica_lists))
    return cluster


def test_a_broker_whose_directory_is_offline_leads_only_what_no_other_can() -> None:
    cluster = on_directories([1, 2], [2, 1])
    cluster.create(topic_on("lone", [1]))
    cluster.heartbeat(1, is_offline=True)
    assert cluster.standing("a") == (2, (2,), 1)
    assert cluster.standing("a", 1) == (2, (2,), 0)
    assert cluster.standing("lone") == (1, (1,), 0)
    assert cluster.alter("a", [2, 1]).error_code == ErrorCode.INELIGIBLE_REPLICA
    size = len(cluster.log)
    cluster.heartbeat(1, is_offline=True)
    assert len(cluster.log) == size


def test_a_broker_whose_directory_is_there_again_may_join_and_lead() -> None:
    cluster = on_directories([1, 2])
    cluster.heartbeat(1, is_offline=True)
    cluster.fence(2)
    assert cluster.standing("a") == (NO_LEADER, (2,), 2)
    cluster.heartbeat(2)
    cluster.heartbeat(1)
    assert not cluster.image.brokers[1].is_directory_offline
    assert cluster.alter("a", [2, 1]).error_code == 0


def test_a_leader_whose_directory_is_offline_hands_over_as_soon_as_another_is_in_sync() -> None:
    cluster = on_directories([1, 2])
    cluster.fence(2)
    cluster.heartbeat(1, is_offline=True)
    assert cluster.standing("a") == (1, (1,), 0)
    cluster.heartbeat(2)
    assert cluster.alter("a", [1]).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert cluster.alter("a", [1, 2]).error_code == ErrorCode.NEW_LEADER_ELECTED
    assert cluster.standing("a") == (2, (2,), 1)


def test_a_broker_that_registers_again_has_its_directory() -> None:
    cluster = on_directories([1, 2])
    cluster.heartbeat(1, is_offline=True)
    cluster.join(registration(1, incarnation=5, directory=21))
    assert cluster.image.brokers[1].is_eligible


# ---- returning


def test_a_single_node_that_stopped_cleanly_leads_on_under_the_same_epoch() -> None:
    cluster = replicated([1], brokers=1)
    cluster.heartbeat(1, want_shut_down=True)
    cluster.restart(1, clean=True)
    assert cluster.heartbeat(1).error_code == 0
    assert cluster.standing("a") == (1, (1,), 0)
    assert not any(isinstance(record, PartitionChangeRecord) for record in cluster.log)


def test_a_single_node_that_crashed_leads_under_a_new_epoch() -> None:
    cluster = replicated([1], [2], brokers=2)
    cluster.restart(1, clean=False)
    assert cluster.standing("a") == (1, (1,), 1)
    assert cluster.standing("a", 1) == (2, (2,), 0)
    cluster.heartbeat(1)
    assert cluster.standing("a") == (1, (1,), 1)


def test_a_broker_that_crashed_leaves_every_isr_with_others() -> None:
    cluster = replicated([1, 2, 3], [2, 1, 3], [2, 3, 1])
    cluster.restart(1, clean=False)
    assert cluster.image.brokers[1].is_fenced
    assert [cluster.standing("a", index) for index in range(3)] == [
        (2, (2, 3), 1),
        (2, (2, 3), 0),
        (2, (2, 3), 0),
    ]


def test_a_broker_that_crashed_is_not_trusted_even_if_the_others_are_gone() -> None:
    cluster = replicated([1, 2])
    cluster.fence(1, 2)
    cluster.restart(1, clean=False)
    cluster.heartbeat(1)
    assert cluster.standing("a") == (NO_LEADER, (2,), 1)
    cluster.heartbeat(2)
    assert cluster.standing("a") == (2, (2,), 2)


def test_a_broker_that_returned_unharmed_is_trusted_if_the_others_are_gone() -> None:
    cluster = replicated([1, 2])
    cluster.fence(1, 2)
    cluster.restart(1, clean=True)
    cluster.heartbeat(1)
    assert cluster.standing("a") == (1, (1,), 2)


def test_when_all_crashed_at_once_nobody_leads_by_itself() -> None:
    cluster = replicated([1, 2, 3])
    for node_id in (1, 2, 3):
        cluster.restart(node_id, clean=False)
    for node_id in (2, 1, 3):
        cluster.heartbeat(node_id)
    leader, isr, _ = cluster.standing("a")
    assert (leader, isr) == (NO_LEADER, ())
    assert cluster.partition("a").last_known_leader == 3


def test_a_quick_clean_restart_moves_what_others_can_lead() -> None:
    cluster = replicated([1, 2])
    cluster.create(topic_on("lone", [1]))
    cluster.restart(1, clean=True)
    assert cluster.standing("a") == (2, (2,), 1)
    assert cluster.standing("lone") == (1, (1,), 0)


# ---- leaving for good


def test_a_broker_that_is_unregistered_is_forgotten_and_its_partitions_move_on() -> None:
    cluster = replicated([1, 2])
    cluster.create(topic_on("lone", [1]))
    cluster.commit(FenceBrokers((1,)))
    response = cluster.commit(UnregisterBrokerRequest(1))
    assert (response.error_code, response.error_message) == (0, None)
    assert set(cluster.image.brokers) == {2, 3}
    assert cluster.standing("a") == (2, (2,), 1)
    assert cluster.standing("lone") == (NO_LEADER, (1,), 1)
    cluster.join(registration(1, incarnation=7))
    assert cluster.standing("lone") == (1, (1,), 2)
    assert cluster.standing("a") == (2, (2,), 1)


def test_a_broker_that_is_running_is_not_unregistered() -> None:
    cluster = replicated([1, 2])
    response = cluster.commit(UnregisterBrokerRequest(1))
    assert (response.error_code, response.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Broker 1 is running: stop it first, then unregister it.",
    )
    assert set(cluster.image.brokers) == {1, 2, 3}


def test_nobody_can_be_unregistered_who_is_not_registered() -> None:
    response = Cluster().commit(UnregisterBrokerRequest(9))
    assert response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert "9" in response.error_message
