"""OffsetCommit, versions 2 to 10, and OffsetDelete, version 0: writing down how far a group has read (GRP-3).

Which requests may commit:
    generation   member       group
    below 0      any          empty or not there      yes: a consumer that assigns partitions itself, or an admin
    below 0      any          with members            UNKNOWN_MEMBER_ID, or ILLEGAL_GENERATION from a member
    any          any          not there               ILLEGAL_GENERATION, from version 9 on GROUP_ID_NOT_FOUND
    the current  of it        stable or preparing     yes, and its session is extended: a commit is a sign of life
    the current  of it        completing              REBALANCE_IN_PROGRESS: it may not own what it commits any more
    another      of it        with members            ILLEGAL_GENERATION
Names and ids of topics are the shell's business: here a topic has its name, and its id if the shell knows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ottla.errors import ErrorCode, KafkaError
from ottla.group.classic import ClassicGroup, GroupState
from ottla.group.decision import Turn
from ottla.group.rebalance import extend_session
from ottla.group.records import NO_EXPIRY, GroupRecord, OffsetCommitValue, offset_record
from ottla.protocol.messages.offsets import (
    GROUP_ID_NOT_FOUND_SINCE,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

_NO_RETENTION: Final = -1
_LATEST_MS: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    """A command of the broker's own: these topics are gone, and with them all offsets in them."""

    names: frozenset[str]


def check_commit(group: ClassicGroup | None, request: OffsetCommitRequest, version: int, turn: Turn) -> None:
    """KafkaError unless whoever sends this may commit now; a member's session is extended."""
    generation = request.generation_id_or_member_epoch
    if group is None:
        if generation >= 0:
            is_new = version >= GROUP_ID_NOT_FOUND_SINCE
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION)
        return
    if generation < 0 and group.state is GroupState.EMPTY:
        return
    member = group.identified(request.member_id, request.group_instance_id)
    if generation != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    if group.state is GroupState.COMPLETING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    if member.parked_join is None:
        extend_session(group, member, turn)


def commit_offsets(request: OffsetCommitRequest, turn: Turn) -> OffsetCommitResponse:
    """Commit offsets; each partition is answered by itself."""
    topics = [
        OffsetCommitResponseTopic(
            topic.name,
            topic.topic_id,
            [
                OffsetCommitResponsePartition(item.partition_index, _commit(request, topic, item, turn))
                for item in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetCommitResponse(topics=topics)


def _commit(
    request: OffsetCommitRequest,
    topic: OffsetCommitRequestTopic,
    item: OffsetCommitRequestPartition,
    turn: Turn,
) -> ErrorCode:
    metadata = item.committed_metadata or ""
    if len(metadata) > turn.settings.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    value = OffsetCommitValue(
        offset=item.committed_offset,
        leader_epoch=item.committed_leader_epoch,
        metadata=metadata,
        commit_timestamp=turn.now_ms,
        expire_timestamp=expiry_ms(request.retention_time_ms, turn.now_ms),
        topic_id=topic.topic_id,
    )
    turn.records.append(offset_record(request.group_id, topic.name, item.partition_index, value))
    return ErrorCode.NONE


def expiry_ms(retention_ms: int, now_ms: int) -> int:
    """When an offset expires whose commit asked for a retention time of its own; as late as can be written
    down.
    """
    return NO_EXPIRY if retention_ms == _NO_RETENTION else max(0, min(now_ms + retention_ms, _LATEST_MS))


def delete_offsets(
    group: ClassicGroup | None, request: OffsetDeleteRequest, turn: Turn
) -> OffsetDeleteResponse:
    """Forget offsets, except those of topics that the group's members subscribe to (KIP-496)."""
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
    if group.state is not GroupState.EMPTY and not group.uses_consumer_protocol:
        # The subscriptions of other kinds of members are not known.
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
    return OffsetDeleteResponse(topics=[_deleted(group, topic, turn) for topic in request.topics])


def _deleted(group: ClassicGroup, topic: OffsetDeleteRequestTopic, turn: Turn) -> OffsetDeleteResponseTopic:
    error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if _is_needed(group, topic.name) else ErrorCode.NONE
    partitions = [item.partition_index for item in topic.partitions]
    if not error:
        turn.records.extend(tombstones(group, ((topic.name, partition) for partition in partitions)))
    answers = [OffsetDeleteResponsePartition(partition, error) for partition in partitions]
    return OffsetDeleteResponseTopic(topic.name, answers)


def _is_needed(group: ClassicGroup, topic: str) -> bool:
    if group.state is GroupState.EMPTY:
        return False
    return group.subscribed_topics is None or topic in group.subscribed_topics


def tombstones(group: ClassicGroup, partitions: Iterable[tuple[str, int]]) -> Iterator[GroupRecord]:
    """The records that forget offsets, of those partitions that have one, committed or about to be."""
    for topic, partition in dict.fromkeys(partitions):
        if group.offsets.get(topic, partition) or group.offsets.is_pending(topic, partition):
            yield offset_record(group.group_id, topic, partition, None)


def forget_topics(groups: Iterable[ClassicGroup], command: TopicsDeleted, turn: Turn) -> None:
    """Forget the offsets of deleted topics: they mean nothing to the next topics of these names."""
    for group in groups:
        for name in sorted(command.names):
            partitions = ((name, partition) for partition in group.offsets.partitions_of(name))
            turn.records.extend(tombstones(group, partitions))
