"""Offsets as an administrator asks for them and moves them: ListOffsets and DeleteRecords."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from ottla.client.calls import arguments
from ottla.client.requests.outcomes import outcome
from ottla.errors import ErrorCode, KafkaError
from ottla.model import CONSUMER_REPLICA_ID, TopicPartition
from ottla.protocol.messages.list_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.messages.topics import HIGH_WATERMARK as HIGH_WATERMARK
from ottla.protocol.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)

T = TypeVar("T")


class OffsetSpec(IntEnum):
    """Special offsets to ask for in place of a timestamp.

    Any number from 0 on is a timestamp: the first record at or after that time.
    """

    LATEST = LATEST_TIMESTAMP
    EARLIEST = EARLIEST_TIMESTAMP
    MAX_TIMESTAMP = MAX_TIMESTAMP
    EARLIEST_LOCAL = EARLIEST_LOCAL_TIMESTAMP
    LATEST_TIERED = LATEST_TIERED_TIMESTAMP


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """An offset with the timestamp and leader epoch of its record; all -1 if no record matches."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


def offset_spec(name: str, value: object) -> int:
    """A timestamp, or one of `OffsetSpec`. Raises TypeError and ValueError."""
    return arguments.whole_number(name, value, min(OffsetSpec))


def end_offset(name: str, value: object) -> int:
    """An offset, or `HIGH_WATERMARK`. Raises TypeError and ValueError."""
    return arguments.whole_number(name, value, HIGH_WATERMARK)


def list_offsets_request(
    wanted: Mapping[TopicPartition, int], *, read_committed: bool, timeout_ms: int
) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for (topic, partition), timestamp in wanted.items():
        partitions = topics.setdefault(topic, ListOffsetsTopic(name=topic)).partitions
        partitions.append(ListOffsetsPartition(partition_index=partition, timestamp=int(timestamp)))
    return ListOffsetsRequest(
        replica_id=CONSUMER_REPLICA_ID,
        isolation_level=int(read_committed),
        topics=list(topics.values()),
        timeout_ms=timeout_ms,
    )


def listed_offsets(response: ListOffsetsResponse) -> dict[TopicPartition, ListedOffset | KafkaError]:
    return {
        TopicPartition(topic.name, each.partition_index): _of_leader(
            outcome(each.error_code, ListedOffset(each.offset, each.timestamp, each.leader_epoch))
        )
        for topic in response.topics
        for each in topic.partitions
    }


def delete_records_request(before: Mapping[TopicPartition, int], timeout_ms: int) -> DeleteRecordsRequest:
    topics: dict[str, DeleteRecordsTopic] = {}
    for (topic, partition), offset in before.items():
        partitions = topics.setdefault(topic, DeleteRecordsTopic(name=topic)).partitions
        partitions.append(DeleteRecordsPartition(partition_index=partition, offset=offset))
    return DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=timeout_ms)


def low_watermarks(response: DeleteRecordsResponse) -> dict[TopicPartition, int | KafkaError]:
    return {
        TopicPartition(topic.name, each.partition_index): _of_leader(
            outcome(each.error_code, each.low_watermark)
        )
        for topic in response.topics
        for each in topic.partitions
    }


def _of_leader(answer: T | KafkaError) -> T | KafkaError:
    """The answer of a leader, with an error that is retried if the broker does not know the partition.

    Metadata names this broker as the leader, so the broker has only not heard of the partition yet.
    """
    if isinstance(answer, KafkaError) and answer.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition's leader does not serve it yet")
    return answer
