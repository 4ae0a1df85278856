"""Leaders by request, and back to the preferred replicas by routine (CTL-7)."""

from tests.unit.controller.cluster import Cluster, topic_on

from ottla.controller.commands import BalanceLeaders
from ottla.controller.elections import ElectionType
from ottla.errors import ErrorCode
from ottla.model import NO_LEADER
from ottla.protocol.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from ottla.protocol.messages.partitions import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions


def elect(
    cluster: Cluster, kind: int, partitions: dict[str, list[int]] | None, leader: int = NO_LEADER
) -> dict[tuple[str, int], ErrorCode]:
    """Hold elections; the error of each. `leader` is the designated one."""
    named = None
    if partitions is not None:
        named = [TopicPartitions(name, indexes) for name, indexes in partitions.items()]
    response: ElectLeadersResponse = cluster.commit(ElectLeadersRequest(kind, named, ottla_leader=leader))
    assert response.error_code == 0
    return {
        (result.topic, each.partition_id): ErrorCode(each.error_code)
        for result in response.replica_election_results
        for each in result.partition_result
    }


def moved_away() -> Cluster:
    """Three partitions that prefer 1, 2 and 3; broker 1 was gone and is back in sync, broker 2 is not."""
    cluster = Cluster(brokers=3)
    cluster.create(topic_on("a", [1, 2, 3], [2, 3, 1], [3, 1, 2]))
    cluster.fence(1, 2)
    cluster.heartbeat(1)
    cluster.heartbeat(2)
    for index in range(3):
        cluster.alter("a", [3, 1], index)
    assert [cluster.standing("a", index)[0] for index in range(3)] == [3, 3, 3]
    return cluster


def test_the_preferred_replica_leads_again_if_it_is_in_sync() -> None:
    cluster = moved_away()
    assert elect(cluster, ElectionType.PREFERRED, {"a": [0, 1, 2, 7], "b": [0]}) == {
        ("a", 0): ErrorCode.NONE,
        ("a", 1): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ("a", 2): ErrorCode.ELECTION_NOT_NEEDED,
        ("a", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("b", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert [cluster.standing("a", index) for index in range(3)] == [
        (1, (3, 1), 2),
        (3, (3, 1), 1),
        (3, (3, 1), 0),
    ]


def test_of_all_partitions_only_those_are_answered_that_need_an_election() -> None:
    cluster = moved_away()
    assert elect(cluster, ElectionType.PREFERRED, None) == {
        ("a", 0): ErrorCode.NONE,
        ("a", 1): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    }
    assert elect(moved_away(), ElectionType.UNCLEAN, None) == {}


def test_the_designated_replica_is_elected_where_nobody_leads() -> None:
    cluster = Cluster(brokers=3)
    cluster.create(topic_on("a", [1, 2, 3], [1, 2, 3]))
    cluster.fence(2, 3)
    cluster.fence(1)
    cluster.heartbeat(2)
    cluster.heartbeat(3)
    assert cluster.standing("a", 0)[0] == NO_LEADER
    designated = ElectionType.DESIGNATED
    assert elect(cluster, designated, {"a": [0]}, leader=1) == {
        ("a", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    }
    assert elect(cluster, designated, {"a": [0]}, leader=9) == {
        ("a", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    }
    assert elect(cluster, designated, {"a": [0]}, leader=3) == {("a", 0): ErrorCode.NONE}
    assert cluster.standing("a", 0)[:2] == (3, (3,))
    assert elect(cluster, designated, {"a": [0]}, leader=2) == {("a", 0): ErrorCode.ELECTION_NOT_NEEDED}
    cluster.heartbeat(1)
    # A replica that holds every committed record is elected rather than the designated one.
    assert elect(cluster, designated, {"a": [1]}, leader=2) == {("a", 1): ErrorCode.ELECTION_NOT_NEEDED}
    assert cluster.standing("a", 1)[0] == 1


def test_a_designated_election_names_its_partitions() -> None:
    cluster = Cluster(brokers=3)
    response = cluster.commit(ElectLeadersRequest(ElectionType.DESIGNATED, None, ottla_leader=1))
    assert response.error_code == ErrorCode.INVALID_REQUEST


def test_an_unclean_election_is_held_only_where_nobody_leads() -> None:
    cluster = Cluster(brokers=3)
    cluster.create(topic_on("a", [1, 2], [2, 1], [3, 1]))
    for index, leader in enumerate((1, 2, 3)):
        cluster.alter("a", [leader], index)
    cluster.fence(1, 3)
    wanted = {"a": [0, 1, 2]}
    decision = cluster.decide(ElectLeadersRequest(ElectionType.UNCLEAN, [TopicPartitions("a", [0, 1, 2])]))
    assert decision.unclean_elections == (("a", 0),)
    assert elect(cluster, ElectionType.UNCLEAN, wanted) == {
        ("a", 0): ErrorCode.NONE,
        ("a", 1): ErrorCode.ELECTION_NOT_NEEDED,
        ("a", 2): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    }
    assert cluster.standing("a") == (2, (2,), 2)
    assert cluster.standing("a", 2) == (NO_LEADER, (3,), 1)


def test_a_leader_that_restarts_cleanly_can_be_replaced_by_force() -> None:
    cluster = Cluster(brokers=2)
    cluster.create(topic_on("a", [1, 2]))
    cluster.alter("a", [1])
    cluster.restart(1, clean=True)
    assert cluster.standing("a") == (1, (1,), 0)
    assert elect(cluster, ElectionType.UNCLEAN, {"a": [0]}) == {("a", 0): ErrorCode.NONE}
    assert cluster.standing("a") == (2, (2,), 1)


def test_a_kind_of_election_that_does_not_exist_is_refused() -> None:
    decision = Cluster().decide(ElectLeadersRequest(2, None))
    assert decision.response.error_code == ErrorCode.INVALID_REQUEST


def test_a_partition_named_twice_is_elected_once() -> None:
    cluster = moved_away()
    response = cluster.commit(ElectLeadersRequest(0, [TopicPartitions("a", [0, 0])]))
    codes = [each.error_code for each in response.replica_election_results[0].partition_result]
    assert codes == [0, ErrorCode.INVALID_REQUEST]
    assert cluster.standing("a") == (1, (3, 1), 2)


def test_leadership_goes_back_where_a_broker_misses_too_much() -> None:
    cluster = moved_away()
    assert cluster.decide(BalanceLeaders(100)).records == []
    assert cluster.commit(BalanceLeaders(99)) is None
    assert [cluster.standing("a", index)[0] for index in range(3)] == [1, 3, 3]
    assert cluster.decide(BalanceLeaders(0)).records == []


def test_a_little_imbalance_is_left_alone() -> None:
    cluster = Cluster(brokers=2)
    cluster.create(topic_on("a", *([1, 2] for _ in range(10))))
    cluster.fence(1)
    cluster.heartbeat(1)
    for index in range(10):
        cluster.alter("a", [2, 1], index)
    elect(cluster, ElectionType.PREFERRED, {"a": list(range(9))})
    assert cluster.decide(BalanceLeaders(10)).records == []
    assert len(cluster.decide(BalanceLeaders(9)).records) == 1


def test_what_has_become_electable_is_elected_by_routine() -> None:
    cluster = Cluster(brokers=2)
    cluster.create(topic_on("a", [1, 2]))
    cluster.alter("a", [1])
    cluster.fence(1)
    assert cluster.decide(BalanceLeaders(10)).records == []
    allow = IncrementalAlterableConfig("unclean.leader.election.enable", 0, "true")
    cluster.commit(IncrementalAlterConfigsRequest([IncrementalAlterConfigsResource(2, "a", [allow])]))
    decision = cluster.decide(BalanceLeaders(10))
    assert decision.unclean_elections == (("a", 0),)
    cluster.commit(BalanceLeaders(10))
    assert cluster.standing("a") == (2, (2,), 2)
