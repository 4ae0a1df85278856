"""The settings of a topic. Each takes its type, bounds and meaning from the broker setting that is its
default.

A topic's own value comes first, then the broker's; where the broker has one setting in several units
(log.retention.ms, .minutes, .hours) the finest that is set counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from ottla.config.broker import BrokerConfig
from ottla.config.setting import (
    WITHOUT_EFFECT,
    ConfigError,
    Form,
    parse_values,
    setting,
    settings_by_name,
    settings_of,
    suggestion,
)

SAME_AS_RETENTION: Final = -2  # local.retention.ms and .bytes: Kafka's number
_MS_PER_UNIT: Final = {"minutes": 60_000, "hours": 3_600_000}
_BROKER_DEFAULTS: Final = BrokerConfig()


def broker_value(broker: BrokerConfig, synonyms: tuple[str, ...]) -> Any:
    """The value that a broker gives to the topic setting with these synonyms, in the topic setting's unit."""
    known = settings_by_name(BrokerConfig)
    for name in synonyms:
        value = known[name].value_in(broker)
        if value is not None:
            return _in_ms(name, value)
    raise TypeError(f"none of {synonyms} has a default")


def _in_ms(name: str, value: Any) -> Any:
    factor = _MS_PER_UNIT.get(name.rpartition(".")[2], 1)
    return -1 if factor > 1 and value < 0 else value * factor if factor > 1 else value


def topic_setting(name: str, *synonyms: str) -> Any:
    """Declare a topic setting by its name and the broker settings that give its default, finest unit
    first.
    """
    source = settings_by_name(BrokerConfig)[synonyms[0]]
    return setting(
        name,
        broker_value(_BROKER_DEFAULTS, synonyms),
        doc=source.doc.removeprefix(WITHOUT_EFFECT).partition("; if not set, ")[0].removesuffix(".") + ".",
        type=source.type,
        at_least=source.at_least,
        at_most=source.at_most,
        choices=source.choices,
        dynamic=True,
        synonyms=synonyms,
        form=source.form,
        has_effect=source.has_effect,
    )


def throttled_replicas(name: str, rate: str) -> Any:
    """Declare one of the lists that kafka-reassign-partitions --throttle sets on the topics that it moves."""
    return setting(
        name,
        (),
        dynamic=True,
        has_effect=False,
        form=Form(r"\*|[0-9]+:[0-9]+", "* or a list of partition:broker, separated by commas"),
        doc=f"The replicas that are held to {rate}. Every replica that is being moved is, whatever the list says.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """All settings of one topic, resolved: what the log works with."""

    cleanup_policy: tuple[str, ...] = topic_setting("cleanup.policy", "log.cleanup.policy")
    compression_type: str = topic_setting("compression.type", "compression.type")
    compression_gzip_level: int = topic_setting("compression.gzip.level", "compression.gzip.level")
    compression_lz4_level: int = topic_setting("compression.lz4.level", "compression.lz4.level")
    compression_zstd_level: int = topic_setting("compression.zstd.level", "compression.zstd.level")
    delete_retention_ms: int = topic_setting("delete.retention.ms", "log.cleaner.delete.retention.ms")
    file_delete_delay_ms: int = topic_setting("file.delete.delay.ms", "log.segment.delete.delay.ms")
    flush_messages: int = topic_setting("flush.messages", "log.flush.interval.messages")
    flush_ms: int = topic_setting("flush.ms", "log.flush.interval.ms", "log.flush.scheduler.interval.ms")
    follower_throttled_replicas: tuple[str, ...] = throttled_replicas(
        "follower.replication.throttled.replicas", "follower.replication.throttled.rate"
    )
    index_interval_bytes: int = topic_setting("index.interval.bytes", "log.index.interval.bytes")
    leader_throttled_replicas: tuple[str, ...] = throttled_replicas(
        "leader.replication.throttled.replicas", "leader.replication.throttled.rate"
    )
    local_retention_bytes: int = topic_setting("local.retention.bytes", "log.local.retention.bytes")
    local_retention_ms: int = topic_setting("local.retention.ms", "log.local.retention.ms")
    max_compaction_lag_ms: int = topic_setting("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms")
    max_message_bytes: int = topic_setting("max.message.bytes", "message.max.bytes")
    message_timestamp_after_max_ms: int = topic_setting(
        "message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms"
    )
    message_timestamp_before_max_ms: int = topic_setting(
        "message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms"
    )
    message_timestamp_type: str = topic_setting("message.timestamp.type", "log.message.timestamp.type")
    min_cleanable_dirty_ratio: float = topic_setting(
        "min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio"
    )
    min_compaction_lag_ms: int = topic_setting("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms")
    min_insync_replicas: int = topic_setting("min.insync.replicas", "min.insync.replicas")
    ottla_flush_bytes: int = topic_setting("ottla.flush.bytes", "ottla.flush.bytes")
    ottla_flush_on_acks_all: bool = topic_setting("ottla.flush.on.acks.all", "ottla.flush.on.acks.all")
    ottla_retention_requires: str = setting(
        "ottla.retention.requires",
        "none",
        choices=("none", "table"),
        dynamic=True,
        doc="table: retention deletes nothing that the topic's table does not hold, whatever the limits say. "
        "`ottla lake enable --retention-waits` sets it; docs/lake.md.",
    )
    ottla_retention_table_offsets: tuple[str, ...] = setting(
        "ottla.retention.table.offsets",
        (),
        dynamic=True,
        form=Form(r"[0-9]+:[0-9]+", "a list of partition:offset, separated by commas"),
        doc="The next offset of each partition that the topic's table lacks, told by its writer after each commit. "
        "A partition that is not named has nothing in the table.",
    )
    preallocate: bool = topic_setting("preallocate", "log.preallocate")
    remote_log_copy_disable: bool = setting(
        "remote.log.copy.disable",
        False,
        dynamic=True,
        doc="Whether no more segments are copied to remote storage; those that are there can be read.",
    )
    remote_log_delete_on_disable: bool = setting(
        "remote.log.delete.on.disable",
        False,
        dynamic=True,
        doc="Whether remote segments are deleted when remote.storage.enable becomes false; without it, remote "
        "storage cannot be switched off.",
    )
    remote_storage_enable: bool = setting(
        "remote.storage.enable",
        False,
        dynamic=True,
        doc="Whether closed segments are copied to remote storage, and read from there when local.retention.ms or "
        "local.retention.bytes has deleted them here. Not for compacted topics.",
    )
    retention_bytes: int = topic_setting("retention.bytes", "log.retention.bytes")
    retention_ms: int = topic_setting(
        "retention.ms", "log.retention.ms", "log.retention.minutes", "log.retention.hours"
    )
    schema_validation: bool = setting(
        "schema.validation",
        False,
        dynamic=True,
        doc="Whether a record is refused unless its value names a schema that is registered for this topic (a null "
        "value needs none); docs/schemas.md.",
    )
    confluent_value_schema_validation: bool = setting(
        "confluent.value.schema.validation",
        False,
        dynamic=True,
        doc="Confluent's name of schema.validation: either of the two turns it on.",
    )
    schema_validation_keys: bool = setting(
        "schema.validation.keys", False, dynamic=True, doc="The same for the keys of records."
    )
    confluent_key_schema_validation: bool = setting(
        "confluent.key.schema.validation",
        False,
        dynamic=True,
        doc="Confluent's name of schema.validation.keys: either of the two turns it on.",
    )
    schema_validation_subjects: str = setting(
        "schema.validation.subjects",
        "topic",
        choices=("topic", "any"),
        dynamic=True,
        doc="topic: a schema has to be registered under TOPIC-value, or TOPIC-key for keys. any: under some subject, for "
        "topics whose serializers choose subjects by the names of records.",
    )
    segment_bytes: int = topic_setting("segment.bytes", "log.segment.bytes")
    segment_index_bytes: int = topic_setting("segment.index.bytes", "log.index.size.max.bytes")
    segment_jitter_ms: int = topic_setting("segment.jitter.ms", "log.roll.jitter.ms", "log.roll.jitter.hours")
    segment_ms: int = topic_setting("segment.ms", "log.roll.ms", "log.roll.hours")
    unclean_leader_election_enable: bool = topic_setting(
        "unclean.leader.election.enable", "unclean.leader.election.enable"
    )
    unclean_recovery_strategy: str = topic_setting("unclean.recovery.strategy", "unclean.recovery.strategy")

    @classmethod
    def resolve(cls, broker: BrokerConfig, overrides: Mapping[str, str]) -> Self:
        """A topic's settings: its own texts over the broker's defaults. ConfigError if one cannot be used."""
        known = settings_by_name(TopicConfig)
        for name in overrides:
            if name not in known:
                raise ConfigError(f"Unknown topic config name: {name}{suggestion(name, known)}")
        values = {
            declared.attribute: broker_value(broker, declared.synonyms)
            for declared in settings_of(TopicConfig)
            if declared.synonyms and declared.name not in overrides
        }
        return cls(**values, **parse_values(cls, overrides))

    def refuse_contradictions(self) -> None:
        """Raise ConfigError if the settings, each fine by itself, cannot be used together."""
        if self.remote_storage_enable:
            self._refuse_remote_storage()
        low, high = self.min_compaction_lag_ms, self.max_compaction_lag_ms
        if low > high:
            raise ConfigError(f"min.compaction.lag.ms ({low}) cannot exceed max.compaction.lag.ms ({high}).")

    def _refuse_remote_storage(self) -> None:
        if self.is_compacted:
            raise ConfigError(
                "remote.storage.enable cannot be true: Remote log storage is unsupported for the compacted topics."
            )
        for name, local, total in (
            ("retention.ms", self.local_retention_ms, self.retention_ms),
            ("retention.bytes", self.local_retention_bytes, self.retention_bytes),
        ):
            if local != SAME_AS_RETENTION and total >= 0 and not 0 <= local <= total:
                raise ConfigError(f"local.{name} ({local}) cannot exceed {name} ({total}).")

    @property
    def local_limits(self) -> "TopicConfig":
        """The settings by which local segments are deleted that remote storage holds."""
        local_ms, local_bytes = self.local_retention_ms, self.local_retention_bytes
        return replace(
            self,
            retention_ms=self.retention_ms if local_ms == SAME_AS_RETENTION else local_ms,
            retention_bytes=self.retention_bytes if local_bytes == SAME_AS_RETENTION else local_bytes,
        )

    def deletable_up_to(self, partition: int, high_watermark: int) -> int:
        """The offset up to which retention may delete records of a partition: what a required table holds."""
        if self.ottla_retention_requires == "none":
            return high_watermark
        pairs = (each.split(":") for each in self.ottla_retention_table_offsets)
        held = {int(index): int(offset) for index, offset in pairs}
        return min(high_watermark, held.get(partition, 0))

    @property
    def checked_parts(self) -> tuple[str, ...]:
        """The parts of records that must name a registered schema: keys, values, or nothing."""
        keys = self.schema_validation_keys or self.confluent_key_schema_validation
        values = self.schema_validation or self.confluent_value_schema_validation
        return ("key",) * keys + ("value",) * values

    @property
    def is_compacted(self) -> bool:
        """Whether the newest value of each key is kept, so that every record needs a key."""
        return "compact" in self.cleanup_policy
