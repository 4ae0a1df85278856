"""Offsets of groups: OffsetCommit 2 to 10, OffsetFetch 1 to 10.

From version 10 on topics come by id (KIP-848). The coordinator knows names only: ids become names on the way in, and
names become ids on the way out.
"""

from uuid import UUID

from ottla.controller.image import ClusterImage
from ottla.errors import ErrorCode
from ottla.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from ottla.server.apis.groups import ask_shard_now
from ottla.server.dispatch import RequestContext

_FIRST_TOPIC_ID_VERSION = 10
_FIRST_BATCH_VERSION = 8
_NO_OFFSET = -1


async def offset_commit(context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Keep how far a group has come. Topics that do not exist are refused here, the rest is the coordinator's."""
    image = context.services.quorum.image
    known: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        error = _name_topic(image, context.version, topic)
        if error:
            refused.append(_refused_commit(topic, error))
        else:
            known.append(topic)
    request.topics = known
    response: OffsetCommitResponse = await ask_shard_now(context, request.group_id, request)
    for answered in response.topics:
        answered.topic_id = _id_of(image, answered.name)
    response.topics += refused
    return response


def _name_topic(image: ClusterImage, version: int, topic: OffsetCommitRequestTopic) -> ErrorCode:
    if version < _FIRST_TOPIC_ID_VERSION:
        known = topic.name in image.topics_by_name
        return ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found = image.topics_by_id.get(topic.topic_id)
    if found is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    topic.name = found.name
    return ErrorCode.NONE


def _refused_commit(topic: OffsetCommitRequestTopic, error: ErrorCode) -> OffsetCommitResponseTopic:
    partitions = [OffsetCommitResponsePartition(p.partition_index, error) for p in topic.partitions]
    return OffsetCommitResponseTopic(topic.name, topic.topic_id, partitions)


def _id_of(image: ClusterImage, name: str) -> UUID:
    topic = image.topics_by_name.get(name)
    return UUID(int=0) if topic is None else topic.topic_id


async def offset_fetch(context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """How far groups have come."""
    if context.version < _FIRST_BATCH_VERSION:
        answer: OffsetFetchResponse = await ask_shard_now(context, request.group_id, request)
        return answer
    response = OffsetFetchResponse()
    for group in request.groups:
        response.groups.append(await _fetch_group(context, request, group))
    return response


async def _fetch_group(
    context: RequestContext, request: OffsetFetchRequest, group: OffsetFetchRequestGroup
) -> OffsetFetchResponseGroup:
    image = context.services.quorum.image
    unknown = _name_topics(image, context.version, group)
    one = OffsetFetchRequest(groups=[group], require_stable=request.require_stable)
    answer: OffsetFetchResponse = await ask_shard_now(context, group.group_id, one)
    fetched = answer.groups[0]
    if context.version >= _FIRST_TOPIC_ID_VERSION:
        # Offsets of a topic that was deleted have no id that a client could know them by.
        fetched.topics = [topic for topic in fetched.topics if topic.name in image.topics_by_name]
        for topic in fetched.topics:
            topic.topic_id = _id_of(image, topic.name)
        fetched.topics += [_unknown_topic(topic) for topic in unknown]
    return fetched


def _name_topics(
    image: ClusterImage, version: int, group: OffsetFetchRequestGroup
) -> list[OffsetFetchRequestTopics]:
    """Give topics their names; take those that have none out and answer them."""
    if version < _FIRST_TOPIC_ID_VERSION or group.topics is None:
        return []
    unknown = [topic for topic in group.topics if topic.topic_id not in image.topics_by_id]
    group.topics = [topic for topic in group.topics if topic.topic_id in image.topics_by_id]
    for topic in group.topics:
        topic.name = image.topics_by_id[topic.topic_id].name
    return unknown


def _unknown_topic(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    partitions = [
        OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=_NO_OFFSET, error_code=ErrorCode.UNKNOWN_TOPIC_ID
        )
        for index in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=partitions)
