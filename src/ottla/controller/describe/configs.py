"""Descriptions of settings: DescribeConfigs, versions 1 to 4 (KIP-133, KIP-226, KIP-569), and
ListConfigResources, versions 0 and 1 (KIP-714, KIP-1142). Every setting is shown, with its source, all places
that give it a value, its type and its meaning.
"""

from collections.abc import Iterator
from typing import Final

from ottla.controller.config_sources import BrokerSettings, ConfigEntry, client_metrics_resources
from ottla.controller.configs import check_config_resource
from ottla.controller.image import ClusterImage, ConfigResource, ResourceType
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.codec import first_version
from ottla.protocol.messages.configs import ConfigResource as ListedResource
from ottla.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_RESOURCE_TYPES_SINCE: Final = first_version(ListConfigResourcesRequest, "resource_types")
_LISTED_TYPES: Final = frozenset(
    {
        ResourceType.TOPIC,
        ResourceType.BROKER,
        ResourceType.BROKER_LOGGER,
        ResourceType.CLIENT_METRICS,
        ResourceType.GROUP,
    }
)


def describe_configs(
    image: ClusterImage, request: DescribeConfigsRequest, settings: BrokerSettings, *, node_id: int
) -> DescribeConfigsResponse:
    """Answer DescribeConfigs. `settings` are those of the broker that answers, `node_id`."""
    results = []
    for item in request.resources:
        result = DescribeConfigsResult(
            error_message=None, resource_type=item.resource_type, resource_name=item.resource_name
        )
        try:
            result.configs = [
                _shown(entry, request) for entry in _asked_entries(image, item, settings, node_id)
            ]
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        results.append(result)
    return DescribeConfigsResponse(results=results)


def _asked_entries(
    image: ClusterImage, item: DescribeConfigsResource, settings: BrokerSettings, node_id: int
) -> Iterator[ConfigEntry]:
    resource = ConfigResource(item.resource_type, item.resource_name)
    check_config_resource(image, resource)
    for entry in _entries(image, resource, settings, node_id):
        if not item.configuration_keys or entry.setting.name in item.configuration_keys:
            yield entry


def _entries(
    image: ClusterImage, resource: ConfigResource, settings: BrokerSettings, node_id: int
) -> Iterator[ConfigEntry]:
    if resource.type == ResourceType.TOPIC:
        return settings.topic_entries(image.config_of(*resource))
    if resource.type == ResourceType.CLIENT_METRICS:
        return settings.client_metrics_entries(image.config_of(*resource))
    if not resource.name:
        return settings.default_entries()
    if resource.name != str(node_id):
        # The settings a broker was started with are known to that broker alone.
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Broker {node_id} cannot describe broker {resource.name}: ask that one.",
        )
    return settings.broker_entries()


def _shown(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.setting.name,
        value=None if entry.is_sensitive else entry.value,
        is_sensitive=entry.is_sensitive,
        read_only=not entry.setting.dynamic,
        config_source=entry.source,
        synonyms=[
            DescribeConfigsSynonym(name, None if entry.is_sensitive else value, source)
            for name, value, source in synonyms
        ],
        config_type=entry.setting.type,
        documentation=entry.setting.doc if request.include_documentation else None,
    )


def list_config_resources(
    image: ClusterImage, request: ListConfigResourcesRequest, version: int
) -> ListConfigResourcesResponse:
    """Answer ListConfigResources: what can be described. Version 0 asks for client metrics only."""
    types = set(request.resource_types) or set(_LISTED_TYPES)
    if version < _RESOURCE_TYPES_SINCE:
        types = {ResourceType.CLIENT_METRICS}
    if not types <= _LISTED_TYPES:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    listed = []
    if ResourceType.TOPIC in types:
        listed += [ListedResource(name, ResourceType.TOPIC) for name in sorted(image.topics_by_name)]
    if ResourceType.BROKER in types:
        listed += [ListedResource(str(node_id), ResourceType.BROKER) for node_id in sorted(image.brokers)]
    if ResourceType.CLIENT_METRICS in types:
        names = sorted(client_metrics_resources(image))
        listed += [ListedResource(name, ResourceType.CLIENT_METRICS) for name in names]
    return ListConfigResourcesResponse(config_resources=listed)
