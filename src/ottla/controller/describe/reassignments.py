"""ListPartitionReassignments, version 0 (KIP-455): which partitions are being moved, as a function of an
image.
"""

from collections.abc import Collection, Mapping

from ottla.controller.image import ClusterImage, TopicImage
from ottla.protocol.messages.partitions import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def list_partition_reassignments(
    image: ClusterImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Answer ListPartitionReassignments: of all topics, or of some partitions of some; the others are left
    out.
    """
    if request.topics is None:
        wanted = {topic.name: range(len(topic.partitions)) for topic in image.topics_by_name.values()}
        return _response(image, dict(sorted(wanted.items())))
    named: dict[str, set[int]] = {}
    for topic in request.topics:
        named.setdefault(topic.name, set()).update(topic.partition_indexes)
    return _response(image, named)


def _response(
    image: ClusterImage, wanted: Mapping[str, Collection[int]]
) -> ListPartitionReassignmentsResponse:
    response = ListPartitionReassignmentsResponse(error_message=None)
    for name, indexes in wanted.items():
        topic = image.topics_by_name.get(name)
        moving = _moving(topic, indexes) if topic is not None else []
        if moving:
            response.topics.append(OngoingTopicReassignment(name, moving))
    return response


def _moving(topic: TopicImage, indexes: Collection[int]) -> list[OngoingPartitionReassignment]:
    return [
        OngoingPartitionReassignment(
            partition_index=partition.index,
            replicas=list(partition.replicas),
            adding_replicas=list(partition.adding_replicas),
            removing_replicas=list(partition.removing_replicas),
        )
        for partition in topic.partitions
        if partition.is_moving and partition.index in indexes
    ]
