"""The settings of logs on disk: where they are kept, when they are flushed, what is deleted."""

from typing import Final

from ottla.config.setting import LONG_MAX, ConfigError, ConfigType, family, setting

DEFAULT_MEMORY_BYTES: Final = 1 << 30  # of `ottla serve --memory`, for ottla.memory.bytes


@family
class LogConfig:
    """Where logs are kept, and how a log is divided into segments and indexed."""

    dir: str = setting(
        "log.dir", "./ottla-data", doc="The directory that holds the data; log.dirs takes precedence."
    )
    dirs: str | None = setting(
        "log.dirs",
        None,
        type=ConfigType.STRING,
        doc="The directory that holds the data. Only one directory is supported.",
    )
    segment_bytes: int = setting(
        "log.segment.bytes",
        1 << 30,
        at_least=14,
        dynamic=True,
        doc="A log is a sequence of segment files; a new one is started when the last has reached this size.",
    )
    roll_ms: int | None = setting(
        "log.roll.ms",
        None,
        type=ConfigType.LONG,
        at_least=1,
        dynamic=True,
        doc="A new segment is started when the last one is this old, even if it is not full; "
        "if not set, log.roll.hours counts.",
    )
    roll_hours: int = setting("log.roll.hours", 168, at_least=1, doc="As log.roll.ms, in hours.")
    roll_jitter_ms: int | None = setting(
        "log.roll.jitter.ms",
        None,
        type=ConfigType.LONG,
        at_least=0,
        dynamic=True,
        doc="A random time up to this is taken off the age at which a segment rolls, so that not all roll together; "
        "if not set, log.roll.jitter.hours counts.",
    )
    roll_jitter_hours: int = setting(
        "log.roll.jitter.hours", 0, at_least=0, doc="As log.roll.jitter.ms, in hours."
    )
    index_size_max_bytes: int = setting(
        "log.index.size.max.bytes",
        10 << 20,
        at_least=4,
        dynamic=True,
        doc="The largest size of a segment's offset index; the segment rolls when it is full.",
    )
    index_interval_bytes: int = setting(
        "log.index.interval.bytes",
        4096,
        at_least=0,
        dynamic=True,
        doc="How many bytes of log lie between two index entries; fewer find a record faster and take more space.",
    )
    preallocate: bool = setting(
        "log.preallocate",
        False,
        dynamic=True,
        has_effect=False,
        doc="Whether the file of a new segment gets its full size at once.",
    )
    segment_delete_delay_ms: int = setting(
        "log.segment.delete.delay.ms",
        60_000,
        type=ConfigType.LONG,
        at_least=0,
        dynamic=True,
        doc="How long a deleted segment's file stays on disk, renamed, before it is removed.",
    )
    open_files_max: int = setting(
        "ottla.open.files.max",
        1024,
        at_least=16,
        doc="How many segment files and indexes are kept open at most; the least used are closed and opened again when "
        "needed. Kafka keeps all of them open and needs the operating system's limit raised.",
    )

    memory_bytes: int | None = setting(
        "ottla.memory.bytes",
        None,
        type=ConfigType.LONG,
        at_least=16 << 20,
        doc="Keep all data in memory, at most this much, and nothing on disk: a restart loses it. The oldest segments of all "
        "topics are deleted before the memory is full. Kafka has no such mode; not set: data is on disk, in log.dirs.",
    )

    @property
    def directory(self) -> str:
        """The one directory that holds all logs."""
        return self.dir if self.dirs is None else self.dirs

    def refuse_directory(self) -> None:
        """Raise ConfigError if the data directory is not one directory."""
        if not self.directory or "," in self.directory:
            raise ConfigError(
                f"log.dirs cannot be '{self.directory}': it must be one directory; "
                "of several disks make one volume, or run a broker on each."
            )


@family
class FlushConfig:
    """When a log is forced to disk."""

    interval_messages: int = setting(
        "log.flush.interval.messages",
        LONG_MAX,
        type=ConfigType.LONG,
        at_least=1,
        dynamic=True,
        doc="A log is forced to disk (fsync) when this many records were appended since the last time.",
    )
    interval_ms: int | None = setting(
        "log.flush.interval.ms",
        None,
        type=ConfigType.LONG,
        at_least=0,
        dynamic=True,
        doc="A log is forced to disk when its oldest unforced record is this old; "
        "if not set, log.flush.scheduler.interval.ms counts.",
    )
    scheduler_interval_ms: int = setting(
        "log.flush.scheduler.interval.ms",
        LONG_MAX,
        type=ConfigType.LONG,
        at_least=1,
        doc="How often the broker looks for logs that log.flush.interval.ms wants forced to disk.",
    )
    offset_checkpoint_interval_ms: int = setting(
        "log.flush.offset.checkpoint.interval.ms",
        60_000,
        at_least=1,
        doc="How often the broker writes a checkpoint of each log's flushed offset and start offset; recovery starts there.",
    )
    bytes: int = setting(
        "ottla.flush.bytes",
        LONG_MAX,
        type=ConfigType.LONG,
        at_least=1,
        dynamic=True,
        doc="A log is forced to disk when this many bytes were appended since the last time. Kafka counts records, "
        "which says little about how much a power cut may take.",
    )
    on_acks_all: bool = setting(
        "ottla.flush.on.acks.all",
        False,
        dynamic=True,
        doc="Whether an acks=all write is answered only when it is forced to disk; one fsync serves all writers that "
        "wait. Kafka trusts the replicas; a single node has none.",
    )


@family
class RetentionConfig:
    """When old data is deleted."""

    cleanup_policy: tuple[str, ...] = setting(
        "log.cleanup.policy",
        ("delete",),
        choices=("delete", "compact"),
        dynamic=True,
        doc="The treatment of old data: 'delete' drops old segments, 'compact' keeps the newest value of each key; "
        "if empty, everything is kept.",
    )
    bytes: int = setting(
        "log.retention.bytes",
        -1,
        type=ConfigType.LONG,
        at_least=-1,
        dynamic=True,
        doc="Old segments are deleted while a partition is larger than this; -1 is no limit.",
    )
    ms: int | None = setting(
        "log.retention.ms",
        None,
        type=ConfigType.LONG,
        at_least=-1,
        dynamic=True,
        doc="A segment is deleted when its newest record is older than this; -1 keeps it for ever; "
        "if not set, log.retention.minutes counts, then log.retention.hours.",
    )
    minutes: int | None = setting(
        "log.retention.minutes",
        None,
        type=ConfigType.INT,
        at_least=-1,
        doc="As log.retention.ms, in minutes.",
    )
    hours: int = setting("log.retention.hours", 168, at_least=-1, doc="As log.retention.ms, in hours.")
    local_bytes: int = setting(
        "log.local.retention.bytes",
        -2,
        type=ConfigType.LONG,
        at_least=-2,
        dynamic=True,
        doc="How much of a partition with remote storage stays on local disks; -2: as much as log.retention.bytes "
        "says. A segment that the object store does not hold is never deleted for this.",
    )
    local_ms: int = setting(
        "log.local.retention.ms",
        -2,
        type=ConfigType.LONG,
        at_least=-2,
        dynamic=True,
        doc="How long a segment of a partition with remote storage stays on local disks; -2: as long as "
        "log.retention.ms says. A segment that the object store does not hold is never deleted for this.",
    )
    check_interval_ms: int = setting(
        "log.retention.check.interval.ms",
        300_000,
        type=ConfigType.LONG,
        at_least=1,
        doc="How often the broker looks for segments to delete.",
    )


@family
class ProducerIdConfig:
    """How long a partition remembers an idempotent producer."""

    expiration_ms: int = setting(
        "producer.id.expiration.ms",
        86_400_000,
        at_least=1,
        dynamic=True,
        doc="A partition forgets an idempotent producer that wrote nothing for this long.",
    )
    expiration_check_interval_ms: int = setting(
        "producer.id.expiration.check.interval.ms",
        600_000,
        at_least=1,
        doc="How often the broker looks for producers to forget.",
    )
