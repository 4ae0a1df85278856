"""Descriptions of the cluster, each a function of an image: brokers answer them from their own cache (CTL-6).

Metadata, versions 0 to 13; DescribeCluster, versions 0 to 2 (KIP-700, KIP-919, KIP-1073);
DescribeTopicPartitions, version 0 (KIP-966). A broker that is fenced is not shown to clients, and what it
leads has no leader. A replica that cannot be read is offline, as one on a broken disk is with Kafka.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple
from uuid import UUID

from ottla.controller.image import (
    INTERNAL_TOPICS,
    BrokerImage,
    ClusterImage,
    Endpoint,
    PartitionImage,
    TopicImage,
)
from ottla.controller.topic_names import is_topic_name
from ottla.errors import ErrorCode
from ottla.model import NO_LEADER
from ottla.protocol.codec import ZERO_UUID, first_nullable_version
from ottla.protocol.messages.cluster import (
    Cursor,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.protocol.messages.metadata import (
    BY_TOPIC_ID_SINCE,
    NO_AUTHORIZED_OPERATIONS,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_NULL_TOPICS_SINCE: Final = first_nullable_version(MetadataRequest, "topics")

# Without an authorizer every client may do everything: one bit for each operation that the resource knows.
# read 3, write 4, create 5, delete 6, alter 7, describe 8, cluster action 9, describe configs 10, alter
# configs 11, idempotent write 12
_ALL_TOPIC_OPERATIONS: Final = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
_ALL_CLUSTER_OPERATIONS: Final = sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))

_BROKER_ENDPOINTS: Final = 1
_CONTROLLER_ENDPOINTS: Final = 2


class MetadataAnswer(NamedTuple):
    """A response, and the topics that it named, that do not exist, and that may be created for the client."""

    response: MetadataResponse
    to_create: list[str]


class _PartitionState(NamedTuple):
    """A partition as clients of one listener see it: the fields of Metadata, in its order."""

    error_code: ErrorCode
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: list[int]
    isr_nodes: list[int]
    offline_replicas: list[int]


def metadata_response(
    image: ClusterImage,
    request: MetadataRequest,
    version: int,
    *,
    listener_name: str,
    controller_id: int,
    auto_create: bool,
) -> MetadataAnswer:
    """Answer Metadata. `auto_create` is the broker's setting; the client's wish is in the request."""
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(broker.node_id, endpoint.host, endpoint.port, broker.rack)
            for broker, endpoint in _reachable(image, listener_name)
        ],
        cluster_id=image.cluster_id,
        controller_id=controller_id,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = _ALL_CLUSTER_OPERATIONS
    if version < BY_TOPIC_ID_SINCE and any(map(_needs_id, request.topics or ())):
        response.error_code = ErrorCode.INVALID_REQUEST
        response.topics = [_invalid_topic(topic) for topic in request.topics or ()]
        return MetadataAnswer(response, [])
    response.topics = _metadata_topics(image, request, version, listener_name)
    may_create = auto_create and request.allow_auto_topic_creation
    return MetadataAnswer(response, _creatable(response.topics) if may_create else [])


def _metadata_topics(
    image: ClusterImage, request: MetadataRequest, version: int, listener_name: str
) -> list[MetadataResponseTopic]:
    wanted = request.topics
    if wanted is None or (not wanted and version < _NULL_TOPICS_SINCE):
        everything = sorted(image.topics_by_name.items())
        topics = [_metadata_topic(image, topic, listener_name) for _, topic in everything]
    else:
        distinct = {(topic.topic_id, topic.name): topic for topic in wanted}
        topics = [_asked_topic(image, topic, listener_name) for topic in distinct.values()]
    if request.include_topic_authorized_operations:
        for topic in topics:
            topic.topic_authorized_operations = _ALL_TOPIC_OPERATIONS
    return topics


def _needs_id(topic: MetadataRequestTopic) -> bool:
    return topic.name is None or topic.topic_id != ZERO_UUID


def _invalid_topic(topic: MetadataRequestTopic) -> MetadataResponseTopic:
    return _error_topic(topic.name or "", topic.topic_id, ErrorCode.INVALID_REQUEST)


def _asked_topic(
    image: ClusterImage, wanted: MetadataRequestTopic, listener_name: str
) -> MetadataResponseTopic:
    if wanted.topic_id != ZERO_UUID:
        topic = image.topics_by_id.get(wanted.topic_id)
        error = ErrorCode.UNKNOWN_TOPIC_ID
    elif wanted.name is None:
        return _error_topic(None, ZERO_UUID, ErrorCode.INVALID_REQUEST)
    else:
        topic = image.topics_by_name.get(wanted.name)
        error = _missing_error(wanted.name)
    if topic is not None:
        return _metadata_topic(image, topic, listener_name)
    by_id = wanted.topic_id != ZERO_UUID
    return _error_topic(None if by_id else wanted.name, wanted.topic_id, error)


def _missing_error(name: str) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_topic_name(name) else ErrorCode.INVALID_TOPIC_EXCEPTION


def _error_topic(name: str | None, topic_id: UUID, error: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error, name=name, topic_id=topic_id, is_internal=name in INTERNAL_TOPICS
    )


def _creatable(topics: list[MetadataResponseTopic]) -> list[str]:
    """The requested names that are allowed and missing; internal topics are created by the coordinators that
    need them.
    """
    return [
        topic.name
        for topic in topics
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and topic.name and not topic.is_internal
    ]


def _metadata_topic(image: ClusterImage, topic: TopicImage, listener_name: str) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            MetadataResponsePartition(*_state_of(image, partition, listener_name))
            for partition in topic.partitions
        ],
    )


def _state_of(image: ClusterImage, partition: PartitionImage, listener_name: str) -> _PartitionState:
    error, leader = ErrorCode.NONE, partition.leader
    if not _is_live(image, leader):
        error, leader = ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
    elif image.brokers[leader].endpoint(listener_name) is None:
        error, leader = ErrorCode.LISTENER_NOT_FOUND, NO_LEADER
    return _PartitionState(
        error,
        partition.index,
        leader,
        partition.leader_epoch,
        list(partition.replicas),
        list(partition.isr),
        [
            node_id
            for node_id in partition.replicas
            if not _is_live(image, node_id) or partition.is_damaged_on(node_id)
        ],
    )


def _is_live(image: ClusterImage, node_id: int) -> bool:
    broker = image.brokers.get(node_id)
    return broker is not None and not broker.is_fenced


def _reachable(
    image: ClusterImage, listener_name: str, include_fenced: bool = False
) -> Iterator[tuple[BrokerImage, Endpoint]]:
    for _, broker in sorted(image.brokers.items()):
        endpoint = broker.endpoint(listener_name)
        if endpoint is not None and (include_fenced or not broker.is_fenced):
            yield broker, endpoint


def describe_cluster(
    image: ClusterImage, request: DescribeClusterRequest, *, listener_name: str, controller_id: int
) -> DescribeClusterResponse:
    """Answer DescribeCluster: the brokers that can be reached through one listener."""
    if request.endpoint_type != _BROKER_ENDPOINTS:
        known = request.endpoint_type == _CONTROLLER_ENDPOINTS
        error = ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        return DescribeClusterResponse(error_code=error, error_message=error.message)
    asked = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=controller_id,
        brokers=[
            DescribeClusterBroker(broker.node_id, endpoint.host, endpoint.port, broker.rack, broker.is_fenced)
            for broker, endpoint in _reachable(image, listener_name, request.include_fenced_brokers)
        ],
        cluster_authorized_operations=_ALL_CLUSTER_OPERATIONS if asked else NO_AUTHORIZED_OPERATIONS,
    )


def describe_topic_partitions(
    image: ClusterImage, request: DescribeTopicPartitionsRequest, *, listener_name: str, limit: int
) -> DescribeTopicPartitionsResponse:
    """Answer DescribeTopicPartitions: topics by name, up to a number of partitions, then a cursor to go on
    from.
    """
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        return _refused_description(request)
    names = sorted({topic.name for topic in request.topics} or image.topics_by_name)
    left = max(1, min(limit, request.response_partition_limit))
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if cursor is not None and name < cursor.topic_name:
            continue
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        if left == 0:
            response.next_cursor = Cursor(name, first)
            break
        described, is_whole = _described_topic(image, name, first, left, listener_name)
        response.topics.append(described)
        left -= len(described.partitions)
        if not is_whole:
            response.next_cursor = Cursor(name, first + len(described.partitions))
            break
    return response


def _refused_description(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    error = ErrorCode.INVALID_REQUEST
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=error, name=topic.name)
            for topic in request.topics
        ]
    )


def _described_topic(
    image: ClusterImage, name: str, first: int, limit: int, listener_name: str
) -> tuple[DescribeTopicPartitionsResponseTopic, bool]:
    topic = image.topics_by_name.get(name)
    if topic is None:
        missing = DescribeTopicPartitionsResponseTopic(
            error_code=_missing_error(name),
            name=name,
            is_internal=name in INTERNAL_TOPICS,
            topic_authorized_operations=_ALL_TOPIC_OPERATIONS,
        )
        return missing, True
    described = DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            _described_partition(image, partition, listener_name)
            for partition in topic.partitions[first : first + limit]
        ],
        topic_authorized_operations=_ALL_TOPIC_OPERATIONS,
    )
    return described, first + limit >= len(topic.partitions)


def _described_partition(
    image: ClusterImage, partition: PartitionImage, listener_name: str
) -> DescribeTopicPartitionsResponsePartition:
    state = _state_of(image, partition, listener_name)
    # Empty and not null, which Kafka's definition would allow: Java's client fails on null.
    last_known = [] if partition.last_known_leader == NO_LEADER else [partition.last_known_leader]
    return DescribeTopicPartitionsResponsePartition(
        *state[:-1], list(partition.elr), last_known, state.offline_replicas
    )
