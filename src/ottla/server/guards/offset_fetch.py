"""The guard of OffsetFetch: the right to the group first, then to each topic. Where a request asks for all topics of a
group, those that the caller may not describe are left out.
"""

from dataclasses import replace
from functools import partial
from typing import Any, Final

from ottla.errors import ErrorCode
from ottla.model import NO_OFFSET
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import first_version
from ottla.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.security.acl.checks import CHECKS
from ottla.server.gate.handlers import RequestContext
from ottla.server.gate.rights import Rights
from ottla.server.guards.refusals import refusal
from ottla.server.guards.steps import Proceed, then, topic_of

_SEVERAL_GROUPS_SINCE: Final = first_version(OffsetFetchRequest, "groups")
_OF_GROUP, _OF_TOPIC, _OF_SHOWN_TOPIC = CHECKS[ApiKey.OFFSET_FETCH]


def offset_fetch(
    rights: Rights, context: RequestContext, request: OffsetFetchRequest, proceed: Proceed
) -> Any:
    """Answer about the groups and topics that the caller may describe."""
    if context.version >= _SEVERAL_GROUPS_SINCE:
        return _fetch_groups(rights, context, request, proceed)
    if not rights.permits(context.session, _OF_GROUP, request.group_id):
        return refusal(request, _OF_GROUP.error, context.version)
    if request.topics is None:
        return then(proceed(request), partial(_without_hidden, rights, context))
    allowed: list[OffsetFetchRequestTopic] = []
    refused: list[OffsetFetchRequestTopic] = []
    for topic in request.topics:
        is_allowed = rights.permits(context.session, _OF_TOPIC, topic.name)
        (allowed if is_allowed else refused).append(topic)
    answers = [_refused_topic(topic, _OF_TOPIC.error) for topic in refused]
    reduced = replace(request, topics=allowed)
    return then(proceed(reduced), lambda answer: replace(answer, topics=[*answer.topics, *answers]))


def _refused_topic(topic: OffsetFetchRequestTopic, error: ErrorCode) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        topic.name,
        [OffsetFetchResponsePartition(each, NO_OFFSET, error_code=error) for each in topic.partition_indexes],
    )


def _without_hidden(rights: Rights, context: RequestContext, answer: Any) -> Any:
    """An answer, or a group in an answer, with the topics that the caller may describe."""
    shown = [topic for topic in answer.topics if rights.permits(context.session, _OF_SHOWN_TOPIC, topic.name)]
    return replace(answer, topics=shown)


def _fetch_groups(
    rights: Rights, context: RequestContext, request: OffsetFetchRequest, proceed: Proceed
) -> Any:
    allowed: list[OffsetFetchRequestGroup] = []
    refused: list[OffsetFetchResponseGroup] = []
    refused_topics: list[list[OffsetFetchResponseTopics] | None] = []
    for group in request.groups:
        if not rights.permits(context.session, _OF_GROUP, group.group_id):
            refused.append(OffsetFetchResponseGroup(group.group_id, error_code=_OF_GROUP.error))
            continue
        reduced, topics = _reduced(rights, context, group)
        allowed.append(reduced)
        refused_topics.append(topics)

    def completed(answer: OffsetFetchResponse) -> OffsetFetchResponse:
        groups = [
            _without_hidden(rights, context, group)
            if topics is None
            else replace(group, topics=[*group.topics, *(() if group.error_code else topics)])
            for group, topics in zip(answer.groups, refused_topics, strict=True)
        ]
        return replace(answer, groups=[*groups, *refused])

    return then(proceed(replace(request, groups=allowed)), completed)


def _reduced(
    rights: Rights, context: RequestContext, group: OffsetFetchRequestGroup
) -> tuple[OffsetFetchRequestGroup, list[OffsetFetchResponseTopics] | None]:
    """What is left of the question about a group, and the refused topics; None where all topics are asked for."""
    if group.topics is None:
        return group, None
    allowed: list[OffsetFetchRequestTopics] = []
    refused: list[OffsetFetchResponseTopics] = []
    for topic in group.topics:
        name = topic_of(context, topic)
        if name is None or rights.permits(context.session, _OF_TOPIC, name):
            allowed.append(topic)
        else:
            refused.append(_refused_topic_of_group(topic))
    return replace(group, topics=allowed), refused


def _refused_topic_of_group(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        topic.name,
        topic.topic_id,
        [
            OffsetFetchResponsePartitions(each, NO_OFFSET, error_code=_OF_TOPIC.error)
            for each in topic.partition_indexes
        ],
    )
