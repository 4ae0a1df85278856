from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from ottla.client.requests.quorum import (
    QuorumAddress,
    QuorumDescription,
    QuorumReplica,
    VoterKey,
    add_voter_request,
    describe_quorum_request,
    described_quorum,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.model import Address
from ottla.protocol.messages import quorum
from ottla.protocol.messages.raft_voters import VoterListener


def answer(**fields: object) -> quorum.DescribeQuorumResponse:
    partition = quorum.DescribeQuorumResponsePartitionData(**fields)  # type: ignore[arg-type]
    topic = quorum.DescribeQuorumResponseTopicData(topic_name="__cluster_metadata", partitions=[partition])
    return quorum.DescribeQuorumResponse(topics=[topic])


def code_of(outcome: object) -> ErrorCode | None:
    return outcome.code if isinstance(outcome, KafkaError) else None


def test_the_question_names_the_one_partition_of_the_metadata_log() -> None:
    (topic,) = describe_quorum_request().topics
    assert (topic.topic_name, [each.partition_index for each in topic.partitions]) == (
        "__cluster_metadata",
        [0],
    )


def test_a_quorum_has_a_leader_voters_and_observers() -> None:
    voter = quorum.ReplicaState(
        replica_id=1, log_end_offset=9, last_fetch_timestamp=7, last_caught_up_timestamp=6
    )
    found = described_quorum(
        answer(
            leader_id=1,
            leader_epoch=4,
            high_watermark=8,
            current_voters=[voter],
            observers=[quorum.ReplicaState(replica_id=5, log_end_offset=-1)],
        )
    )
    assert found == QuorumDescription(1, 4, 8, (QuorumReplica(1, 9, 7, 6),), (QuorumReplica(5, -1, -1, -1),))


def test_a_voter_is_added_at_the_listener_that_the_quorum_uses() -> None:
    nodes = [
        quorum.QuorumNode(1, [quorum.QuorumListener("SSL", "a.example.org", 9093)]),
        quorum.QuorumNode(2),
    ]
    described = described_quorum(replace(answer(leader_id=1), nodes=nodes))
    assert isinstance(described, QuorumDescription)
    assert described.listeners == {1: QuorumAddress("SSL", Address("a.example.org", 9093))}
    place = QuorumAddress(described.listener_name, Address("b.example.org", 9093))
    request = add_voter_request(VoterKey(2, UUID(int=7)), place, 3_000)
    assert request.listeners == [VoterListener("SSL", "b.example.org", 9093)]


def test_a_quorum_without_a_leader_has_none() -> None:
    found = described_quorum(answer(leader_id=-1))
    assert isinstance(found, QuorumDescription)
    assert (found.leader_id, found.listener_name) == (None, "PLAINTEXT")


def test_errors_stand_for_the_whole_or_for_the_partition() -> None:
    whole = quorum.DescribeQuorumResponse(error_code=ErrorCode.NOT_CONTROLLER)
    assert code_of(described_quorum(whole)) == ErrorCode.NOT_CONTROLLER
    partition = answer(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert code_of(described_quorum(partition)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    empty = described_quorum(quorum.DescribeQuorumResponse())
    assert code_of(empty) == ErrorCode.UNKNOWN_SERVER_ERROR
