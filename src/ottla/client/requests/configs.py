"""Settings of topics and brokers as an administrator reads and changes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from ottla.client.requests.outcomes import outcome
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
)


class ResourceType(IntEnum):
    """The kind of thing that a setting belongs to."""

    TOPIC = 2
    BROKER = 4


class ConfigResource(NamedTuple):
    """A topic by name, a broker by its number, or, with an empty name, all brokers."""

    type: ResourceType
    name: str


class ConfigSource(IntEnum):
    """Where a value comes from, the strongest first."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    OTHER = 0


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


def describe_configs_request(resources: Iterable[ConfigResource]) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=each.type, resource_name=each.name, configuration_keys=None)
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
    """Sources that newer brokers know and we do not (loggers, client metrics, groups) are OTHER."""
    return ConfigSource(number) if 1 <= number <= 5 else ConfigSource.OTHER
