"""Changing settings of topics, brokers and subscriptions to metrics of clients.

AlterConfigs, versions 0 to 2 (KIP-133): what a request does not name goes back to its default.
IncrementalAlterConfigs, versions 0 and 1 (KIP-339): set, delete, append to and subtract from lists.
A change is judged as a whole: the settings that would result must be usable together.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from ottla.config import BrokerConfig, ConfigError, ConfigType, Setting, TopicConfig
from ottla.config.client_metrics import ClientMetricsConfig
from ottla.config.setting import settings_by_name
from ottla.controller.config_sources import BrokerSettings
from ottla.controller.decision import Decision, repeated
from ottla.controller.eligible_leaders import with_eligible_leaders
from ottla.controller.image import ClusterImage, ConfigResource, ResourceType
from ottla.controller.partition_changes import change_record
from ottla.controller.records import ConfigRecord
from ottla.controller.topic_names import check_topic_name
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

_MIN_ISR: Final = "min.insync.replicas"
_ALL_BROKERS: Final = ConfigResource(ResourceType.BROKER, "")
_CONFIGS: Final[Mapping[int, type]] = {
    ResourceType.TOPIC: TopicConfig,
    ResourceType.CLIENT_METRICS: ClientMetricsConfig,
}


class ConfigOperation(IntEnum):
    """The operations of IncrementalAlterConfigs on a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class _Outcome(NamedTuple):
    """The outcome for one resource: the fields of both responses, in their order."""

    error_code: ErrorCode
    error_message: str | None
    resource_type: int
    resource_name: str


def alter_configs(image: ClusterImage, request: AlterConfigsRequest, settings: BrokerSettings) -> Decision:
    """Replace all settings of each resource."""
    alteration = _Alteration(image, settings)
    outcomes = alteration.carry_out(request.resources, lambda resource, item: _replacement(item))
    responses = [AlterConfigsResourceResponse(*outcome) for outcome in outcomes]
    records = [] if request.validate_only else alteration.records
    return Decision(records, AlterConfigsResponse(responses=responses))


def incremental_alter_configs(
    image: ClusterImage, request: IncrementalAlterConfigsRequest, settings: BrokerSettings
) -> Decision:
    """Change the named settings of each resource."""
    alteration = _Alteration(image, settings)
    outcomes = alteration.carry_out(request.resources, alteration.increments)
    responses = [IncrementalAlterConfigsResourceResponse(*outcome) for outcome in outcomes]
    records = [] if request.validate_only else alteration.records
    return Decision(records, IncrementalAlterConfigsResponse(responses=responses))


def cluster_wide_settings(image: ClusterImage, settings: BrokerSettings) -> list[ConfigRecord]:
    """The settings on which all brokers and the controller must agree, unless the cluster has them (KIP-966)."""
    known = image.config_of(*_ALL_BROKERS)
    return [
        ConfigRecord(*_ALL_BROKERS, name=name, value=value)
        for name, value in _cluster_wide(settings).items()
        if name not in known
    ]


def _cluster_wide(settings: BrokerSettings) -> dict[str, str]:
    """The values that the controller was started with; they count for all brokers until they are changed.

    A leader commits by `min.insync.replicas`, and the controller decides by it which replicas may lead later.
    """
    return {_MIN_ISR: str(settings.started_with.topics.min_insync_replicas)}


def check_config_resource(image: ClusterImage, resource: ConfigResource) -> None:
    """Raise KafkaError unless the resource exists and can have settings here."""
    if resource.type == ResourceType.TOPIC:
        check_topic_name(resource.name)
        if resource.name not in image.topics_by_name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{resource.name}'.")
    elif resource.type == ResourceType.BROKER:
        if resource.name and resource.name not in map(str, image.brokers):
            raise _invalid(f"There is no broker '{resource.name}'; an empty name stands for all of them.")
    elif resource.type == ResourceType.CLIENT_METRICS:
        if not resource.name:
            raise _invalid("A subscription to metrics of clients needs a name.")
    elif resource.type == ResourceType.BROKER_LOGGER:
        raise _invalid("Log levels cannot be seen or changed over the protocol on this broker.")
    else:
        raise _invalid(f"This broker has no settings for resources of type {resource.type}.")


class _Alteration:
    """The changes that one request makes."""

    def __init__(self, image: ClusterImage, settings: BrokerSettings) -> None:
        self.records: list[Any] = []
        self._image = image
        self._settings = settings

    def carry_out(
        self, items: Sequence[Any], values_of: Callable[[ConfigResource, Any], dict[str, str]]
    ) -> list[_Outcome]:
        """Decide on each resource by itself."""
        resources = [ConfigResource(item.resource_type, item.resource_name) for item in items]
        twice = repeated(resources)
        outcomes = []
        for resource, item in zip(resources, items, strict=True):
            try:
                if resource in twice:
                    raise _invalid("The resource stands more than once in the request.")
                check_config_resource(self._image, resource)
                self._alter(resource, values_of(resource, item), {config.name for config in item.configs})
                outcomes.append(_Outcome(ErrorCode.NONE, None, *resource))
            except KafkaError as error:
                outcomes.append(_Outcome(error.code, error.message, *resource))
            except ConfigError as error:
                outcomes.append(_Outcome(_config_error(resource), str(error), *resource))
        return outcomes

    def increments(self, resource: ConfigResource, item: IncrementalAlterConfigsResource) -> dict[str, str]:
        """The settings of a resource after set, delete, append and subtract."""
        _refuse_repeated(item.configs)
        values = dict(self._image.config_of(*resource))
        for config in item.configs:
            if config.config_operation == ConfigOperation.DELETE:
                values.pop(config.name, None)
            elif config.value is None:
                raise _invalid(f"{config.name} needs a value.")
            elif config.config_operation == ConfigOperation.SET:
                values[config.name] = config.value
            else:
                values[config.name] = self._changed_list(resource, config, values.get(config.name))
        return values

    def _changed_list(
        self, resource: ConfigResource, config: IncrementalAlterableConfig, current: str | None
    ) -> str:
        setting = _settings(resource).get(config.name)
        if config.config_operation not in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            raise _invalid(f"{config.config_operation} is not an operation on settings.")
        if setting is None or setting.type is not ConfigType.LIST:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"{config.name} is not a list: nothing can be added or taken away."
            )
        items = _items(current if current is not None else self._inherited(resource, setting))
        operands = _items(config.value or "")
        if config.config_operation == ConfigOperation.APPEND:
            return ",".join(dict.fromkeys((*items, *operands)))
        return ",".join(item for item in items if item not in operands)

    def _inherited(self, resource: ConfigResource, setting: Setting) -> str:
        if resource.type == ResourceType.CLIENT_METRICS:
            return ""
        is_topic = resource.type == ResourceType.TOPIC
        config = self._settings.topic_config({}) if is_topic else self._settings.in_force
        return setting.render(setting.value_in(config)) or ""

    def _alter(self, resource: ConfigResource, values: dict[str, str], named: set[str]) -> None:
        if resource.type == ResourceType.BROKER:
            _refuse_static(named)
            if resource.name and _MIN_ISR in named:
                # The leaders of a partition must agree on it with the controller, whichever broker leads.
                raise _invalid(f"{_MIN_ISR} is a setting of topics, or of all brokers together.")
            if resource == _ALL_BROKERS:
                values = _cluster_wide(self._settings) | values
            self._settings.check_broker_changes(values)
        elif resource.type == ResourceType.CLIENT_METRICS:
            _check_subscription(values)
        else:
            self._settings.check_topic_overrides(values)
            self._refuse_untiering(resource, values)
        current = self._image.config_of(*resource)
        for name in sorted(current.keys() | values.keys()):
            if values.get(name) != current.get(name):
                self.records.append(
                    ConfigRecord(
                        resource_type=resource.type,
                        resource_name=resource.name,
                        name=name,
                        value=values.get(name),
                    )
                )
        if values.get(_MIN_ISR) != current.get(_MIN_ISR):
            self.records += self._fewer_eligible_leaders(resource, values)

    def _refuse_untiering(self, resource: ConfigResource, values: dict[str, str]) -> None:
        """Remote storage is switched off only by those who say that its records may go (KIP-950)."""
        before = self._settings.topic_config(self._image.config_of(*resource))
        after = self._settings.topic_config(values)
        if not before.remote_storage_enable or after.remote_storage_enable:
            return
        if not after.remote_log_delete_on_disable:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                "It is invalid to disable remote storage without deleting remote data. To keep the remote data "
                "and copy no more, set remote.log.copy.disable=true; to delete it, set remote.storage.enable=false "
                "and remote.log.delete.on.disable=true together.",
            )

    def _fewer_eligible_leaders(self, resource: ConfigResource, values: dict[str, str]) -> Iterator[Any]:
        """Empty the ELR of partitions whose leader may commit alone with the changed min.insync.replicas."""
        settings = self._settings
        if resource.type == ResourceType.BROKER:
            settings = settings.with_default(values)
        for topic, partition in self._image.partitions():
            is_own = (resource.type, resource.name) == (ResourceType.TOPIC, topic.name)
            if not partition.elr or not (is_own or resource.type == ResourceType.BROKER):
                continue
            overrides = values if is_own else self._image.config_of(ResourceType.TOPIC, topic.name)
            min_isr = settings.topic_config(overrides).min_insync_replicas
            after = with_eligible_leaders(partition, partition, min_isr, frozenset())
            if after != partition:
                yield change_record(topic, partition, after)


def _check_subscription(values: Mapping[str, str]) -> None:
    config = ClientMetricsConfig.from_texts(values)
    try:
        config.patterns()
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None


def _replacement(item: AlterConfigsResource) -> dict[str, str]:
    _refuse_repeated(item.configs)
    values = {}
    for config in item.configs:
        if config.value is None:
            raise _invalid(f"{config.name} needs a value.")
        values[config.name] = config.value
    return values


def _refuse_repeated(configs: Iterable[Any]) -> None:
    twice = repeated(config.name for config in configs)
    if twice:
        raise _invalid(f"{min(twice)} stands more than once in the request.")


def _refuse_static(named: set[str]) -> None:
    known = settings_by_name(BrokerConfig)
    static = sorted(name for name in named if name in known and not known[name].dynamic)
    if static:
        raise _invalid(
            f"{', '.join(static)} cannot change while the broker runs: set it and restart the broker."
        )


def _config_error(resource: ConfigResource) -> ErrorCode:
    """Kafka calls a bad setting of a topic a bad setting, and one of a broker a bad request."""
    return ErrorCode.INVALID_CONFIG if resource.type == ResourceType.TOPIC else ErrorCode.INVALID_REQUEST


def _settings(resource: ConfigResource) -> Mapping[str, Setting]:
    return settings_by_name(_CONFIGS.get(resource.type, BrokerConfig))


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _invalid(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, sentence)
