from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from tests.unit.wire.fake_broker import FakeBroker

from ottla.client.admin.admin import Admin
from ottla.client.requests.reassignments import ElectionType, Reassignment
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.messages import brokers, cluster, partitions, quorum

T = TypeVar("T")
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def asked(broker: FakeBroker, question: Callable[[Admin], Awaitable[T]], *, timeout_ms: int = 10_000) -> T:
    async def body() -> T:
        async with broker, Admin(f"127.0.0.1:{broker.port}", timeout_ms=timeout_ms) as admin:
            return await question(admin)

    return asyncio.run(body())


def test_fenced_brokers_are_told_apart_and_only_when_asked_for() -> None:
    members = [
        cluster.DescribeClusterBroker(broker_id=1, host="h", port=1, rack="a"),
        cluster.DescribeClusterBroker(broker_id=2, host="h", port=2, is_fenced=True),
    ]
    broker = FakeBroker().on(
        cluster.DescribeClusterRequest,
        cluster.DescribeClusterResponse(cluster_id="c", controller_id=1, brokers=members),
    )
    described = asked(broker, lambda admin: admin.describe_cluster(include_fenced=True))
    assert [(each.node_id, each.rack, each.is_fenced) for each in described.brokers] == [
        (1, "a", False),
        (2, None, True),
    ]
    asked(broker, lambda admin: admin.describe_cluster())
    wanted = [each.include_fenced_brokers for each in broker.asked_for(cluster.DescribeClusterRequest)]
    assert wanted == [True, False]


def test_the_quorum_is_asked_for_again_while_it_has_no_leader_to_answer() -> None:
    found = quorum.DescribeQuorumResponse(
        topics=[
            quorum.DescribeQuorumResponseTopicData(
                topic_name="__cluster_metadata",
                partitions=[quorum.DescribeQuorumResponsePartitionData(leader_id=2, leader_epoch=5)],
            )
        ]
    )
    answers = iter([quorum.DescribeQuorumResponse(error_code=ErrorCode.NOT_CONTROLLER), found])
    broker = FakeBroker().on(quorum.DescribeQuorumRequest, lambda *_: next(answers))
    described = asked(broker, lambda admin: admin.describe_quorum())
    assert (described.leader_id, described.leader_epoch) == (2, 5)


def test_a_broker_that_cannot_be_forgotten_raises() -> None:
    running = brokers.UnregisterBrokerResponse(
        error_code=ErrorCode.INVALID_REQUEST, error_message="Broker 1 is running"
    )
    broker = FakeBroker().on(brokers.UnregisterBrokerRequest, running)
    with pytest.raises(KafkaError, match="is running"):
        asked(broker, lambda admin: admin.unregister_broker(1))
    gone = FakeBroker().on(brokers.UnregisterBrokerRequest, brokers.UnregisterBrokerResponse())
    asked(gone, lambda admin: admin.unregister_broker(7))
    assert gone.asked_for(brokers.UnregisterBrokerRequest)[0].broker_id == 7


def test_moves_are_begun_and_listed() -> None:
    begun = partitions.AlterPartitionReassignmentsResponse(
        responses=[
            partitions.ReassignableTopicResponse(
                name="a", partitions=[partitions.ReassignablePartitionResponse(partition_index=0)]
            )
        ]
    )
    move = partitions.OngoingPartitionReassignment(
        partition_index=0, replicas=[2, 1], adding_replicas=[2], removing_replicas=[1]
    )
    listed = partitions.ListPartitionReassignmentsResponse(
        topics=[partitions.OngoingTopicReassignment(name="a", partitions=[move])]
    )
    broker = (
        FakeBroker()
        .on(partitions.AlterPartitionReassignmentsRequest, begun)
        .on(partitions.ListPartitionReassignmentsRequest, listed)
    )
    assert asked(broker, lambda admin: admin.alter_reassignments({A0: [2]})) == {A0: None}
    found = asked(broker, lambda admin: admin.list_reassignments())
    assert found == {A0: Reassignment((2, 1), (2,), (1,))}


def test_an_election_names_its_kind_and_answers_for_each_partition() -> None:
    results = [
        partitions.PartitionResult(partition_id=0),
        partitions.PartitionResult(partition_id=1, error_code=ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ]
    answer = partitions.ElectLeadersResponse(
        replica_election_results=[partitions.ReplicaElectionResult(topic="a", partition_result=results)]
    )
    broker = FakeBroker().on(partitions.ElectLeadersRequest, answer)
    outcomes = asked(
        broker, lambda admin: admin.elect_leaders([A0, A1], ElectionType.UNCLEAN), timeout_ms=300
    )
    assert outcomes[A0] is None
    assert isinstance(outcomes[A1], KafkaError)
    assert broker.asked_for(partitions.ElectLeadersRequest)[0].election_type == 1
