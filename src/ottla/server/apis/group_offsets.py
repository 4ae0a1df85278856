"""Offsets of groups: OffsetCommit 2 to 10, OffsetFetch 1 to 10, OffsetDelete 0.

From version 10 on topics come by id (KIP-848). The coordinator knows names only: ids become names on the way
in, and names become ids on the way out.
"""

from collections.abc import Awaitable
from inspect import isawaitable
from typing import Final
from uuid import UUID

from ottla.controller.image import ClusterImage, TopicImage
from ottla.errors import ErrorCode
from ottla.model import NO_OFFSET
from ottla.protocol.codec import ZERO_UUID, first_version
from ottla.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from ottla.server.apis.groups import answered, ask_shard
from ottla.server.gate.handlers import ApiFamily, RequestContext

api = ApiFamily()

_TOPIC_IDS_SINCE: Final = first_version(OffsetCommitRequestTopic, "topic_id")
_SEVERAL_GROUPS_SINCE: Final = first_version(OffsetFetchRequest, "groups")


@api.handles(OffsetCommitRequest)
def offset_commit(
    context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    """Commit offsets. Partitions that do not exist are refused here; the coordinator decides on the
    others.
    """
    refused = _take_out_unknown(context.services.quorum.image, context.version, request)
    answer = ask_shard(context, request.group_id, request)
    if isawaitable(answer):
        return _with_refused_later(answer, refused)
    return _with_refused(answer, refused)


def _with_refused(
    response: OffsetCommitResponse, refused: list[OffsetCommitResponseTopic]
) -> OffsetCommitResponse:
    """One answer for each topic, also where some of its partitions were refused here and some accepted
    there.
    """
    answered = {(topic.name, topic.topic_id): topic for topic in response.topics} if refused else {}
    for topic in refused:
        other = answered.get((topic.name, topic.topic_id))
        if other is None:
            response.topics.append(topic)
        else:
            other.partitions += topic.partitions
    return response


async def _with_refused_later(
    answer: Awaitable[OffsetCommitResponse], refused: list[OffsetCommitResponseTopic]
) -> OffsetCommitResponse:
    return _with_refused(await answer, refused)


def _take_out_unknown(
    image: ClusterImage, version: int, request: OffsetCommitRequest
) -> list[OffsetCommitResponseTopic]:
    """Give topics their names and ids; take those topics and partitions out of the request that do not
    exist.
    """
    refused: list[OffsetCommitResponseTopic] = []
    known: list[OffsetCommitRequestTopic] = []
    by_id = version >= _TOPIC_IDS_SINCE
    for topic in request.topics:
        found = image.topics_by_id.get(topic.topic_id) if by_id else image.topics_by_name.get(topic.name)
        if found is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused.append(_refused_commit(topic, [p.partition_index for p in topic.partitions], error))
            continue
        # Both go into the record: Kafka's has the id, too, however old the request is.
        topic.name, topic.topic_id = found.name, found.topic_id
        missing = _take_out_missing_partitions(found, topic)
        if missing:
            refused.append(_refused_commit(topic, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if topic.partitions:
            known.append(topic)
    if refused:
        request.topics = known
    return refused


def _take_out_missing_partitions(found: TopicImage, topic: OffsetCommitRequestTopic) -> list[int]:
    count = len(found.partitions)
    missing = [p.partition_index for p in topic.partitions if not 0 <= p.partition_index < count]
    if missing:
        topic.partitions = [p for p in topic.partitions if 0 <= p.partition_index < count]
    return missing


def _refused_commit(
    topic: OffsetCommitRequestTopic, partitions: list[int], error: ErrorCode
) -> OffsetCommitResponseTopic:
    answers = [OffsetCommitResponsePartition(index, error) for index in partitions]
    return OffsetCommitResponseTopic(topic.name, topic.topic_id, answers)


@api.handles(OffsetDeleteRequest)
def offset_delete(
    context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    """Delete offsets. Partitions that do not exist are refused here; the coordinator decides on the
    others.
    """
    unknown = _take_out_undeletable(context.services.quorum.image, request)
    answer = ask_shard(context, request.group_id, request)
    if isawaitable(answer):
        return _with_unknown_later(answer, unknown)
    return _with_unknown(answer, unknown)


def _take_out_undeletable(
    image: ClusterImage, request: OffsetDeleteRequest
) -> list[OffsetDeleteResponseTopic]:
    """Take topics and partitions that do not exist out of the request."""
    unknown: list[OffsetDeleteResponseTopic] = []
    known: list[OffsetDeleteRequestTopic] = []
    for topic in request.topics:
        found = image.topics_by_name.get(topic.name)
        count = 0 if found is None else len(found.partitions)
        exists = [0 <= item.partition_index < count for item in topic.partitions]
        missing = [
            OffsetDeleteResponsePartition(item.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            for item, there in zip(topic.partitions, exists, strict=True)
            if not there
        ]
        if missing:
            unknown.append(OffsetDeleteResponseTopic(topic.name, missing))
        topic.partitions = [item for item, there in zip(topic.partitions, exists, strict=True) if there]
        if topic.partitions:
            known.append(topic)
    request.topics = known
    return unknown


def _with_unknown(
    response: OffsetDeleteResponse, unknown: list[OffsetDeleteResponseTopic]
) -> OffsetDeleteResponse:
    """One answer for each topic, also where some of its partitions exist and some do not."""
    answered = {topic.name: topic for topic in response.topics}
    for topic in unknown if not response.error_code else ():
        if topic.name in answered:
            answered[topic.name].partitions += topic.partitions
        else:
            response.topics.append(topic)
    return response


async def _with_unknown_later(
    answer: Awaitable[OffsetDeleteResponse], unknown: list[OffsetDeleteResponseTopic]
) -> OffsetDeleteResponse:
    return _with_unknown(await answer, unknown)


@api.handles(OffsetFetchRequest)
async def offset_fetch(context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """How far groups have come."""
    if context.version < _SEVERAL_GROUPS_SINCE:
        answer: OffsetFetchResponse = await answered(ask_shard(context, request.group_id, request))
        return answer
    groups = [await _fetch_group(context, request, group) for group in request.groups]
    return OffsetFetchResponse(groups=groups)


async def _fetch_group(
    context: RequestContext, request: OffsetFetchRequest, group: OffsetFetchRequestGroup
) -> OffsetFetchResponseGroup:
    image = context.services.quorum.image
    unknown = _name_topics(image, context.version, group)
    one = OffsetFetchRequest(groups=[group], require_stable=request.require_stable)
    answer: OffsetFetchResponse = await answered(ask_shard(context, group.group_id, one))
    fetched = answer.groups[0]
    if context.version >= _TOPIC_IDS_SINCE:
        # Offsets of a topic that was deleted have no id that a client could know them by.
        fetched.topics = [topic for topic in fetched.topics if topic.name in image.topics_by_name]
        for topic in fetched.topics:
            topic.topic_id = _id_of(image, topic.name)
        if not fetched.error_code:
            fetched.topics += [_unknown_topic(topic) for topic in unknown]
    return fetched


def _id_of(image: ClusterImage, name: str) -> UUID:
    topic = image.topics_by_name.get(name)
    return ZERO_UUID if topic is None else topic.topic_id


def _name_topics(
    image: ClusterImage, version: int, group: OffsetFetchRequestGroup
) -> list[OffsetFetchRequestTopics]:
    """Give topics their names; take those that have none out and answer them."""
    if version < _TOPIC_IDS_SINCE or group.topics is None:
        return []
    unknown = [topic for topic in group.topics if topic.topic_id not in image.topics_by_id]
    group.topics = [topic for topic in group.topics if topic.topic_id in image.topics_by_id]
    for topic in group.topics:
        topic.name = image.topics_by_id[topic.topic_id].name
    return unknown


def _unknown_topic(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    partitions = [
        OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=NO_OFFSET, error_code=ErrorCode.UNKNOWN_TOPIC_ID
        )
        for index in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=partitions)
