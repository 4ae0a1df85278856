"""The topics of a Metadata answer that its caller may see, and may have created.

A topic that the caller may not describe is left out of an answer about all topics. Where the request names the topic,
the answer has an error and neither id nor partitions: the caller does not learn whether the topic exists. A topic
that the request has by its id is not named.
"""

from dataclasses import replace
from typing import Final

from ottla.controller.describe.cluster import MetadataAnswer
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import ZERO_UUID, first_nullable_version
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponseTopic
from ottla.security.acl.checks import CHECKS
from ottla.security.acl.rules import ResourceType
from ottla.server.gate.handlers import RequestContext
from ottla.server.gate.rights import Rights
from ottla.server.gate.session import Session

_OF_NAMED, _OF_SHOWN, _OF_CREATED, _ = CHECKS[ApiKey.METADATA]
_NULL_TOPICS_SINCE: Final = first_nullable_version(MetadataRequest, "topics")


def permitted(
    rights: Rights, context: RequestContext, request: MetadataRequest, answer: MetadataAnswer
) -> MetadataAnswer:
    """An answer, reduced to the caller's rights."""
    session, response = context.session, answer.response
    if request.topics is None or (not request.topics and context.version < _NULL_TOPICS_SINCE):
        topics = [topic for topic in response.topics if rights.permits(session, _OF_SHOWN, topic.name or "")]
        to_create: list[str] = []
    else:
        ids = {topic.topic_id for topic in request.topics if topic.topic_id != ZERO_UUID}
        seen = {
            name: rights.permits(session, _OF_NAMED, name)
            for topic in response.topics
            if (name := topic.name) is not None
        }
        to_create = [
            name for name in answer.to_create if seen[name] and rights.permits(session, _OF_CREATED, name)
        ]
        missing = set(answer.to_create).difference(to_create)
        topics = [
            topic
            if topic.name is None or (seen[topic.name] and topic.name not in missing)
            else _unseen(topic, is_by_id=topic.topic_id in ids)
            for topic in response.topics
        ]
    if request.include_topic_authorized_operations:
        topics = [_with_operations(rights, session, topic) for topic in topics]
    if request.include_cluster_authorized_operations:
        response = replace(response, cluster_authorized_operations=rights.cluster_operations(session))
    return MetadataAnswer(replace(response, topics=topics), to_create)


def _with_operations(rights: Rights, session: Session, topic: MetadataResponseTopic) -> MetadataResponseTopic:
    if topic.error_code or topic.name is None:
        return topic
    operations = rights.operations(session, ResourceType.TOPIC, topic.name)
    return replace(topic, topic_authorized_operations=operations)


def _unseen(topic: MetadataResponseTopic, *, is_by_id: bool) -> MetadataResponseTopic:
    if is_by_id:
        return MetadataResponseTopic(error_code=_OF_NAMED.error, name=None, topic_id=topic.topic_id)
    return MetadataResponseTopic(error_code=_OF_NAMED.error, name=topic.name)
