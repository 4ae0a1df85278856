"""Every setting of the broker and of a topic, declared once.

A setting is a field of its family, a frozen dataclass: the declaration carries Kafka's name for the setting,
its type, default, bounds and a sentence about it. Parsing, error sentences, DescribeConfigs and
docs/settings.md all follow from that declaration. Families are passed on whole to the rooms that work by
them. Names and defaults are Kafka's; a setting that Kafka does not have begins with `ottla.` and says why it
exists.

    setting.py            one setting: its text read, written and refused; the settings that a dataclass declares
    listeners.py          addresses in settings: listeners, and the voters of the metadata quorum
    listener_limits.py    settings of one listener, which have its name in theirs

  the families:
    node.py               NodeConfig: which node this is
    quorum.py             QuorumConfig: the metadata quorum
    membership.py         MembershipConfig, LeaderBalanceConfig: brokers that are alive, and that lead
    replication.py        ReplicationConfig: followers
    connections.py        ConnectionConfig
    sasl.py               SaslConfig: logins
    oauth.py              OauthBearerConfig: logins with tokens of an identity provider
    delegation_tokens.py  DelegationTokenConfig: logins that users hand on
    tls.py                TlsConfig: certificates, and what is demanded of clients
    topic_defaults.py     TopicDefaultsConfig: how topics come and go
    messages.py           MessageConfig, FetchConfig: what is written and read
    logs.py               LogConfig, FlushConfig, RetentionConfig, ProducerIdConfig: logs on disk
    cleaner.py            CleanerConfig: compaction
    scrub.py              ScrubConfig: closed segments read again
    tiers.py              TierConfig: closed segments in an object store
    groups.py             GroupConfig: consumer groups and their offsets
    transactions.py       TransactionConfig: transactions and their coordinators
    authorisation.py      AuthorisationConfig: who may do what
    quotas.py             QuotaConfig: over how long rates are measured
    monitoring.py         MonitoringConfig: metrics and health over HTTP
    client_metrics.py     ClientMetricsConfig: a subscription to metrics of clients
    gateway.py            GatewayConfig: a gateway, which is no broker

    broker.py             BrokerConfig: all families of one broker
    topic.py              TopicConfig: the settings of one topic, over the broker's defaults
    properties.py         settings in files and in the environment
    reference.py          docs/settings.md
"""

from ottla.config.authorisation import AuthorisationConfig
from ottla.config.broker import BrokerConfig
from ottla.config.cleaner import CleanerConfig
from ottla.config.connections import ConnectionConfig
from ottla.config.delegation_tokens import DelegationTokenConfig
from ottla.config.groups import GroupConfig
from ottla.config.listeners import Listener, Voter
from ottla.config.logs import (
    DEFAULT_MEMORY_BYTES,
    FlushConfig,
    LogConfig,
    ProducerIdConfig,
    RetentionConfig,
)
from ottla.config.membership import LeaderBalanceConfig, MembershipConfig
from ottla.config.messages import FetchConfig, MessageConfig
from ottla.config.monitoring import HTTP_LISTENER, MonitoringConfig
from ottla.config.node import NodeConfig
from ottla.config.oauth import OauthBearerConfig
from ottla.config.properties import parse_properties, properties_from_environment
from ottla.config.quorum import QuorumConfig
from ottla.config.quotas import QuotaConfig
from ottla.config.reference import render_reference
from ottla.config.replication import ReplicationConfig
from ottla.config.sasl import SaslConfig
from ottla.config.scrub import ScrubConfig
from ottla.config.setting import INT_MAX, LONG_MAX, ConfigError, ConfigType, Setting, settings_of
from ottla.config.tiers import TierConfig
from ottla.config.tls import TlsConfig
from ottla.config.topic import TopicConfig
from ottla.config.topic_defaults import TopicDefaultsConfig
from ottla.config.transactions import TransactionConfig

__all__ = [
    "DEFAULT_MEMORY_BYTES",
    "HTTP_LISTENER",
    "INT_MAX",
    "LONG_MAX",
    "AuthorisationConfig",
    "BrokerConfig",
    "CleanerConfig",
    "ConfigError",
    "ConfigType",
    "ConnectionConfig",
    "DelegationTokenConfig",
    "FetchConfig",
    "FlushConfig",
    "GroupConfig",
    "LeaderBalanceConfig",
    "Listener",
    "LogConfig",
    "MembershipConfig",
    "MessageConfig",
    "MonitoringConfig",
    "NodeConfig",
    "OauthBearerConfig",
    "ProducerIdConfig",
    "QuorumConfig",
    "QuotaConfig",
    "ReplicationConfig",
    "RetentionConfig",
    "SaslConfig",
    "ScrubConfig",
    "Setting",
    "TierConfig",
    "TlsConfig",
    "TopicConfig",
    "TopicDefaultsConfig",
    "TransactionConfig",
    "Voter",
    "parse_properties",
    "properties_from_environment",
    "render_reference",
    "settings_of",
]
