"""Moving replicas (KIP-455) and electing leaders (KIP-460), as an administrator does it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from ottla.client.calls import arguments
from ottla.client.requests.outcomes import error_of, outcome
from ottla.client.requests.topics import brokers_share_ms
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)

V = TypeVar("V")


class ElectionType(IntEnum):
    """Which replica may become leader.

    PREFERRED: the first replica, if it is in sync. UNCLEAN: any live replica, which may lose records.
    """

    PREFERRED = 0
    UNCLEAN = 1


def election_type(name: str, election: object) -> ElectionType:
    """How leaders are elected. Raises TypeError."""
    if not isinstance(election, ElectionType):
        raise TypeError(f"{name} must be an ElectionType, not {election!r}")
    return election


def replicas_or_none(name: str, value: object) -> list[int] | None:
    """The brokers that a partition moves to; None for a move that is cancelled. Raises TypeError and ValueError."""
    return None if value is None else arguments.numbers(name, value)


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A move under way: the present replicas of a partition, those to be added, and those to be removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas when the move is done."""
        return tuple(each for each in self.replicas if each not in self.removing)


def alter_reassignments_request(
    replicas: Mapping[TopicPartition, Sequence[int] | None], timeout_ms: int
) -> AlterPartitionReassignmentsRequest:
    """`None` cancels the move of a partition."""
    topics = [
        ReassignableTopic(
            name=topic,
            partitions=[
                ReassignablePartition(
                    partition_index=index, replicas=None if wanted is None else list(wanted)
                )
                for index, wanted in partitions.items()
            ],
        )
        for topic, partitions in _by_topic(replicas).items()
    ]
    return AlterPartitionReassignmentsRequest(timeout_ms=brokers_share_ms(timeout_ms), topics=topics)


def altered_reassignments(
    response: AlterPartitionReassignmentsResponse, asked: Iterable[TopicPartition]
) -> dict[TopicPartition, KafkaError | None]:
    if response.error_code != ErrorCode.NONE:
        return dict.fromkeys(asked, error_of(response.error_code, response.error_message))
    return {
        TopicPartition(topic.name, each.partition_index): outcome(each.error_code, None, each.error_message)
        for topic in response.responses
        for each in topic.partitions
    }


def list_reassignments_request(timeout_ms: int) -> ListPartitionReassignmentsRequest:
    return ListPartitionReassignmentsRequest(timeout_ms=brokers_share_ms(timeout_ms), topics=None)


def listed_reassignments(
    response: ListPartitionReassignmentsResponse,
) -> dict[TopicPartition, Reassignment] | KafkaError:
    if response.error_code != ErrorCode.NONE:
        return error_of(response.error_code, response.error_message)
    return {
        TopicPartition(topic.name, each.partition_index): Reassignment(
            tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
        )
        for topic in response.topics
        for each in topic.partitions
    }


def elect_leaders_request(
    partitions: Iterable[TopicPartition], election: ElectionType, timeout_ms: int
) -> ElectLeadersRequest:
    topics = _by_topic(dict.fromkeys(partitions))
    return ElectLeadersRequest(
        election_type=election,
        topic_partitions=[
            TopicPartitions(topic=topic, partitions=list(indexes)) for topic, indexes in topics.items()
        ],
        timeout_ms=brokers_share_ms(timeout_ms),
    )


def elected_leaders(
    response: ElectLeadersResponse, asked: Iterable[TopicPartition]
) -> dict[TopicPartition, KafkaError | None]:
    """None where the leader is now the wanted one, whether it had to be elected or was it already."""
    if response.error_code != ErrorCode.NONE:
        return dict.fromkeys(asked, error_of(response.error_code))
    return {
        TopicPartition(topic.topic, each.partition_id): None
        if each.error_code == ErrorCode.ELECTION_NOT_NEEDED
        else outcome(each.error_code, None, each.error_message)
        for topic in response.replica_election_results
        for each in topic.partition_result
    }


def _by_topic(items: Mapping[TopicPartition, V]) -> dict[str, dict[int, V]]:
    topics: dict[str, dict[int, V]] = defaultdict(dict)
    for (topic, index), value in items.items():
        topics[topic][index] = value
    return topics
