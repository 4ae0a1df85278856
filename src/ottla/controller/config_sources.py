"""Where a setting's value comes from: the order of precedence, and the entries that DescribeConfigs shows.

1 the topic's own                 (AlterConfigs on the topic)
2 this broker's, changed at run time
3 the default of all brokers, changed at run time
4 this broker's, from its file, environment or command line
5 the default
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

from ottla.config import BrokerConfig, ConfigError, ConfigType, Setting, TopicConfig, settings_of
from ottla.config.client_metrics import ClientMetricsConfig
from ottla.config.listener_limits import listener_setting
from ottla.config.setting import settings_by_name
from ottla.controller.image import ClusterImage, ConfigResource, ResourceType


class ConfigSource(IntEnum):
    """Kafka's numbers."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_CLIENT_METRICS_CONFIG = 7


class ConfigSynonym(NamedTuple):
    """One place that gives a setting a value."""

    name: str
    value: str
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """A setting with its value in force; the synonyms are all places that give one, the decisive first.

    The value of a setting that this broker does not know may be a secret: it is not shown.
    """

    setting: Setting
    value: str | None
    source: ConfigSource
    synonyms: tuple[ConfigSynonym, ...]
    is_sensitive: bool = False


class BrokerSettings:
    """The settings of one broker in one image: what it was started with, under what was changed since."""

    def __init__(self, image: ClusterImage, node_id: int, started_with: BrokerConfig) -> None:
        self._image = image
        self._node_id = node_id
        self._own = image.config_of(ResourceType.BROKER, str(node_id))
        self._default = image.config_of(ResourceType.BROKER, "")
        self.started_with = started_with

    def with_default(self, default: Mapping[str, str]) -> "BrokerSettings":
        """The settings if the default of all brokers were another."""
        configs = {**self._image.configs, ConfigResource(ResourceType.BROKER, ""): default}
        return BrokerSettings(replace(self._image, configs=configs), self._node_id, self.started_with)

    @cached_property
    def in_force(self) -> BrokerConfig:
        """The broker's configuration now."""
        changed = _known(BrokerConfig, {**self._default, **self._own})
        return self.started_with.overridden(changed) if changed else self.started_with

    def topic_config(self, overrides: Mapping[str, str]) -> TopicConfig:
        """The settings in force of a topic with these of its own."""
        return TopicConfig.resolve(self.in_force, _known(TopicConfig, overrides))

    def check_broker_changes(self, changes: Mapping[str, str]) -> None:
        """ConfigError if a broker could not work with these changes.

        As in Kafka, where plugins have settings of their own, an unknown name is kept and changes nothing.
        """
        self.started_with.overridden(_known(BrokerConfig, changes)).refuse_contradictions()

    def check_topic_overrides(self, overrides: Mapping[str, str]) -> None:
        """ConfigError if a topic could not work with these settings of its own."""
        config = TopicConfig.resolve(self.in_force, overrides)
        if config.remote_storage_enable and not self.started_with.tiers.enable:
            raise ConfigError(
                "remote.storage.enable cannot be true: Tiered Storage functionality is disabled in the broker "
                "(remote.log.storage.system.enable)."
            )
        config.refuse_contradictions()

    def broker_entries(self) -> Iterator[ConfigEntry]:
        """Every setting of the broker."""
        for setting in settings_of(BrokerConfig):
            synonyms = tuple(self._synonyms((setting.name,)))
            value = setting.render(setting.value_in(self.in_force))
            yield ConfigEntry(setting, value, _decisive(synonyms), synonyms, setting.sensitive)
        yield from self._listener_entries()
        for name in _unknown({**self._default, **self._own}):
            synonyms = tuple(self._changes_of((name,)))
            yield ConfigEntry(_unknown_setting(name), None, _decisive(synonyms), synonyms, is_sensitive=True)

    def _listener_entries(self) -> Iterator[ConfigEntry]:
        """The limits of single listeners that somebody has set."""
        started_with = dict(self.started_with.listener_limits)
        for name, value in self.in_force.listener_limits:
            setting = listener_setting(name)
            assert setting is not None
            synonyms = tuple(self._changes_of((name,)))
            if name in started_with:
                text = str(started_with[name])
                synonyms += (ConfigSynonym(name, text, ConfigSource.STATIC_BROKER_CONFIG),)
            yield ConfigEntry(setting, str(value), _decisive(synonyms), synonyms)

    def default_entries(self) -> Iterator[ConfigEntry]:
        """The settings that were changed at run time for all brokers."""
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        for setting in settings_of(BrokerConfig):
            if setting.name in self._default:
                text = self._default[setting.name]
                synonyms = (ConfigSynonym(setting.name, text, source),)
                yield ConfigEntry(setting, text, source, synonyms, setting.sensitive)
        for name in filter(listener_setting, sorted(self._default)):
            limit, text = listener_setting(name), self._default[name]
            assert limit is not None
            yield ConfigEntry(limit, text, source, (ConfigSynonym(name, text, source),))
        for name in _unknown(self._default):
            synonyms = (ConfigSynonym(name, self._default[name], source),)
            yield ConfigEntry(_unknown_setting(name), None, source, synonyms, is_sensitive=True)

    def topic_entries(self, overrides: Mapping[str, str]) -> Iterator[ConfigEntry]:
        """Every setting of a topic."""
        resolved = self.topic_config(overrides)
        for setting in settings_of(TopicConfig):
            synonyms = tuple(self._synonyms(setting.synonyms))
            value = setting.render(setting.value_in(resolved))
            if setting.name in overrides:
                own = ConfigSynonym(setting.name, value or "", ConfigSource.DYNAMIC_TOPIC_CONFIG)
                synonyms = (own, *synonyms)
            yield ConfigEntry(setting, value, _decisive(synonyms), synonyms)

    def client_metrics_entries(self, given: Mapping[str, str]) -> Iterator[ConfigEntry]:
        """Every setting of a subscription to metrics of clients."""
        for setting in settings_of(ClientMetricsConfig):
            default = setting.render(setting.default) or ""
            synonyms: tuple[ConfigSynonym, ...] = (
                ConfigSynonym(setting.name, default, ConfigSource.DEFAULT_CONFIG),
            )
            if setting.name in given:
                source = ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG
                synonyms = (ConfigSynonym(setting.name, given[setting.name], source), *synonyms)
            yield ConfigEntry(setting, synonyms[0].value, _decisive(synonyms), synonyms)

    def _changes_of(self, names: tuple[str, ...]) -> Iterator[ConfigSynonym]:
        """The values that were given at run time."""
        for name in names:
            if name in self._own:
                yield ConfigSynonym(name, self._own[name], ConfigSource.DYNAMIC_BROKER_CONFIG)
        for name in names:
            if name in self._default:
                yield ConfigSynonym(name, self._default[name], ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)

    def _synonyms(self, names: tuple[str, ...]) -> Iterator[ConfigSynonym]:
        yield from self._changes_of(names)
        settings = [settings_by_name(BrokerConfig)[name] for name in names]
        for setting in settings:
            value = setting.value_in(self.started_with)
            text = setting.render(value)
            if text is not None and (setting.name in self.started_with.given or value != setting.default):
                yield ConfigSynonym(setting.name, text, ConfigSource.STATIC_BROKER_CONFIG)
        for setting in settings:
            text = setting.render(setting.default)
            if text is not None:
                yield ConfigSynonym(setting.name, text, ConfigSource.DEFAULT_CONFIG)


def client_metrics_resources(image: ClusterImage) -> dict[str, Mapping[str, str]]:
    """The subscriptions to metrics of clients, by name."""
    return {
        resource.name: values
        for resource, values in image.configs.items()
        if resource.type == ResourceType.CLIENT_METRICS
    }


def _known(cls: type, stored: Mapping[str, str]) -> dict[str, str]:
    """The settings in the log that this version knows: a newer version may have written others."""
    names = settings_by_name(cls)
    return {
        name: text
        for name, text in stored.items()
        if name in names or (cls is BrokerConfig and listener_setting(name) is not None)
    }


def _unknown(stored: Mapping[str, str]) -> list[str]:
    unknown = stored.keys() - settings_by_name(BrokerConfig).keys()
    return sorted(name for name in unknown if listener_setting(name) is None)


def _unknown_setting(name: str) -> Setting:
    return Setting(
        name, "", ConfigType.UNKNOWN, None, "Not a setting of this broker: it is kept, without effect."
    )


def _decisive(synonyms: tuple[ConfigSynonym, ...]) -> ConfigSource:
    return synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
