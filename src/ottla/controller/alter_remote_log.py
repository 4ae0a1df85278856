"""AlterRemoteLog, version 0: a leader says what becomes of its partition's segments in the object store.

    START_COPY     a segment is about to be copied: the id under which its objects will be found
    FINISH_COPY    the copy is verified: local segments may go, and readers may use the objects
    ADVANCE_START  records below an offset are deleted (DeleteRecords, retention)
    TRUNCATE       the leader's log differs from an offset on, after an unclean election
    CLEAR          tiered storage was disabled for the topic: all segments go
    GIVE_UP        a copy that was begun is not finished any more
    FINISH_DELETE  the objects of these segments are deleted

Only the leader of the newest epoch may change anything; FINISH_DELETE may come from any broker, because objects
that are to be deleted never come back. A repeated request changes nothing and is answered as the first: the answer
to the first may have been lost.
"""

from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum
from typing import Any, Final

from ottla.controller.config_sources import BrokerSettings
from ottla.controller.decision import Decision
from ottla.controller.image import ClusterImage, ResourceType, TopicImage
from ottla.controller.records import RemoteLogRecord, RemoveRemoteSegmentRecord
from ottla.controller.remote_log import RemoteLog, RemoteTopic
from ottla.controller.remote_log_records import COPIED, COPYING, DELETING, segment_of, segment_record
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.remote_logs import AlterRemoteLogRequest, AlterRemoteLogResponse

# Segments that one CLEAR or TRUNCATE lets go of: a batch of the metadata log stays small. The leader repeats it.
SEGMENTS_PER_CHANGE: Final = 500


class RemoteLogOperation(IntEnum):
    """What an AlterRemoteLog asks for."""

    START_COPY = 0
    FINISH_COPY = 1
    ADVANCE_START = 2
    TRUNCATE = 3
    CLEAR = 4
    FINISH_DELETE = 5
    GIVE_UP = 6


def alter_remote_log(
    image: ClusterImage, request: AlterRemoteLogRequest, settings: BrokerSettings
) -> Decision:
    """Decide on one change of one partition."""
    try:
        error = image.broker_epoch_error(request.broker_id, request.broker_epoch)
        if error:
            raise KafkaError(error)
        records = _decide(image, request, settings)
    except KafkaError as refused:
        return Decision([], AlterRemoteLogResponse(refused.code, refused.message))
    return Decision(records, AlterRemoteLogResponse())


def _decide(image: ClusterImage, request: AlterRemoteLogRequest, settings: BrokerSettings) -> list[Any]:
    known = image.remote_logs.get(request.topic_id, RemoteTopic(""))
    log = known.partitions.get(request.partition_index, RemoteLog())
    if request.operation == RemoteLogOperation.FINISH_DELETE:
        return _finish_delete(log, request)
    topic = _led_topic(image, request)
    if request.operation not in _OPERATIONS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"There is no operation {request.operation} on remote logs."
        )
    if request.operation == RemoteLogOperation.START_COPY:
        config = settings.topic_config(image.config_of(ResourceType.TOPIC, topic.name))
        if not config.remote_storage_enable or config.remote_log_copy_disable:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"'{topic.name}' copies no segments any more.")
    return _OPERATIONS[RemoteLogOperation(request.operation)](topic, log, request)


def _led_topic(image: ClusterImage, request: AlterRemoteLogRequest) -> TopicImage:
    """The topic of a partition that the asking broker leads, in the epoch that it says."""
    topic = image.topics_by_id.get(request.topic_id)
    partition = topic.partition(request.partition_index) if topic is not None else None
    if topic is None or partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    if request.leader_epoch > partition.leader_epoch:
        raise KafkaError(
            ErrorCode.NOT_CONTROLLER
        )  # the leader heard of a later decision than this controller
    if request.leader_epoch < partition.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    if partition.leader != request.broker_id:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return topic


def _start_copy(topic: TopicImage, log: RemoteLog, request: AlterRemoteLogRequest) -> list[Any]:
    segment = replace(segment_of(request.segment), leader_epoch=request.leader_epoch)
    if log.copying is not None and log.copying.segment_id == segment.segment_id:
        return []
    if any(segment.segment_id == each.segment_id for _, each in log.all_segments()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The id of the segment is taken.")
    if segment.base_offset >= segment.next_offset:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The segment has no records.")
    if segment.next_offset <= max(log.start_offset, request.offset):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "All records of the segment are deleted.")
    tiered = log.next_offset
    if tiered is not None and not segment.base_offset <= tiered < segment.next_offset:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"The segment does not follow the remote log, which ends at {tiered}."
        )
    index = request.partition_index
    records: list[Any] = []
    if not log.segments:
        # The log may start within its first segment: what lies before is deleted, and stays so.
        start = max(log.start_offset, request.offset, 0)
        records.append(RemoteLogRecord(topic.topic_id, index, topic.name, start))
    return [*records, segment_record(topic.topic_id, index, segment, COPYING)]


def _finish_copy(topic: TopicImage, log: RemoteLog, request: AlterRemoteLogRequest) -> list[Any]:
    segment = segment_of(request.segment)
    if any(segment.segment_id == each.segment_id for each in log.segments):
        return []
    begun = log.copying
    if begun is None or begun.segment_id != segment.segment_id or begun.leader_epoch != request.leader_epoch:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, "The copy was given up meanwhile.")
    if not segment.objects or not segment.epochs:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A copied segment has objects and leader epochs.")
    copied = replace(
        segment,
        base_offset=begun.base_offset,
        next_offset=begun.next_offset,
        leader_epoch=begun.leader_epoch,
    )
    return [segment_record(topic.topic_id, request.partition_index, copied, COPIED)]


def _advance_start(topic: TopicImage, log: RemoteLog, request: AlterRemoteLogRequest) -> list[Any]:
    if request.offset <= log.start_offset:
        return []
    return [RemoteLogRecord(topic.topic_id, request.partition_index, topic.name, request.offset)]


def _truncate(topic: TopicImage, log: RemoteLog, request: AlterRemoteLogRequest) -> list[Any]:
    offset, index = request.offset, request.partition_index
    records: list[Any] = []
    # Newest first: what is left has no gap if there are more than one change takes.
    for segment in reversed(log.segments):
        if segment.next_offset <= offset or len(records) == SEGMENTS_PER_CHANGE:
            break
        if segment.base_offset >= offset:
            records.append(segment_record(topic.topic_id, index, segment, DELETING))
        else:
            epochs = tuple(each for each in segment.epochs if each[1] < offset)
            cut = replace(segment, next_offset=offset, epochs=epochs)
            records.append(segment_record(topic.topic_id, index, cut, COPIED))
    return records


def _clear(topic: TopicImage, log: RemoteLog, request: AlterRemoteLogRequest) -> list[Any]:
    going = [*filter(None, [log.copying]), *log.segments][:SEGMENTS_PER_CHANGE]
    return [segment_record(topic.topic_id, request.partition_index, each, DELETING) for each in going]


def _give_up(topic: TopicImage, log: RemoteLog, request: AlterRemoteLogRequest) -> list[Any]:
    if log.copying is None or log.copying.segment_id not in request.segment_ids:
        return []
    return [segment_record(topic.topic_id, request.partition_index, log.copying, DELETING)]


def _finish_delete(log: RemoteLog, request: AlterRemoteLogRequest) -> list[Any]:
    wanted = set(request.segment_ids)
    return [
        RemoveRemoteSegmentRecord(request.topic_id, request.partition_index, each.segment_id)
        for each in log.deleting
        if each.segment_id in wanted
    ]


_OPERATIONS: Final[
    dict[RemoteLogOperation, Callable[[TopicImage, RemoteLog, AlterRemoteLogRequest], list[Any]]]
] = {
    RemoteLogOperation.START_COPY: _start_copy,
    RemoteLogOperation.FINISH_COPY: _finish_copy,
    RemoteLogOperation.ADVANCE_START: _advance_start,
    RemoteLogOperation.TRUNCATE: _truncate,
    RemoteLogOperation.CLEAR: _clear,
    RemoteLogOperation.GIVE_UP: _give_up,
}
