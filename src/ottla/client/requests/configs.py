"""Settings of topics and brokers as an administrator reads and changes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.client.calls import arguments
from ottla.client.requests.outcomes import outcome
from ottla.config.setting import WITHOUT_EFFECT
from ottla.errors import KafkaError
from ottla.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_RESOURCE_FORM: Final = 'ConfigResource(ResourceType.TOPIC, "topic")'
_CHANGE_FORM: Final = 'ConfigChange("retention.ms", "1000")'


class ResourceType(IntEnum):
    """The kind of thing that a setting belongs to."""

    TOPIC = 2
    BROKER = 4
    CLIENT_METRICS = 16


class ConfigResource(NamedTuple):
    """A topic by name, a broker by its number, or, with an empty name, all brokers; a subscription to metrics of
    clients.
    """

    type: ResourceType
    name: str


class ConfigSource(IntEnum):
    """Where a value comes from, the strongest first."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    OTHER = 0


_SOURCES: Final = frozenset(ConfigSource)


class ConfigOperation(IntEnum):
    """How a setting changes; the last two are for settings that are lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change of one setting."""

    name: str
    value: str | None = None
    operation: ConfigOperation = ConfigOperation.SET


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A setting that gives, or would give, another one its value."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting as it is in force. A sensitive one has no value to show."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None


def is_without_effect(entry: ConfigEntry) -> bool:
    """Whether an Ottla broker accepts and keeps the setting, and does nothing by it."""
    return entry.documentation is not None and entry.documentation.startswith(WITHOUT_EFFECT)


def config_resources(name: str, resources: object) -> list[ConfigResource]:
    """Resources whose settings are asked for. Raises TypeError and ValueError."""
    given = arguments.items(name, resources, ConfigResource, _RESOURCE_FORM)
    return [_resource(f"each of {name}", each) for each in given]


def config_changes(name: str, changes: object) -> dict[ConfigResource, list[ConfigChange]]:
    """Changes of settings by resource. Raises TypeError and ValueError."""
    return arguments.mapped(name, changes, _resource, _changes, f"{{{_RESOURCE_FORM}: [{_CHANGE_FORM}]}}")


def resource_type(name: str, kind: object) -> ResourceType:
    """A kind of resource. Raises TypeError."""
    if not isinstance(kind, ResourceType):
        raise TypeError(f"{name} must be a ResourceType, not {kind!r}")
    return kind


def _resource(name: str, resource: object) -> ConfigResource:
    if not isinstance(resource, ConfigResource) or not isinstance(resource.type, ResourceType):
        raise TypeError(f"{name} must be a {_RESOURCE_FORM}, not {resource!r}")
    arguments.text(f"the name of {name}", resource.name)
    return resource


def _changes(name: str, changes: object) -> list[ConfigChange]:
    given = arguments.items(name, changes, ConfigChange, _CHANGE_FORM)
    for change in given:
        arguments.name_of(f"the name of each of {name}", change.name)
        if change.value is not None:
            arguments.text(f"the value of {change.name} in {name}", change.value)
        if not isinstance(change.operation, ConfigOperation):
            raise TypeError(f"the operation of {change.name} in {name} must be a ConfigOperation")
    return given


def describe_configs_request(
    resources: Iterable[ConfigResource], names: Sequence[str] = ()
) -> DescribeConfigsRequest:
    """All settings, or those of some names."""
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=each.type, resource_name=each.name, configuration_keys=list(names) or None
            )
            for each in resources
        ],
        include_synonyms=True,
        include_documentation=True,
    )


def described_configs(
    response: DescribeConfigsResponse,
) -> dict[ConfigResource, dict[str, ConfigEntry] | KafkaError]:
    return {
        ConfigResource(ResourceType(each.resource_type), each.resource_name): outcome(
            each.error_code, {config.name: _entry(config) for config in each.configs}, each.error_message
        )
        for each in response.results
    }


def list_config_resources_request(kind: ResourceType) -> ListConfigResourcesRequest:
    return ListConfigResourcesRequest(resource_types=[kind])


def listed_config_resources(
    kind: ResourceType, response: ListConfigResourcesResponse
) -> list[ConfigResource] | KafkaError:
    resources = [ConfigResource(kind, each.resource_name) for each in response.config_resources]
    return outcome(response.error_code, resources)


def alter_configs_request(
    changes: Mapping[ConfigResource, Iterable[ConfigChange]], validate_only: bool
) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsResource(
                resource_type=resource.type,
                resource_name=resource.name,
                configs=[_alterable(each) for each in wanted],
            )
            for resource, wanted in changes.items()
        ],
        validate_only=validate_only,
    )


def altered_configs(response: IncrementalAlterConfigsResponse) -> dict[ConfigResource, KafkaError | None]:
    return {
        ConfigResource(ResourceType(each.resource_type), each.resource_name): outcome(
            each.error_code, None, each.error_message
        )
        for each in response.responses
    }


def _alterable(change: ConfigChange) -> IncrementalAlterableConfig:
    return IncrementalAlterableConfig(name=change.name, config_operation=change.operation, value=change.value)


def _entry(config: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        name=config.name,
        value=config.value,
        source=_source(config.config_source),
        is_read_only=config.read_only,
        is_sensitive=config.is_sensitive,
        synonyms=tuple(
            ConfigSynonym(each.name, each.value, _source(each.source)) for each in config.synonyms
        ),
        documentation=config.documentation,
    )


def _source(number: int) -> ConfigSource:
    """Sources that newer brokers know and we do not (loggers, groups) are OTHER."""
    return ConfigSource(number) if number in _SOURCES else ConfigSource.OTHER
