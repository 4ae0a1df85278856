"""TxnOffsetCommit, versions 0 to 5: offsets that count if a transaction is committed (EOS-3, KIP-98, KIP-447).

Which requests may commit; the state of the group's rebalance does not matter:
    generation   member           group
    below 0      any              empty or not there   yes: a consumer that assigns partitions itself
    below 0      none             with members         yes: up to version 2 a request names no member
    below 0      one              with members         UNKNOWN_MEMBER_ID, or ILLEGAL_GENERATION from a member
    any          any              not there            ILLEGAL_GENERATION
    the current  of it            with members         yes; the session is not extended
    another      of it            with members         ILLEGAL_GENERATION
The transaction and its producer are the shell's business: the transaction coordinator has verified them, and the
log refuses a fenced producer's batch.
"""

from __future__ import annotations

from ottla.errors import ErrorCode, KafkaError
from ottla.group.classic import ClassicGroup, GroupState
from ottla.group.decision import Transaction, Turn
from ottla.group.offsets import expiry_ms
from ottla.group.records import OffsetCommitValue, offset_record
from ottla.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def check_transactional_commit(group: ClassicGroup | None, request: TxnOffsetCommitRequest) -> None:
    """KafkaError unless this member, or a producer without a member, may commit now."""
    generation = request.generation_id
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    if group is None:
        if generation >= 0:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return
    if generation < 0 and (group.state is GroupState.EMPTY or not _names_member(request)):
        return
    group.identified(request.member_id, request.group_instance_id)
    if generation != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


def _names_member(request: TxnOffsetCommitRequest) -> bool:
    return bool(request.member_id) or request.group_instance_id is not None


def commit_transactional_offsets(request: TxnOffsetCommitRequest, turn: Turn) -> TxnOffsetCommitResponse:
    """Write offsets that are pending until the transaction's marker; each partition is answered by itself."""
    turn.write_within(Transaction(request.producer_id, request.producer_epoch))
    topics = [
        TxnOffsetCommitResponseTopic(
            topic.name,
            [
                TxnOffsetCommitResponsePartition(
                    item.partition_index, _commit(request, topic.name, item, turn)
                )
                for item in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return TxnOffsetCommitResponse(topics=topics)


def _commit(
    request: TxnOffsetCommitRequest, topic: str, item: TxnOffsetCommitRequestPartition, turn: Turn
) -> ErrorCode:
    metadata = item.committed_metadata or ""
    if len(metadata) > turn.settings.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    value = OffsetCommitValue(
        offset=item.committed_offset,
        leader_epoch=item.committed_leader_epoch,
        metadata=metadata,
        commit_timestamp=turn.now_ms,
        expire_timestamp=expiry_ms(request.ottla_retention_time_ms, turn.now_ms),
    )
    turn.records.append(offset_record(request.group_id, topic, item.partition_index, value))
    return ErrorCode.NONE
