"""Every setting of the broker and of a topic, declared once.

A setting is a field of its family, a frozen dataclass: the declaration carries Kafka's name for the setting,
its type, default, bounds and a sentence about it. Parsing, error sentences, DescribeConfigs and
docs/settings.md all follow from that declaration. Families are passed on whole to the rooms that work by
them. Names and defaults are Kafka's; a setting that Kafka does not have begins with `ottla.` and says why it
exists.

    setting.py            one setting: its text read, written and refused; the settings that a dataclass declares
    listeners.py          addresses in settings: listeners, and the voters of the metadata quorum

  the families:
    node.py               NodeConfig: which node this is
    quorum.py             QuorumConfig: the metadata quorum
    membership.py         MembershipConfig, LeaderBalanceConfig: brokers that are alive, and that lead
    replication.py        ReplicationConfig: followers
    connections.py        ConnectionConfig
    topic_defaults.py     TopicDefaultsConfig: how topics come and go
    messages.py           MessageConfig, FetchConfig: what is written and read
    logs.py               LogConfig, FlushConfig, RetentionConfig, ProducerIdConfig: logs on disk
    cleaner.py            CleanerConfig: compaction
    groups.py             GroupConfig: consumer groups and their offsets

    broker.py             BrokerConfig: all families of one broker
    topic.py              TopicConfig: the settings of one topic, over the broker's defaults
    properties.py         settings in files and in the environment
    reference.py          docs/settings.md
"""

from ottla.config.broker import BrokerConfig
from ottla.config.cleaner import CleanerConfig
from ottla.config.connections import ConnectionConfig
from ottla.config.groups import GroupConfig
from ottla.config.listeners import Listener, Voter
from ottla.config.logs import FlushConfig, LogConfig, ProducerIdConfig, RetentionConfig
from ottla.config.membership import LeaderBalanceConfig, MembershipConfig
from ottla.config.messages import FetchConfig, MessageConfig
from ottla.config.node import NodeConfig
from ottla.config.properties import parse_properties, properties_from_environment
from ottla.config.quorum import QuorumConfig
from ottla.config.reference import render_reference
from ottla.config.replication import ReplicationConfig
from ottla.config.setting import INT_MAX, LONG_MAX, ConfigError, ConfigType, Setting, settings_of
from ottla.config.topic import TopicConfig
from ottla.config.topic_defaults import TopicDefaultsConfig

__all__ = [
    "INT_MAX",
    "LONG_MAX",
    "BrokerConfig",
    "CleanerConfig",
    "ConfigError",
    "ConfigType",
    "ConnectionConfig",
    "FetchConfig",
    "FlushConfig",
    "GroupConfig",
    "LeaderBalanceConfig",
    "Listener",
    "LogConfig",
    "MembershipConfig",
    "MessageConfig",
    "NodeConfig",
    "ProducerIdConfig",
    "QuorumConfig",
    "ReplicationConfig",
    "RetentionConfig",
    "Setting",
    "TopicConfig",
    "TopicDefaultsConfig",
    "Voter",
    "parse_properties",
    "properties_from_environment",
    "render_reference",
    "settings_of",
]
