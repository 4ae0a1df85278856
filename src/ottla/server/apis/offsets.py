"""Offsets of a log: ListOffsets 1 to 11, OffsetForLeaderEpoch 2 to 4, DeleteRecords 0 to 2.

KIP-79 timestamps, KIP-207 offsets of a leader that does not know its high watermark yet, KIP-320 leader
epochs, KIP-734 max timestamp, KIP-405, KIP-1005 and KIP-1023 tiered offsets (for a topic without tiered storage
the earliest local offset is the log start, the others answer -1 without an error). A timestamp that may lie in
records that only the object store holds is looked for there. DeleteRecords is answered when the records are gone
on every live replica (KIP-107), and in the metadata of the remote part.

ListOffsets, and OffsetForLeaderEpoch from version 3 on, of the replica id -2 are questions about the replica's
own log, also where another broker leads, or none (`ottla cluster recover`). The latest offset is then the end
of that log, and its epoch the epoch of the last record.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable

from ottla.controller.image import INTERNAL_TOPICS
from ottla.errors import ErrorCode, KafkaError
from ottla.model import ANY_REPLICA_ID, NO_EPOCH, NO_OFFSET, EpochEnd
from ottla.protocol.messages.leader_epochs import (
    REPLICA_ID_SINCE,
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from ottla.protocol.messages.list_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    OFFSET_NOT_AVAILABLE_SINCE,
    TIMESTAMPS_SINCE,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.topics import (
    HIGH_WATERMARK,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.replication.divergence import end_of_epoch
from ottla.replication.partition import READ_COMMITTED
from ottla.server.gate.handlers import ApiFamily, RequestContext
from ottla.server.partitions.hosted_partition import HostedPartition

api = ApiFamily()


@api.handles(ListOffsetsRequest)
def list_offsets(
    context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    """The offset at a time, or at one of the special times."""
    cold: list[_ColdLookup] = []
    asked = Counter(
        (topic.name, want.partition_index) for topic in request.topics for want in topic.partitions
    )
    topics = [
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                _list_partition(context, request, topic.name, want, cold)
                if asked[topic.name, want.partition_index] == 1
                else _refused(want.partition_index, ErrorCode.INVALID_REQUEST)
                for want in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    response = ListOffsetsResponse(topics=topics)
    return _with_cold(context, request, cold, response) if cold else response


# A timestamp that is looked for in the object store first: the partition, the question, and the answer that the
# local log gives.
_ColdLookup = tuple[HostedPartition, ListOffsetsPartition, ListOffsetsPartitionResponse]


async def _with_cold(
    context: RequestContext,
    request: ListOffsetsRequest,
    cold: list[_ColdLookup],
    response: ListOffsetsResponse,
) -> ListOffsetsResponse:
    # Imported here: most brokers have no tiered storage.
    from ottla.server.tiers.cold_lookups import first_at, largest

    tiers = context.services.tiers
    assert tiers is not None, "a partition with a tier has a store"
    for partition, want, answer in cold:
        try:
            found = (
                await largest(tiers.reads, partition, above_ms=answer.timestamp)
                if want.timestamp == MAX_TIMESTAMP
                else await first_at(tiers.reads, partition, want.timestamp)
            )
        except KafkaError as refused:
            answer.error_code, answer.timestamp, answer.offset = refused.code, -1, -1
            continue
        if found is not None:
            answer.timestamp, answer.offset = found
            answer.leader_epoch = _epoch_at(partition, answer.offset)
    return response


def _list_partition(
    context: RequestContext,
    request: ListOffsetsRequest,
    topic: str,
    want: ListOffsetsPartition,
    cold: list[_ColdLookup],
) -> ListOffsetsPartitionResponse:
    index = want.partition_index
    try:
        partition = context.services.partitions.by_name(topic, index)
        if request.replica_id == ANY_REPLICA_ID:
            _check_timestamp(want.timestamp, context.version)
            return _own_offset(partition, want.timestamp)
        error = partition.replica.fetch_error(want.current_leader_epoch)
        if error:
            raise KafkaError(error)
        _check_timestamp(want.timestamp, context.version)
        timestamp, offset = _lookup(partition, want.timestamp, request.isolation_level)
        if not partition.replica.high_watermark_is_known:
            _refuse_unknown(want.timestamp, offset, context.version)
    except KafkaError as refused:
        return _refused(index, refused.code)
    answer = ListOffsetsPartitionResponse(
        partition_index=index, timestamp=timestamp, offset=offset, leader_epoch=_epoch_at(partition, offset)
    )
    if partition.tier is not None and (want.timestamp >= 0 or want.timestamp == MAX_TIMESTAMP):
        cold.append((partition, want, answer))
    return answer


def _epoch_at(partition: HostedPartition, offset: int) -> int:
    if offset < 0:
        return NO_EPOCH
    log = partition.log
    epoch = (
        log.extent.leader_epochs.epoch_at(offset)
        if partition.tier is None
        else partition.tier.epoch_at(offset)
    )
    # A log that never held a record: its first one will be of this epoch.
    return partition.replica.leader_epoch if epoch == NO_EPOCH else epoch


def _own_offset(partition: HostedPartition, timestamp: int) -> ListOffsetsPartitionResponse:
    """An offset of this replica's log, committed or not."""
    end = _own_end(partition)
    if timestamp == LATEST_TIMESTAMP:
        time, offset, of_record = -1, end, end - 1
    else:
        time, offset = _lookup_below(partition, timestamp, end)
        of_record = offset
    holds_record = partition.log.log_start_offset <= of_record < end
    epoch = partition.log.extent.leader_epochs.epoch_at(of_record) if holds_record else NO_EPOCH
    return ListOffsetsPartitionResponse(
        partition_index=partition.index, timestamp=time, offset=offset, leader_epoch=epoch
    )


def _own_end(partition: HostedPartition) -> int:
    """The end of the records that this replica would have as leader: records after a hole would be truncated."""
    lost = partition.log.extent.first_lost_offset
    return partition.log.log_end_offset if lost is None else lost


def _refused(index: int, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=error)


def _refuse_unknown(timestamp: int, offset: int, version: int) -> None:
    """A new leader may have a high watermark that is lower than what clients have seen: what lies above is
    not known yet.
    """
    is_found = offset >= 0 and timestamp != LATEST_TIMESTAMP
    if is_found or timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        return
    is_told = version >= OFFSET_NOT_AVAILABLE_SINCE
    raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE if is_told else ErrorCode.LEADER_NOT_AVAILABLE)


def _check_timestamp(timestamp: int, version: int) -> None:
    if timestamp < 0 and version < TIMESTAMPS_SINCE.get(timestamp, version + 1):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, f"version {version} has no special timestamp {timestamp}"
        )


def _lookup(partition: HostedPartition, timestamp: int, isolation_level: int) -> tuple[int, int]:
    """Timestamp and offset of a committed record; (-1, -1) where there is none."""
    upper = (
        partition.last_stable_offset if isolation_level == READ_COMMITTED else partition.high_watermark.value
    )
    return _lookup_below(partition, timestamp, upper)


def _lookup_below(partition: HostedPartition, timestamp: int, upper: int) -> tuple[int, int]:
    log = partition.log
    if timestamp == LATEST_TIMESTAMP:
        return -1, upper
    if timestamp == EARLIEST_LOCAL_TIMESTAMP:
        return -1, log.log_start_offset
    if timestamp == EARLIEST_TIMESTAMP:
        return -1, partition.log_start_offset
    if timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        return -1, _tiered_offset(partition, timestamp)
    found = (
        log.timestamps.largest()
        if timestamp == MAX_TIMESTAMP
        else log.timestamps.first_at(timestamp, upper_offset=upper)
    )
    return (found.timestamp, found.offset) if found is not None and found.offset < upper else (-1, -1)


def _tiered_offset(partition: HostedPartition, timestamp: int) -> int:
    """The last offset in the object store, or the first that is not there; -1 without tiered storage, or without a
    record there.
    """
    if partition.tier is None:
        return -1
    following = partition.tier.remote.next_offset
    if timestamp == LATEST_TIERED_TIMESTAMP:
        return -1 if following is None else following - 1
    return partition.log_start_offset if following is None else following


@api.handles(OffsetForLeaderEpochRequest)
def offset_for_leader_epoch(
    context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Where the newest epoch not above the asked one ends."""
    of_replica = context.version >= REPLICA_ID_SINCE and request.replica_id == ANY_REPLICA_ID
    topics = [
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=[_epoch_end(context, topic.topic, want, of_replica) for want in topic.partitions],
        )
        for topic in request.topics
    ]
    return OffsetForLeaderEpochResponse(topics=topics)


def _epoch_end(
    context: RequestContext, topic: str, want: OffsetForLeaderPartition, of_replica: bool
) -> EpochEndOffset:
    try:
        partition = context.services.partitions.by_name(topic, want.partition)
        error = partition.replica.fetch_error(want.current_leader_epoch)
        if error and not of_replica:
            raise KafkaError(error)
    except KafkaError as refused:
        return EpochEndOffset(error_code=refused.code, partition=want.partition)
    epoch, end_offset = (
        _own_epoch_end(partition, want.leader_epoch)
        if of_replica
        else end_of_epoch(
            partition.log if partition.tier is None else partition.tier,
            partition.replica.leader_epoch,
            want.leader_epoch,
        )
    )
    return EpochEndOffset(partition=want.partition, leader_epoch=epoch, end_offset=end_offset)


def _own_epoch_end(partition: HostedPartition, epoch: int) -> EpochEnd:
    found = partition.log.end_offset_for(epoch)
    return EpochEnd(found.epoch, min(found.end_offset, _own_end(partition)))


@api.handles(DeleteRecordsRequest)
def delete_records(
    context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]:
    """Move the start of logs forward; the files follow with the next round of retention."""
    waits: list[_Deletion] = []
    topics = [
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[
                _delete_partition(context, topic.name, want.partition_index, want.offset, waits)
                for want in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    response = DeleteRecordsResponse(topics=topics)
    return _deleted_everywhere(context, request.timeout_ms, waits, response) if waits else response


# A deletion that not all other replicas have carried out: the partition, its new log start, and the answer.
_Deletion = tuple[HostedPartition, int, DeleteRecordsPartitionResult]


def _delete_partition(
    context: RequestContext, topic: str, index: int, offset: int, waits: list[_Deletion]
) -> DeleteRecordsPartitionResult:
    try:
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        partition = context.services.partitions.by_name(topic, index)
        error = partition.replica.fetch_error(-1)
        if error:
            raise KafkaError(error)
        start = _deletable(partition, offset)
        if partition.tier is None:
            partition.advance_log_start_offset(start)
            start = partition.log.log_start_offset
    except KafkaError as refused:
        return DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1, error_code=refused.code)
    result = DeleteRecordsPartitionResult(partition_index=index, low_watermark=start)
    if partition.tier is not None or _low_watermark(context, partition) < start:
        waits.append((partition, start, result))
    return result


def _deletable(partition: HostedPartition, offset: int) -> int:
    """Up to where records are deleted. KafkaError if they cannot be."""
    if "delete" not in partition.config.cleanup_policy:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, "records can be deleted only where cleanup.policy has delete"
        )
    high_watermark = partition.high_watermark.value
    if offset == HIGH_WATERMARK:
        offset = high_watermark
    if offset > high_watermark or offset < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    return offset


def _low_watermark(context: RequestContext, partition: HostedPartition) -> int:
    """Where the log starts on every live replica; -1 while one of them has not told."""
    live = {broker.node_id for broker in context.services.quorum.image.live_brokers}
    starts = partition.waiters.follower_starts()
    others = (starts.get(other, NO_OFFSET) for other in partition.replica.followers if other in live)
    return min((partition.log.log_start_offset, *others))


async def _deleted_everywhere(
    context: RequestContext, timeout_ms: int, waits: list[_Deletion], response: DeleteRecordsResponse
) -> DeleteRecordsResponse:
    await asyncio.gather(*(_followed(context, timeout_ms / 1000, wait) for wait in waits))
    return response


async def _followed(context: RequestContext, timeout_s: float, wait: _Deletion) -> None:
    """Return when no live replica has the records any more; the error stands in the answer if that takes too
    long.
    """
    partition, start, result = wait
    error = ErrorCode.NONE
    try:
        async with asyncio.timeout(timeout_s):
            if partition.tier is not None:
                result.low_watermark = start = await _delete_remote(context, partition, start)
            while not error and _low_watermark(context, partition) < start:
                await partition.waiters.next_follower_start()
                error = partition.replica.fetch_error(-1)
    except TimeoutError:
        error = ErrorCode.REQUEST_TIMED_OUT
    except KafkaError as refused:
        error = refused.code
    if error:
        result.error_code, result.low_watermark = error, -1


async def _delete_remote(context: RequestContext, partition: HostedPartition, offset: int) -> int:
    """Delete records of a partition with tiered storage: the metadata says so first. The new log start."""
    tiers = context.services.tiers
    assert tiers is not None, "a partition with a tier has a store"
    await tiers.changes.advance_start(partition, offset)
    partition.advance_log_start_offset(offset)
    return partition.log_start_offset
