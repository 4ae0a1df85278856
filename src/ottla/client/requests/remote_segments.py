"""Where records of a partition lie in the object store: ListRemoteSegments, Ottla's own (docs/decisions/0025)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from ottla.client.requests.outcomes import outcome
from ottla.errors import KafkaError
from ottla.model import TopicPartition
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.messages.remote_logs import (
    ListRemoteSegmentsRequest,
    ListRemoteSegmentsResponse,
    ReadableSegmentData,
    RemoteRange,
    RemoteRangeData,
    RemoteRangeTopic,
)

# Kinds of objects: record batches, and Kafka's index files.
LOG: Final = ".log"
INDEX: Final = ".index"
TXN_INDEX: Final = ".txnindex"


class RemoteObject(NamedTuple):
    """An object of a segment: its name, its size and its CRC-32C."""

    name: str
    size_bytes: int
    crc: int


@dataclass(frozen=True, slots=True)
class ReadableSegment:
    """A segment in the object store, from `base_offset` up to `next_offset`; its objects by kind."""

    name: str
    base_offset: int
    next_offset: int
    objects: Mapping[str, RemoteObject]

    @property
    def size_bytes(self) -> int:
        """Of its record batches."""
        return self.objects[LOG].size_bytes


class AbortedRecords(NamedTuple):
    """An aborted transaction: its records lie between `first_offset` and the marker at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class RemoteSegments:
    """What a leader says of a range. With `is_complete` the store has nothing else of it; without, there is more
    after the last segment.
    """

    topic_id: UUID = ZERO_UUID
    store_url: str = ""
    log_start_offset: int = -1
    is_complete: bool = True
    segments: tuple[ReadableSegment, ...] = ()
    aborted: tuple[AbortedRecords, ...] = ()


def list_remote_segments_request(
    ranges: Mapping[TopicPartition, tuple[int, int]], *, is_about_aborted: bool
) -> ListRemoteSegmentsRequest:
    """The question where the records of some ranges [start, end) lie."""
    topics: dict[str, RemoteRangeTopic] = {}
    for (topic, partition), (start, end) in ranges.items():
        wanted = topics.setdefault(topic, RemoteRangeTopic(topic))
        wanted.partitions.append(RemoteRange(partition, start_offset=start, end_offset=end))
    return ListRemoteSegmentsRequest(is_about_aborted, list(topics.values()))


def listed_remote_segments(
    response: ListRemoteSegmentsResponse,
) -> dict[TopicPartition, RemoteSegments | KafkaError]:
    """The answers by partition."""
    return {
        TopicPartition(topic.name, each.partition_index): outcome(
            each.error_code, _segments(response.store_url, topic.topic_id, each)
        )
        for topic in response.topics
        for each in topic.partitions
    }


def _segments(store_url: str, topic_id: UUID, data: RemoteRangeData) -> RemoteSegments:
    return RemoteSegments(
        topic_id,
        store_url,
        data.log_start_offset,
        data.is_complete,
        tuple(_segment(each) for each in data.segments),
        tuple(AbortedRecords(each.producer_id, each.first_offset, each.last_offset) for each in data.aborted),
    )


def _segment(data: ReadableSegmentData) -> ReadableSegment:
    objects = {
        each.kind: RemoteObject(f"{data.name}{each.kind}", each.size_bytes, each.crc) for each in data.objects
    }
    return ReadableSegment(data.name, data.base_offset, data.next_offset, objects)
