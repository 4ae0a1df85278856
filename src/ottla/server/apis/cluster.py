"""Descriptions read off the cluster image (CTL-6): Metadata 0 to 13, DescribeCluster 0 to 2,
DescribeTopicPartitions 0, DescribeConfigs 1 to 4, ListConfigResources 0 to 1, ListPartitionReassignments 0.

Metadata may create the topics it is asked for (`auto.create.topics.enable`). As in Kafka, the request that
finds a topic missing is answered so, and the next one finds the topic.
"""

from collections.abc import Awaitable, Iterator

from ottla.config import ConfigType
from ottla.controller.config_sources import BrokerSettings, ConfigSource
from ottla.controller.describe import cluster, configs, reassignments
from ottla.controller.image import ClusterImage, ResourceType
from ottla.model import BROKER_DEFAULT
from ottla.protocol.messages.cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from ottla.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.messages.partitions import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from ottla.runtime.clock import monotonic_ms
from ottla.runtime.turns import in_turns
from ottla.server.apis.shown_clients import asks_for_clients, shown_clients
from ottla.server.gate.handlers import ApiFamily, RequestContext

api = ApiFamily()

_CREATE_TIMEOUT_MS = 10_000


@api.handles(MetadataRequest)
def metadata(context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    """Brokers and topics; has missing topics created where client and broker both want that."""
    config = context.services.config
    answer = cluster.metadata_response(
        _shown_image(context),
        request,
        context.version,
        listener_name=context.session.advertised_listener,
        controller_id=_controller_id(context),
        auto_create=config.topics.auto_create_enable,
    )
    rights = context.services.rights
    if rights is not None:
        # Imported here: most brokers check no rights.
        from ottla.server.apis.shown_topics import permitted

        answer = permitted(rights, context, request, answer)
    if answer.to_create:
        context.services.quorum.submit_soon(_creation(answer.to_create), context.asker)
    return answer.response


def _shown_image(context: RequestContext) -> ClusterImage:
    """What clients are told. A broker that stays behind, for lack of room, does not know whether it leads anything:
    clients should ask others.
    """
    quorum = context.services.quorum
    return quorum.image.without(quorum.node_id) if quorum.is_frozen else quorum.image


def _creation(names: list[str]) -> CreateTopicsRequest:
    topics = [
        CreatableTopic(name=name, num_partitions=BROKER_DEFAULT, replication_factor=BROKER_DEFAULT)
        for name in names
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=_CREATE_TIMEOUT_MS)


@api.handles(DescribeClusterRequest)
def describe_cluster(context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """The brokers of the cluster."""
    return cluster.describe_cluster(
        context.services.quorum.image,
        request,
        listener_name=context.session.advertised_listener,
        controller_id=_controller_id(context),
    )


def _controller_id(context: RequestContext) -> int:
    """Whom clients should give commands to: the controller if they can reach it, else this broker, which
    hands them on.
    """
    quorum = context.services.quorum
    controller = quorum.image.brokers.get(quorum.controller_id)
    if controller is not None and not controller.is_fenced:
        return controller.node_id
    return quorum.node_id


@api.handles(DescribeTopicPartitionsRequest)
def describe_topic_partitions(
    context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Topics, page by page."""
    config = context.services.config
    return cluster.describe_topic_partitions(
        context.services.quorum.image,
        request,
        listener_name=context.session.advertised_listener,
        limit=config.topics.max_request_partition_size_limit,
    )


@api.handles(DescribeConfigsRequest)
def describe_configs(
    context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse | Awaitable[DescribeConfigsResponse]:
    """Settings with their sources and synonyms; the clients that push metrics, for those who ask."""
    config = context.services.config
    image = context.services.quorum.image
    settings = BrokerSettings(image, config.node.id, config)
    response = configs.describe_configs(image, request, settings, node_id=config.node.id)
    for asked, result in zip(request.resources, response.results, strict=True):
        if asked.resource_type == ResourceType.BROKER and asked.resource_name == str(config.node.id):
            result.configs += _load_entries(context, asked.configuration_keys, request.include_documentation)
            if asks_for_clients(asked.configuration_keys):
                return _with_clients(context, response, result, asked.configuration_keys or [])
    return response


async def _with_clients(
    context: RequestContext,
    response: DescribeConfigsResponse,
    result: DescribeConfigsResult,
    names: list[str],
) -> DescribeConfigsResponse:
    await in_turns(_add_clients(context, result.configs, names))
    return response


def _add_clients(
    context: RequestContext, configs: list[DescribeConfigsResourceResult], names: list[str]
) -> Iterator[None]:
    for name, value in shown_clients(context.services.client_metrics, names, monotonic_ms()):
        source = ConfigSource.STATIC_BROKER_CONFIG
        configs.append(
            DescribeConfigsResourceResult(
                name=name, value=value, read_only=True, config_source=source, config_type=ConfigType.STRING
            )
        )
        yield


def _load_entries(
    context: RequestContext, names: list[str] | None, include_documentation: bool
) -> list[DescribeConfigsResourceResult]:
    """The load of this broker (CTL-8), as read-only settings."""
    return [
        DescribeConfigsResourceResult(
            name=entry.name,
            value=entry.value,
            read_only=True,
            config_source=ConfigSource.STATIC_BROKER_CONFIG,
            config_type=entry.type,
            documentation=entry.doc if include_documentation else None,
        )
        for entry in context.services.load.entries()
        if not names or entry.name in names
    ]


@api.handles(ListConfigResourcesRequest)
def list_config_resources(
    context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """The resources that have settings."""
    return configs.list_config_resources(context.services.quorum.image, request, context.version)


@api.handles(ListPartitionReassignmentsRequest)
def list_partition_reassignments(
    context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """The reassignments under way."""
    return reassignments.list_partition_reassignments(context.services.quorum.image, request)
