"""The answers of the quorum as Kafka's messages, and back. Errors stand where the one partition is, or above
it.
"""

from __future__ import annotations

from typing import Any

from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_NODE, NO_OFFSET, EpochEnd
from ottla.protocol.messages import fetch as fetches
from ottla.protocol.messages import quorum
from ottla.raft.messages import (
    METADATA_PARTITION,
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    Answer,
    BeginEpoch,
    EpochAnswer,
    FetchAnswer,
    FetchSnapshotAnswer,
    Request,
    SnapshotId,
    VoteAnswer,
)
from ottla.raft.requests import only_partition


def response_message(request: Request, answer: Answer) -> Any:
    """Kafka's message for the answer to a question."""
    match answer:
        case VoteAnswer():
            vote = quorum.VoteResponsePartitionData(
                METADATA_PARTITION, answer.error, _id(answer.leader_id), answer.epoch, answer.is_granted
            )
            return quorum.VoteResponse(0, [quorum.VoteResponseTopicData(METADATA_TOPIC, [vote])])
        case EpochAnswer():
            partition = quorum.QuorumEpochPartitionData(
                METADATA_PARTITION, answer.error, _id(answer.leader_id), answer.epoch
            )
            topics = [quorum.QuorumEpochTopicData(METADATA_TOPIC, [partition])]
            if isinstance(request, BeginEpoch):
                return quorum.BeginQuorumEpochResponse(0, topics)
            return quorum.EndQuorumEpochResponse(0, topics)
        case FetchAnswer():
            return fetches.FetchResponse(responses=[_fetched(answer)])
        case FetchSnapshotAnswer():
            return quorum.FetchSnapshotResponse(topics=[_piece(answer)])


def read_response(message: Any) -> Answer:
    """The answer in Kafka's message; KafkaError if it is an error above all partitions."""
    if message.error_code != ErrorCode.NONE:
        raise KafkaError(_error(message.error_code))
    match message:
        case quorum.VoteResponse():
            vote: quorum.VoteResponsePartitionData = only_partition(message.topics)
            return VoteAnswer(
                _error(vote.error_code), vote.leader_epoch, _node(vote.leader_id), vote.vote_granted
            )
        case quorum.BeginQuorumEpochResponse() | quorum.EndQuorumEpochResponse():
            epoch: quorum.QuorumEpochPartitionData = only_partition(message.topics)
            return EpochAnswer(_error(epoch.error_code), epoch.leader_epoch, _node(epoch.leader_id))
        case fetches.FetchResponse():
            return _read_fetched(only_partition(message.responses))
        case quorum.FetchSnapshotResponse():
            return _read_piece(only_partition(message.topics))
    raise TypeError(f"{type(message).__name__} is no answer of the quorum")


def _error(code: int) -> ErrorCode:
    """A code that we do not know is an error all the same."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _id(node_id: int | None) -> int:
    return NO_NODE if node_id is None else node_id


def _node(node_id: int) -> int | None:
    return None if node_id == NO_NODE else node_id


def _fetched(answer: FetchAnswer) -> fetches.FetchableTopicResponse:
    partition = fetches.PartitionData(
        partition_index=METADATA_PARTITION,
        error_code=answer.error,
        high_watermark=answer.high_watermark,
        log_start_offset=answer.log_start_offset,
        current_leader=fetches.LeaderIdAndEpoch(_id(answer.leader_id), answer.epoch),
        records=memoryview(answer.records),
    )
    if answer.diverging is not None:
        partition.diverging_epoch = fetches.EpochEndOffset(*answer.diverging)
    if answer.snapshot_id is not None:
        partition.snapshot_id = fetches.SnapshotId(*answer.snapshot_id)
    return fetches.FetchableTopicResponse(METADATA_TOPIC, METADATA_TOPIC_ID, [partition])


def _read_fetched(partition: fetches.PartitionData) -> FetchAnswer:
    diverging, snapshot_id = partition.diverging_epoch, partition.snapshot_id
    return FetchAnswer(
        error=_error(partition.error_code),
        epoch=partition.current_leader.leader_epoch,
        leader_id=_node(partition.current_leader.leader_id),
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        diverging=EpochEnd(diverging.epoch, diverging.end_offset)
        if diverging.end_offset != NO_OFFSET
        else None,
        snapshot_id=SnapshotId(snapshot_id.end_offset, snapshot_id.epoch)
        if snapshot_id.end_offset != NO_OFFSET
        else None,
        records=b"" if partition.records is None else partition.records,
    )


def _piece(answer: FetchSnapshotAnswer) -> quorum.FetchSnapshotResponseTopicSnapshot:
    partition = quorum.FetchSnapshotResponsePartitionSnapshot(
        index=METADATA_PARTITION,
        error_code=answer.error,
        snapshot_id=quorum.SnapshotId(*answer.snapshot_id),
        current_leader=quorum.LeaderIdAndEpoch(_id(answer.leader_id), answer.epoch),
        size=answer.size_bytes,
        position=answer.position,
        unaligned_records=memoryview(answer.data),
    )
    return quorum.FetchSnapshotResponseTopicSnapshot(METADATA_TOPIC, [partition])


def _read_piece(partition: quorum.FetchSnapshotResponsePartitionSnapshot) -> FetchSnapshotAnswer:
    return FetchSnapshotAnswer(
        error=_error(partition.error_code),
        epoch=partition.current_leader.leader_epoch,
        leader_id=_node(partition.current_leader.leader_id),
        snapshot_id=SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        size_bytes=partition.size,
        position=partition.position,
        data=b"" if partition.unaligned_records is None else partition.unaligned_records,
    )
