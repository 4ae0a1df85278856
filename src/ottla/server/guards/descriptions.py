"""Guards of descriptions and settings: topics page by page, groups, the cluster, created topics, settings. Some of
these answers tell which operations the caller may carry out (KIP-430).
"""

from dataclasses import replace
from functools import partial
from typing import Any

from ottla.controller.image import ResourceType as ConfigResourceType
from ottla.errors import ErrorCode
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from ottla.protocol.messages.group_admin import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.protocol.messages.topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.security.acl.checks import CHECKS
from ottla.security.acl.rules import ResourceType
from ottla.server.gate.handlers import RequestContext
from ottla.server.gate.rights import Rights
from ottla.server.guards.steps import Proceed, Step, by, itself, refuses_items, then


def of_settings(api: ApiKey) -> Step:
    """DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: the right depends on the kind of the resource."""
    of_topic, of_group, of_cluster = CHECKS[api]
    kinds = ((ConfigResourceType.TOPIC, of_topic), (ConfigResourceType.GROUP, of_group), (None, of_cluster))

    def step(rights: Rights, context: RequestContext, request: Any, proceed: Proceed) -> Any:
        for kind, check in kinds:
            one = refuses_items(check, "resources", partial(_resource_of, kind))
            proceed = partial(_proceed_by, one, rights, context, proceed)
        return proceed(request)

    return step


def _proceed_by(step: Step, rights: Rights, context: RequestContext, proceed: Proceed, request: Any) -> Any:
    return step(rights, context, request, proceed)


def _resource_of(kind: ConfigResourceType | None, context: RequestContext, item: Any) -> str | None:
    """The name of a resource of this kind; of any kind that has no right of its own where `kind` is None."""
    has_own = item.resource_type in (ConfigResourceType.TOPIC, ConfigResourceType.GROUP)
    is_meant = item.resource_type == kind if has_own else kind is None
    return item.resource_name if is_meant else None


def create_topics(
    rights: Rights, context: RequestContext, request: CreateTopicsRequest, proceed: Proceed
) -> Any:
    """Create the topics that the caller may create; tell the settings of those whose settings it may see."""
    creates, describes = CHECKS[ApiKey.CREATE_TOPICS]

    def masked(topic: CreatableTopicResult) -> CreatableTopicResult:
        if topic.error_code or rights.permits(context.session, describes, topic.name):
            return topic
        return CreatableTopicResult(
            topic.name, topic.topic_id, error_message=None, topic_config_error_code=describes.error
        )

    def without_settings(answer: CreateTopicsResponse) -> CreateTopicsResponse:
        return replace(answer, topics=[*map(masked, answer.topics)])

    step = refuses_items(creates, "topics", by("name"))
    return step(rights, context, request, lambda reduced: then(proceed(reduced), without_settings))


def describe_topic_partitions(
    rights: Rights, context: RequestContext, request: DescribeTopicPartitionsRequest, proceed: Proceed
) -> Any:
    """Topics that the caller may describe. The cursor goes on from one of them, too."""
    of_named, of_shown = CHECKS[ApiKey.DESCRIBE_TOPIC_PARTITIONS]
    asks_for_all, kind = not request.topics, ResourceType.TOPIC
    check = of_shown if asks_for_all else of_named
    names = (
        context.services.quorum.image.topics_by_name
        if asks_for_all
        else dict.fromkeys(topic.name for topic in request.topics)
    )
    allowed = [name for name in names if rights.permits(context.session, check, name)]
    refused = [] if asks_for_all else [name for name in names if name not in set(allowed)]
    answers = [_unseen(name, of_named.error) for name in refused]
    if not allowed:
        return DescribeTopicPartitionsResponse(topics=answers)

    def completed(answer: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsResponse:
        described = [
            replace(
                topic, topic_authorized_operations=rights.operations(context.session, kind, topic.name or "")
            )
            for topic in answer.topics
        ]
        return replace(answer, topics=[*described, *answers])

    return then(proceed(replace(request, topics=[TopicRequest(name) for name in allowed])), completed)


def _unseen(name: str, error: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=error, name=name)


def describe_cluster(
    rights: Rights, context: RequestContext, request: DescribeClusterRequest, proceed: Proceed
) -> Any:
    """Everybody may know the brokers; the operations are the caller's own."""

    def with_operations(answer: DescribeClusterResponse) -> DescribeClusterResponse:
        if not request.include_cluster_authorized_operations:
            return answer
        return replace(answer, cluster_authorized_operations=rights.cluster_operations(context.session))

    return then(proceed(request), with_operations)


def describe_groups(
    rights: Rights, context: RequestContext, request: DescribeGroupsRequest, proceed: Proceed
) -> Any:
    """Groups that the caller may describe, with the caller's operations where it asks for them."""

    def with_operations(answer: DescribeGroupsResponse) -> DescribeGroupsResponse:
        if not request.include_authorized_operations:
            return answer
        groups = [
            replace(
                group,
                authorized_operations=rights.operations(context.session, ResourceType.GROUP, group.group_id),
            )
            for group in answer.groups
        ]
        return replace(answer, groups=groups)

    step = refuses_items(CHECKS[ApiKey.DESCRIBE_GROUPS][0], "groups", itself)
    return step(rights, context, request, lambda reduced: then(proceed(reduced), with_operations))
