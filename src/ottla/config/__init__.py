"""Every setting of the broker and of a topic, declared once.

`BrokerConfig` and `TopicConfig` are plain frozen data. A field's declaration carries Kafka's name for the
setting, its type, default, bounds and a sentence about it; parsing, error sentences, DescribeConfigs and
docs/settings.md all follow from that declaration. Names and defaults are Kafka's. A setting that Kafka does
not have begins with `ottla.` and says why it exists.
"""

from ottla.config.broker import BrokerConfig
from ottla.config.listeners import Listener, Voter
from ottla.config.properties import parse_properties, properties_from_environment
from ottla.config.reference import render_reference
from ottla.config.setting import INT_MAX, LONG_MAX, ConfigError, ConfigType, Setting, settings_of
from ottla.config.topic import TopicConfig

__all__ = [
    "INT_MAX",
    "LONG_MAX",
    "BrokerConfig",
    "ConfigError",
    "ConfigType",
    "Listener",
    "Setting",
    "TopicConfig",
    "Voter",
    "parse_properties",
    "properties_from_environment",
    "render_reference",
    "settings_of",
]
