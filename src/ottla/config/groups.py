"""The broker's settings about consumer groups and their offsets; `BrokerConfig` lists them with all others."""

from typing import Any, Final

from ottla.config.setting import INT_MAX, ConfigType, setting

LONG = ConfigType.LONG

INITIAL_REBALANCE_DELAY_MS: Final[Any] = setting(
    "group.initial.rebalance.delay.ms",
    3000,
    at_least=0,
    doc="How long a group that was empty waits for more members before its first rebalance; each that comes makes it "
    "wait as long again, up to the rebalance timeout. Fewer rebalances at the start, for a later start.",
)
MIN_SESSION_TIMEOUT_MS: Final[Any] = setting(
    "group.min.session.timeout.ms",
    6000,
    at_least=1,
    doc="The shortest session timeout that a member may ask for; shorter ones cost more heartbeats.",
)
MAX_SESSION_TIMEOUT_MS: Final[Any] = setting(
    "group.max.session.timeout.ms",
    1_800_000,
    at_least=1,
    doc="The longest session timeout that a member may ask for; a member that died is noticed only after it.",
)
MAX_SIZE: Final[Any] = setting(
    "group.max.size", INT_MAX, at_least=1, doc="How many members a group may have; more are refused."
)
RETENTION_MINUTES: Final[Any] = setting(
    "offsets.retention.minutes",
    10_080,
    at_least=1,
    doc="How long committed offsets are kept once a group has no members, or does not subscribe to the topic any more; "
    "offsets that were committed without membership are kept this long after the commit.",
)
RETENTION_CHECK_INTERVAL_MS: Final[Any] = setting(
    "offsets.retention.check.interval.ms",
    600_000,
    type=LONG,
    at_least=1,
    doc="How often the broker looks for committed offsets and groups to forget.",
)
METADATA_MAX_BYTES: Final[Any] = setting(
    "offset.metadata.max.bytes",
    4096,
    at_least=0,
    doc="The longest text that may be kept with a committed offset, in characters.",
)
TOPIC_NUM_PARTITIONS: Final[Any] = setting(
    "offsets.topic.num.partitions",
    50,
    at_least=1,
    doc="The partitions of the topic that holds groups and offsets; it cannot be changed once the topic exists.",
)
TOPIC_REPLICATION_FACTOR: Final[Any] = setting(
    "offsets.topic.replication.factor",
    3,
    at_least=1,
    at_most=2**15 - 1,
    doc="The replicas of each partition of the topic that holds groups and offsets. Where Kafka waits until there are so "
    "many brokers, here the topic is created with as many replicas as there are brokers, so that one node is enough.",
)
TOPIC_SEGMENT_BYTES: Final[Any] = setting(
    "offsets.topic.segment.bytes",
    100 << 20,
    at_least=1,
    doc="The segment size of the topic that holds groups and offsets; small ones are compacted and loaded sooner.",
)
