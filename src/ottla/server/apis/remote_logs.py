"""DescribeRemoteLog 0 (Ottla's own): what the object store holds of each partition, as the metadata has it, and how
far the copies are where this broker leads.
"""

from collections.abc import Iterator
from uuid import UUID

from ottla.controller.remote_log import RemoteLog, RemoteTopic
from ottla.errors import ErrorCode
from ottla.model import NO_LEADER
from ottla.protocol.messages.remote_logs import (
    DescribeRemoteLogRequest,
    DescribeRemoteLogResponse,
    RemotePartitionData,
    RemoteTopicData,
    StatedSegmentData,
)
from ottla.server.gate.handlers import ApiFamily, RequestContext
from ottla.server.gate.services import Services

api = ApiFamily()


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
