"""Partitions without a leader: who is waited for, the logs of the live replicas, and what an election gives up.

The questions are Kafka's: DescribeTopicPartitions (KIP-966); ListOffsets and OffsetForLeaderEpoch to a replica
that does not lead. The election of a chosen replica is Ottla's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.client.requests.outcomes import error_of
from ottla.errors import KafkaError
from ottla.model import ANY_REPLICA_ID, NO_LEADER, EpochEnd, TopicPartition
from ottla.protocol.messages.cluster import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    TopicRequest,
)
from ottla.protocol.messages.leader_epochs import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.messages.partitions import DESIGNATED_ELECTION, ElectLeadersRequest, TopicPartitions

NOT_RUNNING: Final = "it is not running"


@dataclass(frozen=True, slots=True)
class LeaderCandidate:
    """A live replica that may be elected: its log, and how many records other live replicas hold beyond it.

    `gives_up` has the number of records by replica, and None where it could not be found out. The epoch and
    the timestamp are -1 for an empty log.
    """

    node_id: int
    log_start_offset: int
    log_end_offset: int
    last_epoch: int
    newest_timestamp_ms: int
    gives_up: Mapping[int, int | None]


@dataclass(frozen=True, slots=True)
class LeaderlessPartition:
    """A partition without a leader.

    `isr` and `eligible` are the replicas that hold every acknowledged record; none of them is live.
    `candidates` are the live replicas, the most complete log first: the longest log of the highest last epoch.
    `silent` are the other replicas, each with the reason why nothing is known about its log.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    eligible: tuple[int, ...]
    last_leader: int | None
    candidates: tuple[LeaderCandidate, ...]
    silent: Mapping[int, str]

    @property
    def awaited(self) -> tuple[int, ...]:
        """The replicas whose return gives the partition a leader without any loss; empty if there is none."""
        return self.isr or self.eligible


@dataclass(frozen=True, slots=True)
class DescribedPartition:
    """A partition without a leader, as its metadata describe it."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    eligible: tuple[int, ...]
    last_leader: int | None
    offline: tuple[int, ...]


def describe_partitions_request(
    topics: Iterable[str], cursor: Cursor | None
) -> DescribeTopicPartitionsRequest:
    """Without topics, all topics are described."""
    return DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in topics], cursor=cursor)


def leaderless_in(
    response: DescribeTopicPartitionsResponse,
) -> Iterator[tuple[TopicPartition, DescribedPartition]]:
    """The partitions without a leader. Raises KafkaError for a topic that could not be described."""
    for topic in response.topics:
        if topic.error_code:
            reason = error_of(topic.error_code)
            raise KafkaError(reason.code, f'topic "{topic.name}": {reason.message}')
        for each in topic.partitions:
            if each.leader_id < 0:
                yield TopicPartition(topic.name or "", each.partition_index), _described(each)


def _described(partition: DescribeTopicPartitionsResponsePartition) -> DescribedPartition:
    last_known = partition.last_known_elr or [NO_LEADER]
    return DescribedPartition(
        replicas=tuple(partition.replica_nodes),
        isr=tuple(partition.isr_nodes),
        eligible=tuple(partition.eligible_leader_replicas or ()),
        last_leader=None if last_known[0] == NO_LEADER else last_known[0],
        offline=tuple(partition.offline_replicas),
    )


def replica_offsets_request(partitions: Iterable[TopicPartition], timestamp: int) -> ListOffsetsRequest:
    """Ask a replica for an offset of its own log, whether or not it leads."""
    topics: dict[str, ListOffsetsTopic] = {}
    for topic, index in partitions:
        wanted = ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        topics.setdefault(topic, ListOffsetsTopic(name=topic)).partitions.append(wanted)
    return ListOffsetsRequest(replica_id=ANY_REPLICA_ID, topics=list(topics.values()))


@dataclass(frozen=True, slots=True)
class ReplicaOffset:
    """An offset of a replica's log, with the epoch and timestamp of its record."""

    offset: int
    epoch: int
    timestamp_ms: int


def replica_offsets(response: ListOffsetsResponse) -> dict[TopicPartition, ReplicaOffset | KafkaError]:
    return {
        TopicPartition(topic.name, each.partition_index): error_of(each.error_code)
        if each.error_code
        else ReplicaOffset(each.offset, each.leader_epoch, each.timestamp)
        for topic in response.topics
        for each in topic.partitions
    }


def epoch_end_request(partition: TopicPartition, epoch: int) -> OffsetForLeaderEpochRequest:
    """Ask a replica where an epoch ends in its own log."""
    wanted = OffsetForLeaderPartition(partition=partition.partition, leader_epoch=epoch)
    topic = OffsetForLeaderTopic(topic=partition.topic, partitions=[wanted])
    return OffsetForLeaderEpochRequest(replica_id=ANY_REPLICA_ID, topics=[topic])


def epoch_end(response: OffsetForLeaderEpochResponse) -> EpochEnd | None:
    """The end of the largest epoch up to the one that was asked for; None if the replica cannot tell."""
    answers = [each for topic in response.topics for each in topic.partitions]
    if not answers or answers[0].error_code or answers[0].leader_epoch < 0:
        return None
    return EpochEnd(answers[0].leader_epoch, answers[0].end_offset)


def designated_election_request(
    leader: int, partitions: Iterable[TopicPartition], timeout_ms: int
) -> ElectLeadersRequest:
    """Elect this replica for each of the partitions."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return ElectLeadersRequest(
        election_type=DESIGNATED_ELECTION,
        topic_partitions=[TopicPartitions(topic, indexes) for topic, indexes in topics.items()],
        timeout_ms=timeout_ms,
        ottla_leader=leader,
    )
