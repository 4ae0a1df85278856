"""The settings of a broker: all families together. Names, types, defaults and bounds are Kafka's, except for
those that begin with `ottla.`.

Only what this broker honours is declared: a name that stands in a family does something. The settings marked
`dynamic` may be changed while the broker runs, with AlterConfigs on the broker or on the default of all
brokers; most of them are the defaults of topic settings (config/topic.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from ottla.config.authorisation import AuthorisationConfig
from ottla.config.cleaner import CleanerConfig
from ottla.config.connections import ConnectionConfig
from ottla.config.delegation_tokens import DelegationTokenConfig
from ottla.config.groups import GroupConfig
from ottla.config.listener_limits import (
    ListenerLimits,
    changed_limits,
    listener_setting,
    refuse_unknown_listeners,
)
from ottla.config.logs import FlushConfig, LogConfig, ProducerIdConfig, RetentionConfig
from ottla.config.membership import LeaderBalanceConfig, MembershipConfig
from ottla.config.messages import FetchConfig, MessageConfig
from ottla.config.monitoring import MonitoringConfig
from ottla.config.node import NodeConfig
from ottla.config.oauth import OauthBearerConfig
from ottla.config.quorum import QuorumConfig
from ottla.config.quotas import QuotaConfig
from ottla.config.replication import ReplicationConfig
from ottla.config.sasl import SaslConfig, refuse_jaas
from ottla.config.scrub import ScrubConfig
from ottla.config.setting import ConfigError, parse_values, settings_by_name
from ottla.config.tiers import TierConfig
from ottla.config.tls import TlsConfig
from ottla.config.topic_defaults import TopicDefaultsConfig
from ottla.config.transactions import TransactionConfig

# Pairs of which the first must not be larger than the second.
_ORDERED: Final = (
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("broker.heartbeat.interval.ms", "broker.session.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """All settings of one broker, as its operator gave them or by default.

    The order of the families is the order of DescribeConfigs and of docs/settings.md.
    """

    node: NodeConfig = field(default=NodeConfig())
    quorum: QuorumConfig = field(default=QuorumConfig())
    membership: MembershipConfig = field(default=MembershipConfig())
    leader_balance: LeaderBalanceConfig = field(default=LeaderBalanceConfig())
    replication: ReplicationConfig = field(default=ReplicationConfig())
    connections: ConnectionConfig = field(default=ConnectionConfig())
    sasl: SaslConfig = field(default=SaslConfig())
    oauth: OauthBearerConfig = field(default=OauthBearerConfig())
    delegation_tokens: DelegationTokenConfig = field(default=DelegationTokenConfig())
    tls: TlsConfig = field(default=TlsConfig())
    topics: TopicDefaultsConfig = field(default=TopicDefaultsConfig())
    messages: MessageConfig = field(default=MessageConfig())
    fetches: FetchConfig = field(default=FetchConfig())
    logs: LogConfig = field(default=LogConfig())
    flushes: FlushConfig = field(default=FlushConfig())
    retention: RetentionConfig = field(default=RetentionConfig())
    cleaner: CleanerConfig = field(default=CleanerConfig())
    scrub: ScrubConfig = field(default=ScrubConfig())
    tiers: TierConfig = field(default=TierConfig())
    producer_ids: ProducerIdConfig = field(default=ProducerIdConfig())
    groups: GroupConfig = field(default=GroupConfig())
    transactions: TransactionConfig = field(default=TransactionConfig())
    authorisation: AuthorisationConfig = field(default=AuthorisationConfig())
    quotas: QuotaConfig = field(default=QuotaConfig())
    monitoring: MonitoringConfig = field(default=MonitoringConfig())

    listener_limits: ListenerLimits = ()
    """Limits of single listeners (config/listener_limits.py)."""

    given: frozenset[str] = field(default=frozenset(), compare=False)
    """Names that the operator set, even if to the default: DescribeConfigs tells the two apart."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """A configuration from named texts; ConfigError, in one sentence, if it cannot be used."""
        config = cls().overridden(properties)
        config.refuse_contradictions()
        return config

    def overridden(self, properties: Mapping[str, str]) -> Self:
        """The same configuration with some settings replaced; each is checked by itself."""
        for name in properties:
            refuse_jaas(name)
        changes: dict[str, dict[str, Any]] = {}
        of_families = {name: text for name, text in properties.items() if listener_setting(name) is None}
        for attribute, value in parse_values(type(self), of_families).items():
            family, _, name = attribute.partition(".")
            changes.setdefault(family, {})[name] = value
        families = {family: replace(getattr(self, family), **values) for family, values in changes.items()}
        limits = changed_limits(self.listener_limits, properties)
        return replace(self, **families, listener_limits=limits, given=self.given | properties.keys())

    def refuse_contradictions(self) -> None:
        """Raise ConfigError if the settings, each fine by itself, cannot be used together."""
        self.node.refuse_addresses()
        refuse_unknown_listeners(self.listener_limits, {each.name for each in self.node.bound_listeners})
        self.logs.refuse_directory()
        if self.logs.memory_bytes is not None and (directories := self.given & {"log.dir", "log.dirs"}):
            raise ConfigError(
                f"{min(directories)} cannot be set together with ottla.memory.bytes: nothing is kept on disk."
            )
        self.node.refuse_role()
        if any(each.uses_sasl for each in self.node.bound_listeners):
            asks_brokers = self.node.advertised_listener.uses_sasl and bool(self.node.voters)
            self.sasl.refuse_unusable(is_between_brokers=asks_brokers)
            if "OAUTHBEARER" in self.sasl.enabled_mechanisms:
                self.oauth.refuse_unusable()
        self.tls.refuse_contradictions()
        self.authorisation.refuse_audit()
        self.monitoring.refuse_address()
        self.tiers.refuse_unusable()
        known = settings_by_name(BrokerConfig)
        for lower, higher in _ORDERED:
            low, high = known[lower].value_in(self), known[higher].value_in(self)
            if low > high:
                raise ConfigError(f"{lower} ({low}) cannot exceed {higher} ({high}).")
