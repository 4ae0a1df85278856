"""The settings of consumer groups and their offsets."""

from typing import Final

from ottla.config.setting import INT_MAX, ConfigType, family, setting

_MS_PER_MINUTE: Final = 60_000


@family
class GroupConfig:
    """The limits for members of a group, and the retention of their offsets."""

    initial_rebalance_delay_ms: int = setting(
        "group.initial.rebalance.delay.ms",
        3000,
        at_least=0,
        doc="How long a group that was empty waits for more members before its first rebalance; each that comes makes it "
        "wait as long again, up to the rebalance timeout. Fewer rebalances at the start, for a later start.",
    )
    min_session_timeout_ms: int = setting(
        "group.min.session.timeout.ms",
        6000,
        at_least=1,
        doc="The shortest session timeout that a member may ask for; shorter ones cost more heartbeats.",
    )
    max_session_timeout_ms: int = setting(
        "group.max.session.timeout.ms",
        1_800_000,
        at_least=1,
        doc="The longest session timeout that a member may ask for; a member that died is noticed only after it.",
    )
    max_size: int = setting(
        "group.max.size", INT_MAX, at_least=1, doc="How many members a group may have; more are refused."
    )
    offsets_retention_minutes: int = setting(
        "offsets.retention.minutes",
        10_080,
        at_least=1,
        doc="How long committed offsets are kept once a group has no members, or does not subscribe to the topic any more; "
        "offsets that were committed without membership are kept this long after the commit.",
    )
    offsets_retention_check_interval_ms: int = setting(
        "offsets.retention.check.interval.ms",
        600_000,
        type=ConfigType.LONG,
        at_least=1,
        doc="How often the broker looks for committed offsets and groups to forget.",
    )
    offset_metadata_max_bytes: int = setting(
        "offset.metadata.max.bytes",
        4096,
        at_least=0,
        doc="The longest text that may be kept with a committed offset, in characters.",
    )
    offsets_topic_num_partitions: int = setting(
        "offsets.topic.num.partitions",
        50,
        at_least=1,
        doc="The partitions of the topic that holds groups and offsets; it cannot be changed once the topic exists.",
    )
    offsets_topic_replication_factor: int = setting(
        "offsets.topic.replication.factor",
        3,
        at_least=1,
        at_most=2**15 - 1,
        doc="The replicas of each partition of the topic that holds groups and offsets. Where Kafka waits until there are so "
        "many brokers, here the topic is created with as many replicas as there are brokers, so that one node is enough.",
    )
    offsets_topic_segment_bytes: int = setting(
        "offsets.topic.segment.bytes",
        100 << 20,
        at_least=1,
        doc="The segment size of the topic that holds groups and offsets; small ones are compacted and loaded sooner.",
    )

    @property
    def offsets_retention_ms(self) -> int:
        """`offsets.retention.minutes` in the unit of all other times."""
        return self.offsets_retention_minutes * _MS_PER_MINUTE
