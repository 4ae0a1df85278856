"""One fetch request to one broker: the partitions to ask for, and how to treat the answer for each.

Rules
- A partition is fetched ahead of the application as long as less than one fetch of it is buffered, so that a
  fetch is under way while the application works. The buffers of all partitions together are limited too; a
  request asks for no more than the room left.
- Topics go by their ids where both sides have them (version 13), so that a topic that was deleted and created
  again is not taken for the old one.
- While a partition is left out because its buffer is full, the broker may not hold the request: the
  application could drain that buffer at any moment, and would wait for partitions that have no records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

from ottla.client.fetching.plan.fetch_session import FetchSession, SessionPartition
from ottla.client.fetching.plan.partition_reader import PartitionReader
from ottla.client.requests.metadata import Leader
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.protocol.codec import ZERO_UUID, first_version
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

_TOPIC_IDS_SINCE: Final = first_version(FetchTopic, "topic_id")

# Metadata will name the broker to ask instead, or the broker needs a moment.
_PASSING: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """The sizes of a fetch, and how long the broker may hold it. Defaults are the Java client's."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    partition_max_bytes: int = 1024 * 1024
    max_buffered_bytes: int = 64 * 1024 * 1024
    request_timeout_ms: int = 30_000
    is_read_committed: bool = False
    check_crcs: bool = True
    rack: str = ""  # where the consumer is; brokers may name a replica there (KIP-392)
    nearby_ms: int = 300_000  # how long such a replica is asked before the leader is asked again


class Verdict(Enum):
    """How a partition's part of a fetch response is treated."""

    FETCHED = "records, or nothing new"
    OUT_OF_RANGE = "the offset is not in the log"
    PASSING = "ask again in a moment, perhaps elsewhere"
    FAILED = "an error for the application"


class Asked(NamedTuple):
    """A reader, the offset that it asked for, and the epoch of the leader that it asked."""

    reader: PartitionReader
    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """A request, and which reader waits for which part of its answer."""

    request: FetchRequest
    asked: Mapping[TopicPartition, Asked]
    topic_names: Mapping[UUID, str]

    def answers(self, response: FetchResponse) -> Iterator[tuple[Asked, PartitionData]]:
        """The parts of an answer whose readers are still where they were when they asked."""
        for topic in response.responses:
            name = topic.topic or self.topic_names.get(topic.topic_id, "")
            for data in topic.partitions:
                asked = self.asked.get(TopicPartition(name, data.partition_index))
                if asked is not None and asked.reader.fetch_offset == asked.offset:
                    yield asked, data


def is_fetchable(reader: PartitionReader, settings: FetchSettings) -> bool:
    """Whether there is something to ask for."""
    return (
        reader.fetch_offset >= 0
        and reader.error is None
        and not reader.is_blocked
        and not reader.is_paused
        and not reader.is_out_of_range
        and reader.buffered_bytes < settings.partition_max_bytes
    )


def plan_fetch(
    session: FetchSession,
    readers: Iterable[tuple[PartitionReader, Leader, UUID]],
    settings: FetchSettings,
    *,
    max_bytes: int,
    may_wait: bool = True,
) -> FetchPlan:
    """A request for these partitions, all led by the same broker."""
    names: dict[UUID, str] = {}
    wanted: dict[SessionPartition, FetchPartition] = {}
    asking: dict[TopicPartition, Asked] = {}
    for reader, leader, topic_id in readers:
        name, index = key = reader.partition
        offset = reader.fetch_offset
        names[topic_id] = name
        wanted[SessionPartition(topic_id, name, index)] = FetchPartition(
            partition=index,
            current_leader_epoch=leader.epoch,
            fetch_offset=offset,
            partition_max_bytes=settings.partition_max_bytes,
        )
        asking[key] = Asked(reader, offset, leader.epoch)
    part = session.request(wanted)
    request = FetchRequest(
        max_wait_ms=settings.max_wait_ms if may_wait else 0,
        min_bytes=settings.min_bytes if may_wait else 0,
        max_bytes=max_bytes,
        isolation_level=int(settings.is_read_committed),
        session_id=part.session_id,
        session_epoch=part.session_epoch,
        topics=part.topics,
        forgotten_topics_data=part.forgotten,
        rack_id=settings.rack,
    )
    return FetchPlan(request, asking, names)


def last_version(plan: FetchPlan) -> int | None:
    """The newest version for a request: without topic ids, the last one that has topic names."""
    return _TOPIC_IDS_SINCE - 1 if ZERO_UUID in plan.topic_names else None


def take_in(asked: Asked, data: PartitionData) -> Verdict:
    """Pass a reader its part of the response."""
    reader = asked.reader
    if data.error_code == ErrorCode.NONE:
        reader.fetched(data)
        return Verdict.FETCHED
    if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        if reader.doubts(asked.leader_epoch):
            return Verdict.PASSING
        reader.leave_range()
        return Verdict.OUT_OF_RANGE
    return Verdict.PASSING if data.error_code in _PASSING else Verdict.FAILED
