"""Which replicas out of sync hold every committed record."""

import pytest
from tests.unit.controller.cluster import Cluster, topic_on

from ottla.config import BrokerConfig
from ottla.controller.eligible_leaders import with_eligible_leaders
from ottla.controller.image import PartitionImage, ResourceType
from ottla.errors import ErrorCode
from ottla.model import NO_LEADER
from ottla.protocol.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)

Ids = tuple[int, ...]


def partition(isr: Ids, elr: Ids = (), leader: int = 1, last: int = NO_LEADER) -> PartitionImage:
    return PartitionImage(0, (1, 2, 3, 4), isr, leader, elr=elr, last_known_leader=last)


@pytest.mark.parametrize(
    ("before", "elr", "isr", "distrusted", "expected"),
    [
        ((1, 2, 3), (), (1, 2), set(), ()),  # two may commit what the third does not have
        ((1, 2, 3), (), (1,), set(), (2, 3)),
        ((1, 2), (), (1,), set(), (2,)),
        ((1,), (2,), (), set(), (1, 2)),
        ((1,), (2,), (), {1}, (2,)),
        ((1,), (2, 3), (3,), set(), (1, 2)),
        ((1,), (2, 3), (1, 4), set(), ()),
        ((1, 2), (), (1,), {2}, ()),
    ],
)
def test_whoever_left_an_isr_too_small_to_commit_can_lead(
    before: Ids, elr: Ids, isr: Ids, distrusted: set[int], expected: Ids
) -> None:
    after = with_eligible_leaders(partition(before, elr), partition(isr, elr), 2, distrusted)
    assert (after.isr, after.elr) == (isr, expected)


@pytest.mark.parametrize(
    ("before", "leader", "expected"),
    [
        (partition((1,)), NO_LEADER, 1),
        (partition((1,), leader=NO_LEADER, last=1), NO_LEADER, 1),
        (partition((1,), leader=NO_LEADER, last=1), 2, NO_LEADER),
        (partition((1,)), 1, NO_LEADER),
    ],
)
def test_the_last_leader_is_remembered_while_there_is_none(
    before: PartitionImage, leader: int, expected: int
) -> None:
    after = with_eligible_leaders(before, partition((1,), leader=leader), 1, set())
    assert after.last_known_leader == expected


def change(kind: int, name: str, value: str) -> IncrementalAlterConfigsRequest:
    wanted = IncrementalAlterableConfig("min.insync.replicas", 0, value)
    return IncrementalAlterConfigsRequest([IncrementalAlterConfigsResource(kind, name, [wanted])])


@pytest.mark.parametrize(
    ("kind", "name", "value", "expected"),
    [
        (ResourceType.TOPIC, "own", "1", ((), (2, 3))),
        (ResourceType.TOPIC, "own", "3", ((2, 3), (2, 3))),
        (ResourceType.BROKER, "", "1", ((2, 3), ())),
        (ResourceType.BROKER, "", "2", ((2, 3), (2, 3))),
    ],
)
def test_where_one_replica_is_enough_to_commit_the_others_are_not_eligible(
    kind: int, name: str, value: str, expected: tuple[Ids, Ids]
) -> None:
    config = BrokerConfig.from_properties({"min.insync.replicas": "2"})
    cluster = Cluster(config, brokers=3)
    cluster.create(topic_on("own", [1, 2, 3], min_insync_replicas="2"), topic_on("default", [1, 2, 3]))
    for topic in ("own", "default"):
        cluster.alter(topic, [1])
        assert cluster.partition(topic).elr == (2, 3)
    assert cluster.commit(change(kind, name, value)).responses[0].error_code == 0
    assert (cluster.partition("own").elr, cluster.partition("default").elr) == expected
    assert cluster.standing("own") == (1, (1,), 0)


def test_a_partition_that_nobody_leads_keeps_its_eligible_leaders() -> None:
    cluster = Cluster(brokers=2)
    cluster.create(topic_on("a", [1, 2], min_insync_replicas="2"))
    cluster.fence(1)
    cluster.restart(2, clean=False)
    assert (cluster.partition("a").isr, cluster.partition("a").elr) == ((), (1,))
    cluster.commit(change(ResourceType.TOPIC, "a", "1"))
    assert cluster.partition("a").elr == (1,)


def test_one_broker_has_no_minimum_of_its_own() -> None:
    answer = Cluster(brokers=2).commit(change(ResourceType.BROKER, "2", "1")).responses[0]
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert "all brokers" in answer.error_message


def test_a_leader_that_steps_down_with_a_broken_log_is_not_eligible() -> None:
    cluster = Cluster(brokers=2)
    cluster.create(topic_on("a", [1, 2], min_insync_replicas="2"))
    cluster.alter("a", [2])
    found = cluster.partition("a")
    assert (found.leader, found.isr, found.elr) == (2, (2,), ())
