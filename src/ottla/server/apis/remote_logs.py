"""Questions about the remote parts of logs; Ottla's own.

DescribeRemoteLog 0: what the object store holds of each partition, as the metadata has it, and how far the copies
are where this broker leads. ListRemoteSegments 0: where a consumer that reads the store itself finds records of a
range. Only the leader answers it, with segments that its own log agrees with: what it would serve from there itself.
"""

from collections.abc import Iterator
from typing import Final
from uuid import UUID

from ottla.controller.remote_log import RemoteLog, RemoteSegment, RemoteTopic
from ottla.errors import ErrorCode, KafkaError
from ottla.log.files.file_names import TXN_INDEX
from ottla.log.tiers.object_names import object_name
from ottla.model import NO_LEADER
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.messages.remote_logs import (
    AbortedRecordsData,
    DescribeRemoteLogRequest,
    DescribeRemoteLogResponse,
    ListRemoteSegmentsRequest,
    ListRemoteSegmentsResponse,
    ReadableSegmentData,
    RemoteObjectData,
    RemotePartitionData,
    RemoteRange,
    RemoteRangeData,
    RemoteRangeTopic,
    RemoteRangeTopicData,
    RemoteTopicData,
    StatedSegmentData,
)
from ottla.records.index_entries import AbortedEntry
from ottla.server.gate.handlers import ApiFamily, RequestContext
from ottla.server.gate.services import Services
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.tiered_part import TieredPart

api = ApiFamily()

# Of one answer of ListRemoteSegments: a few milliseconds of the event loop. Who asks goes on after the last one.
SEGMENTS_PER_ANSWER: Final = 500


@api.handles(DescribeRemoteLogRequest)
def describe_remote_log(
    context: RequestContext, request: DescribeRemoteLogRequest
) -> DescribeRemoteLogResponse:
    """The remote parts of some topics, or of all that have one."""
    services = context.services
    if services.tiers is None:
        return DescribeRemoteLogResponse(
            ErrorCode.INVALID_CONFIG,
            "This broker has no tiered storage: set remote.log.storage.system.enable and ottla.remote.store.url.",
        )
    topics = [
        RemoteTopicData(
            name=topic.name,
            topic_id=topic_id,
            is_deleted=topic_id not in services.quorum.image.topics_by_id,
            partitions=[
                _partition(services, topic_id, topic, index, has_segments=request.has_segments)
                for index in _indices(services, topic_id, topic)
            ],
        )
        for topic_id, topic in _topics(services, request.topics)
    ]
    access = services.tiers.access
    return DescribeRemoteLogResponse(store_url=access.url, problem=access.problem, topics=topics)


def _topics(services: Services, wanted: list[str] | None) -> Iterator[tuple[UUID, RemoteTopic]]:
    """Topics with a remote part, and hosted ones that will have one."""
    image = services.quorum.image
    found = dict(image.remote_logs)
    for partition in services.partitions:
        if partition.tier is not None:
            found.setdefault(partition.topic_id, RemoteTopic(partition.topic))
    for topic_id, topic in sorted(found.items(), key=lambda item: item[1].name):
        if wanted is None or topic.name in wanted:
            yield topic_id, topic


def _indices(services: Services, topic_id: UUID, topic: RemoteTopic) -> list[int]:
    image = services.quorum.image.topics_by_id.get(topic_id)
    return sorted({*topic.partitions, *(range(len(image.partitions)) if image is not None else ())})


def _partition(
    services: Services, topic_id: UUID, topic: RemoteTopic, index: int, *, has_segments: bool
) -> RemotePartitionData:
    remote = topic.partitions.get(index, RemoteLog())
    image = services.quorum.image.topics_by_id.get(topic_id)
    placed = image.partition(index) if image is not None else None
    shown = RemotePartitionData(
        partition_index=index,
        leader_id=NO_LEADER if placed is None else placed.leader,
        log_start_offset=-1 if remote.first_offset is None else remote.first_offset,
        remote_next_offset=-1 if remote.next_offset is None else remote.next_offset,
        segment_count=len(remote.segments),
        size_bytes=sum(each.size_bytes for each in remote.segments),
        deleting_count=len(remote.deleting),
        segments=_segments(remote) if has_segments else [],
    )
    hosted = services.partitions.find(topic.name, index)
    if hosted is not None and hosted.tier is not None and hosted.replica.is_leader:
        shown.log_start_offset = hosted.log_start_offset
        shown.local_start_offset = hosted.log.log_start_offset
        stable = min(hosted.high_watermark.value, hosted.last_stable_offset)
        shown.copyable_next_offset = min(hosted.log.extent.segments.active.base_offset, stable)
        shown.problem = hosted.tier.problem
    return shown


def _segments(remote: RemoteLog) -> list[StatedSegmentData]:
    # Imported here: most brokers have no tiered storage.
    from ottla.server.tiers.remote_changes import segment_data

    return [StatedSegmentData(state, segment_data(segment)) for state, segment in remote.all_segments()]


# Where a consumer finds records


@api.handles(ListRemoteSegmentsRequest)
def list_remote_segments(
    context: RequestContext, request: ListRemoteSegmentsRequest
) -> ListRemoteSegmentsResponse:
    """The segments in the store that hold records of some ranges."""
    tiers = context.services.tiers
    listing = _Listing(context.services, is_about_aborted=request.is_about_aborted)
    return ListRemoteSegmentsResponse(
        store_url="" if tiers is None else tiers.access.url,
        topics=[listing.topic(topic) for topic in request.topics],
    )


class _Listing:
    """One answer, and the room that is left in it."""

    def __init__(self, services: Services, *, is_about_aborted: bool) -> None:
        self._services = services
        self._is_about_aborted = is_about_aborted
        self._room = SEGMENTS_PER_ANSWER

    def topic(self, wanted: RemoteRangeTopic) -> RemoteRangeTopicData:
        known = self._services.quorum.image.topics_by_name.get(wanted.name)
        topic_id = ZERO_UUID if known is None else known.topic_id
        return RemoteRangeTopicData(
            wanted.name, topic_id, [self._range(wanted.name, each) for each in wanted.partitions]
        )

    def _range(self, topic: str, wanted: RemoteRange) -> RemoteRangeData:
        try:
            partition = self._services.partitions.by_name(topic, wanted.partition_index)
            error = partition.replica.fetch_error(wanted.current_leader_epoch)
            if error:
                raise KafkaError(error)
            return self._listed(partition, wanted)
        except KafkaError as refused:
            return RemoteRangeData(wanted.partition_index, refused.code)

    def _listed(self, partition: HostedPartition, wanted: RemoteRange) -> RemoteRangeData:
        tier, log = partition.tier, partition.log
        found = [] if tier is None else self._segments(tier, wanted)
        shown, is_complete = found[: self._room], len(found) <= self._room
        self._room -= len(shown)
        aborted: list[AbortedEntry] = []
        if is_complete and self._is_about_aborted:
            aborted = log.aborted_transactions(log.log_start_offset, wanted.end_offset)
        return RemoteRangeData(
            partition_index=wanted.partition_index,
            log_start_offset=partition.log_start_offset,
            is_complete=is_complete,
            segments=[_readable(partition, each) for each in shown],
            aborted=[AbortedRecordsData(*entry[:3]) for entry in aborted],
        )

    def _segments(self, tier: TieredPart, wanted: RemoteRange) -> list[RemoteSegment]:
        """One more than there is room for, if there are as many."""
        agreed_offset, found = tier.agreed_offset, list[RemoteSegment]()
        for segment in tier.remote.from_offset(wanted.start_offset):
            is_later = segment.base_offset >= wanted.end_offset and not self._is_about_aborted
            if is_later or segment.next_offset > agreed_offset or len(found) > self._room:
                break
            is_wanted = not self._is_about_aborted or segment.object(TXN_INDEX) is not None
            if is_wanted and segment.next_offset > wanted.start_offset:
                found.append(segment)
        return found


def _readable(partition: HostedPartition, segment: RemoteSegment) -> ReadableSegmentData:
    place = partition.topic, partition.topic_id, partition.index, segment.base_offset, segment.segment_id
    return ReadableSegmentData(
        object_name(*place, ""),
        segment.base_offset,
        segment.next_offset,
        [RemoteObjectData(*each) for each in segment.objects],
    )
