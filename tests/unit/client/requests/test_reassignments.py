from __future__ import annotations

from ottla.client.requests.reassignments import (
    ElectionType,
    Reassignment,
    alter_reassignments_request,
    altered_reassignments,
    elect_leaders_request,
    elected_leaders,
    listed_reassignments,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.messages import partitions

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def code_of(outcome: object) -> ErrorCode | None:
    return outcome.code if isinstance(outcome, KafkaError) else None


def test_moves_are_asked_for_by_topic_and_none_cancels_one() -> None:
    request = alter_reassignments_request({A0: [3, 1], B0: None, A1: (2,)}, 500)
    assert request.timeout_ms == 450  # of 500: its answer is to come in time
    asked = {
        (topic.name, each.partition_index): each.replicas
        for topic in request.topics
        for each in topic.partitions
    }
    assert asked == {("a", 0): [3, 1], ("a", 1): [2], ("b", 0): None}
    assert [topic.name for topic in request.topics] == ["a", "b"]


def test_each_move_has_its_own_outcome() -> None:
    refused = partitions.ReassignablePartitionResponse(
        partition_index=1, error_code=ErrorCode.INVALID_REPLICA_ASSIGNMENT, error_message="no broker 9"
    )
    answer = partitions.AlterPartitionReassignmentsResponse(
        responses=[
            partitions.ReassignableTopicResponse(
                name="a", partitions=[partitions.ReassignablePartitionResponse(partition_index=0), refused]
            )
        ]
    )
    outcomes = altered_reassignments(answer, [A0, A1])
    assert outcomes[A0] is None
    assert str(outcomes[A1]).endswith("no broker 9")


def test_an_error_of_the_whole_answer_is_everybodys() -> None:
    refused = partitions.AlterPartitionReassignmentsResponse(error_code=ErrorCode.NOT_CONTROLLER)
    outcomes = altered_reassignments(refused, [A0, B0])
    assert {code_of(each) for each in outcomes.values()} == {ErrorCode.NOT_CONTROLLER}
    listed = listed_reassignments(
        partitions.ListPartitionReassignmentsResponse(error_code=ErrorCode.NOT_CONTROLLER)
    )
    assert code_of(listed) == ErrorCode.NOT_CONTROLLER


def test_a_move_under_way_names_who_comes_and_who_goes() -> None:
    move = partitions.OngoingPartitionReassignment(
        partition_index=1, replicas=[3, 1, 2], adding_replicas=[3], removing_replicas=[2]
    )
    topic = partitions.OngoingTopicReassignment(name="a", partitions=[move])
    listed = listed_reassignments(partitions.ListPartitionReassignmentsResponse(topics=[topic]))
    assert listed == {A1: Reassignment((3, 1, 2), (3,), (2,))}
    assert listed[A1].target == (3, 1)


def test_an_election_that_is_not_needed_is_a_success() -> None:
    request = elect_leaders_request([A0, B0], ElectionType.UNCLEAN, 10)
    assert (request.election_type, request.timeout_ms) == (1, 9)  # its answer is to come in time
    assert request.topic_partitions is not None
    assert [(each.topic, each.partitions) for each in request.topic_partitions] == [("a", [0]), ("b", [0])]
    results = [
        partitions.PartitionResult(partition_id=0, error_code=ErrorCode.ELECTION_NOT_NEEDED),
        partitions.PartitionResult(
            partition_id=1, error_code=ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, error_message="3 is away"
        ),
    ]
    answer = partitions.ElectLeadersResponse(
        replica_election_results=[partitions.ReplicaElectionResult(topic="a", partition_result=results)]
    )
    outcomes = elected_leaders(answer, [A0, A1])
    assert outcomes[A0] is None
    assert code_of(outcomes[A1]) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    refused = elected_leaders(partitions.ElectLeadersResponse(error_code=ErrorCode.NOT_CONTROLLER), [A0])
    assert code_of(refused[A0]) == ErrorCode.NOT_CONTROLLER
