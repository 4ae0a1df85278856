"""Checks whether the records that were read are still in the log of a new leader (KIP-320).

The new leader is asked for the end offset of the epoch of the last fetched batch. Leaders change without loss
as long as the new one was in sync. After an unclean election it may lack acknowledged records; then its log
diverges at some offset, and a consumer that fetched further would miss the records that are there now. Rules
- A position without an epoch proves nothing and needs no proof: it comes from a seek, or from an old broker.
- If only fetched records are gone, and none that the application has read, they are dropped and fetched
  again.
- If the application has read records that are gone, it continues where the logs diverge; with
  `auto_offset_reset="none"` it gets an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from ottla.client.fetching.plan.partition_reader import PartitionReader
from ottla.client.requests.metadata import Leader
from ottla.client.requests.outcomes import error_of
from ottla.errors import ErrorCode, KafkaError
from ottla.model import CONSUMER_REPLICA_ID, NO_OFFSET, TopicPartition
from ottla.protocol.messages.leader_epochs import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


class History(Enum):
    """The relation of a reader's records to a leader's log."""

    SAME = "the leader has all that was fetched"
    REFETCH = "what was fetched is dropped; the application has seen none of it"
    PARTED = "the application has read records that are gone"
    UNKNOWN = "no answer yet: ask again"


def epochs_request(readers: Iterable[tuple[PartitionReader, Leader]]) -> OffsetForLeaderEpochRequest:
    """Ask where the epochs of these readers ended."""
    topics: dict[str, OffsetForLeaderTopic] = {}
    for reader, leader in readers:
        name, index = reader.partition
        topic = topics.setdefault(name, OffsetForLeaderTopic(topic=name))
        topic.partitions.append(OffsetForLeaderPartition(index, leader.epoch, reader.fetch_epoch))
    return OffsetForLeaderEpochRequest(replica_id=CONSUMER_REPLICA_ID, topics=list(topics.values()))


def ends_of_epochs(response: OffsetForLeaderEpochResponse) -> dict[TopicPartition, EpochEndOffset]:
    return {
        TopicPartition(topic.topic, each.partition): each
        for topic in response.topics
        for each in topic.partitions
    }


def compare(reader: PartitionReader, leader: Leader, answer: EpochEndOffset | None) -> History:
    """Compare a reader with the leader's answer, and let it drop records that the leader does not have."""
    if answer is None or error_of(answer.error_code).code.retriable:
        return History.UNKNOWN
    if answer.error_code != ErrorCode.NONE:  # the fetch will say the same, to the application
        reader.prove(leader.epoch)
        return History.SAME
    if answer.end_offset == NO_OFFSET or answer.end_offset >= reader.fetch_offset:
        # A leader that knows no such epoch has forgotten old ones with old records: nothing says that they
        # were others.
        reader.prove(leader.epoch)
        return History.SAME
    if not reader.truncate(answer.end_offset, answer.leader_epoch):
        return History.PARTED
    reader.prove(leader.epoch)
    return History.REFETCH


def parted(reader: PartitionReader, answer: EpochEndOffset) -> KafkaError:
    """The error for an application that wants to decide by itself."""
    return KafkaError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"{reader.partition} was read up to offset {reader.position}, but its new leader's log parts from "
        "that at offset "
        f"{answer.end_offset}: records that were read are lost. Seek to go on",
    )
