from __future__ import annotations

from typing import Any
from uuid import UUID

from ottla.client.requests.brokers import ClusterDescription, LogDir, ReplicaLog
from ottla.client.requests.metadata import BrokerInfo, PartitionInfo, TopicInfo
from ottla.client.requests.quorum import QuorumDescription, QuorumReplica
from ottla.localcluster.state import BrokerState, ClusterState, Condition
from ottla.localcluster.status import Answers, BrokerStatus, status_of, unknown_status
from ottla.model import TopicPartition

STATE = ClusterState(
    "c",
    "127.0.0.1",
    (1, 2),
    (
        BrokerState(1, 9092, 9092, "a", Condition.RUNNING, pid=11),
        BrokerState(2, 9093, 9093, "b", Condition.RUNNING, pid=12),
        BrokerState(3, 9094, 9094, "a", Condition.KILLED),
    ),
)
BROKERS = (
    BrokerInfo(1, "127.0.0.1", 9092, "a"),
    BrokerInfo(2, "127.0.0.1", 9093, "b"),
    BrokerInfo(3, "127.0.0.1", 9094, None, is_fenced=True),
)
TOPIC = TopicInfo(
    "t",
    UUID(int=1),
    False,
    (
        PartitionInfo(0, 1, 4, (1, 2, 3), (1, 2)),
        PartitionInfo(1, 2, 1, (2, 1), (1, 2)),
        PartitionInfo(2, None, 7, (3,), (3,)),
    ),
)


def logs(**lags: int) -> tuple[LogDir, ...]:
    replicas = {TopicPartition("t", int(name[1:])): ReplicaLog(10, lag, False) for name, lag in lags.items()}
    return (LogDir("/d", None, -1, -1, replicas),)


def answers(**changed: Any) -> Answers:
    quorum = QuorumDescription(1, 3, 100, (QuorumReplica(1, 102, 0, 0), QuorumReplica(2, 90, 0, 0)), ())
    fields: dict[str, Any] = {
        "cluster": ClusterDescription("c", 1, BROKERS),
        "quorum": quorum,
        "topics": (TOPIC,),
        "log_dirs": {1: logs(p0=0, p1=5), 2: logs(p0=2, p1=0)},
        "loads": {1: {"cpu.percent": "12.5"}},
    }
    return Answers(**{**fields, **changed})


def broker(number: int, found: Answers, state: ClusterState | None = STATE) -> BrokerStatus:
    return next(each for each in status_of(found, state).brokers if each.node_id == number)


def test_a_broker_is_counted_with_what_it_leads_holds_and_has_in_sync() -> None:
    one = broker(1, answers())
    assert (one.leads, one.replicas, one.in_sync) == (1, 2, 2)
    assert (one.replica_lag, one.metadata_lag, one.load) == (5, 0, {"cpu.percent": "12.5"})
    assert (one.address, one.rack, one.is_fenced, one.is_voter) == ("127.0.0.1:9092", "a", False, True)


def test_a_broker_behind_shows_how_far() -> None:
    two = broker(2, answers())
    assert (two.replica_lag, two.metadata_lag) == (2, 10)


def test_a_dead_broker_keeps_its_replicas_and_says_nothing_of_lag() -> None:
    three = broker(3, answers())
    assert (three.leads, three.replicas, three.in_sync, three.replica_lag) == (0, 2, 1, None)
    assert (three.is_fenced, three.is_voter, three.rack) == (True, False, "a")
    assert three.process == STATE.broker(3)


def test_partitions_know_whether_they_are_well() -> None:
    behind, well, leaderless = status_of(answers(), STATE).partitions
    assert (behind.is_well, well.is_well, leaderless.is_well) == (False, True, False)
    assert behind.lags == {1: 0, 2: 2}
    assert leaderless.leader is None


def test_without_an_answer_about_the_quorum_the_supervisor_knows_who_votes() -> None:
    found = answers(quorum=None)
    assert (broker(1, found).is_voter, broker(3, found).is_voter) == (True, False)
    assert broker(1, found).metadata_lag is None
    assert broker(1, found, None).is_voter is None


def test_without_a_supervisor_the_brokers_are_those_of_the_cluster() -> None:
    status = status_of(answers(), None)
    assert [each.node_id for each in status.brokers] == [1, 2, 3]
    assert all(each.process is None for each in status.brokers)


def test_when_nobody_answers_the_processes_are_shown() -> None:
    status = unknown_status(STATE, "No broker is at work.")
    assert status.problem == "No broker is at work."
    assert [(each.node_id, each.address) for each in status.brokers] == [
        (1, "127.0.0.1:9092"),
        (2, "127.0.0.1:9093"),
        (3, "127.0.0.1:9094"),
    ]
    assert (status.cluster_id, status.controller_id, status.partitions) == ("c", None, ())
    assert unknown_status(None, "x").brokers == ()
