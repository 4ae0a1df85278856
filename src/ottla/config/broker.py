"""The settings of a broker. Names, types, defaults and bounds are Kafka's, except for those that begin with `ottla.`.

Only what this broker honours is declared: a name that stands here does something. The settings marked
`dynamic` may be changed while it runs, with AlterConfigs on the broker or on the default of all brokers;
they are the defaults of topic settings (config/topic.py).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from ottla.config import cleaner, groups
from ottla.config.setting import INT_MAX, LONG_MAX, ConfigError, ConfigType, parse_values, setting

INT, LONG, STRING = ConfigType.INT, ConfigType.LONG, ConfigType.STRING

_LISTENER = re.compile(r"([A-Za-z0-9_-]+)://(?:\[([0-9A-Fa-f:.%]+)\]|([^\[\]:/,\s]*)):([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Listener:
    """Where a broker listens. An empty host is every interface; port 0 lets the kernel choose."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """All settings of one broker, as its operator gave them or by default."""

    # Who the broker is and where it listens
    node_id: int = setting(
        "node.id", 1, at_least=0, doc="The number of this node; each node of a cluster has its own."
    )
    broker_rack: str | None = setting(
        "broker.rack",
        None,
        type=STRING,
        doc="The rack or zone of this broker; replicas are spread over racks.",
    )
    listeners: str = setting(
        "listeners",
        "PLAINTEXT://localhost:9092",
        doc="Where the broker listens, as PLAINTEXT://host:port. Without a host it listens on every interface.",
    )
    advertised_listeners: str | None = setting(
        "advertised.listeners",
        None,
        type=STRING,
        doc="The address that clients are told to connect to; if not set, the one in listeners.",
    )
    # Connections
    socket_request_max_bytes: int = setting(
        "socket.request.max.bytes",
        100 << 20,
        at_least=1,
        doc="The largest request accepted; a connection that announces a larger one is closed.",
    )
    socket_send_buffer_bytes: int = setting(
        "socket.send.buffer.bytes",
        256 << 10,
        at_least=-1,
        doc="The kernel's send buffer of each connection; -1 leaves it to the operating system, which grows it with the "
        "connection's speed: better over long distances, and some 15 % more CPU per byte on a local network.",
    )
    socket_receive_buffer_bytes: int = setting(
        "socket.receive.buffer.bytes",
        -1,
        at_least=-1,
        doc="The kernel's receive buffer of each connection; -1 leaves it to the operating system, which grows it "
        "with the connection's speed. Kafka's 102400 switches that off.",
    )
    socket_listen_backlog_size: int = setting(
        "socket.listen.backlog.size",
        1024,
        at_least=1,
        doc="How many connections may wait to be accepted; the operating system may cap it. With Kafka's 50 a storm of "
        "connections would make clients wait a second and try again.",
    )
    max_connections: int = setting(
        "max.connections",
        INT_MAX,
        at_least=0,
        doc="How many connections the broker keeps open; beyond that new ones are closed at once.",
    )
    max_connections_per_ip: int = setting(
        "max.connections.per.ip",
        INT_MAX,
        at_least=0,
        doc="How many connections one client address may keep open.",
    )
    connections_max_idle_ms: int = setting(
        "connections.max.idle.ms",
        600_000,
        type=LONG,
        doc="A connection without a request for this long is closed; -1 keeps idle connections.",
        at_least=-1,
    )
    ottla_connection_response_bytes: int = setting(
        "ottla.connection.response.bytes",
        64 << 20,
        at_least=1,
        doc="Responses that one connection may have waiting to be sent; beyond that no more of its requests are read. "
        "Kafka sends one response at a time; here requests are pipelined, so a slow reader needs a limit.",
    )
    ottla_idle_buffer_release_ms: int = setting(
        "ottla.idle.buffer.release.ms",
        10_000,
        type=LONG,
        at_least=0,
        doc="A connection's large receive buffer is given back after this long without use. "
        "Kafka has no such buffer; here it makes busy connections fast and must not cost memory when idle.",
    )
    # Topics
    auto_create_topics_enable: bool = setting(
        "auto.create.topics.enable",
        True,
        doc="Whether a client that asks for a topic that does not exist causes it to be created.",
    )
    delete_topic_enable: bool = setting(
        "delete.topic.enable", True, doc="Whether topics can be deleted by a client."
    )
    num_partitions: int = setting(
        "num.partitions",
        1,
        at_least=1,
        doc="The partitions of a new topic whose creator did not say how many.",
    )
    default_replication_factor: int = setting(
        "default.replication.factor",
        1,
        at_least=1,
        at_most=2**15 - 1,
        doc="The replicas of each partition of a new topic whose creator did not say how many.",
    )
    min_insync_replicas: int = setting(
        "min.insync.replicas",
        1,
        at_least=1,
        dynamic=True,
        doc="An acks=all write is refused while fewer replicas than this are in sync.",
    )
    unclean_leader_election_enable: bool = setting(
        "unclean.leader.election.enable",
        False,
        dynamic=True,
        doc="Whether a replica that is not in sync may become leader when no other is left; that loses records.",
    )
    max_request_partition_size_limit: int = setting(
        "max.request.partition.size.limit",
        2000,
        at_least=1,
        doc="The most partitions that one answer to DescribeTopicPartitions holds.",
    )
    # Messages
    message_max_bytes: int = setting(
        "message.max.bytes",
        (1 << 20) + 12,
        at_least=0,
        dynamic=True,
        doc="The largest record batch accepted, after compression.",
    )
    compression_type: str = setting(
        "compression.type",
        "producer",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        dynamic=True,
        doc="How batches are stored: 'producer' keeps what the producer chose, anything else is enforced.",
    )
    log_message_timestamp_type: str = setting(
        "log.message.timestamp.type",
        "CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        dynamic=True,
        doc="Whether a record's timestamp is the producer's or the time at which the broker appended it.",
    )
    log_message_timestamp_before_max_ms: int = setting(
        "log.message.timestamp.before.max.ms",
        LONG_MAX,
        type=LONG,
        at_least=0,
        dynamic=True,
        doc="A record whose timestamp is older than the broker's clock by more than this is refused.",
    )
    log_message_timestamp_after_max_ms: int = setting(
        "log.message.timestamp.after.max.ms",
        3_600_000,
        type=LONG,
        at_least=0,
        dynamic=True,
        doc="A record whose timestamp is ahead of the broker's clock by more than this is refused.",
    )
    # Fetching
    fetch_max_bytes: int = setting(
        "fetch.max.bytes",
        55 << 20,
        at_least=1024,
        doc="The most that one fetch answers, whatever the client asks for; a single larger batch still goes out.",
    )
    max_incremental_fetch_session_cache_slots: int = setting(
        "max.incremental.fetch.session.cache.slots",
        1000,
        at_least=0,
        doc="How many incremental fetch sessions the broker remembers; without a slot a client sends full fetches.",
    )
    # Where and how logs are kept
    log_dir: str = setting(
        "log.dir", "./ottla-data", doc="The directory that holds the data; log.dirs comes before it."
    )
    log_dirs: str | None = setting(
        "log.dirs",
        None,
        type=STRING,
        doc="The directory that holds the data. Only one directory is supported.",
    )
    log_segment_bytes: int = setting(
        "log.segment.bytes",
        1 << 30,
        at_least=14,
        dynamic=True,
        doc="A log is a row of segment files; a new one is begun when the last has reached this size.",
    )
    log_roll_ms: int | None = setting(
        "log.roll.ms",
        None,
        type=LONG,
        at_least=1,
        dynamic=True,
        doc="A new segment is begun when the last one is this old, even if it is not full; "
        "if not set, log.roll.hours counts.",
    )
    log_roll_hours: int = setting("log.roll.hours", 168, at_least=1, doc="As log.roll.ms, in hours.")
    log_roll_jitter_ms: int | None = setting(
        "log.roll.jitter.ms",
        None,
        type=LONG,
        at_least=0,
        dynamic=True,
        doc="A random time up to this is taken off the age at which a segment rolls, so that not all roll together; "
        "if not set, log.roll.jitter.hours counts.",
    )
    log_roll_jitter_hours: int = setting(
        "log.roll.jitter.hours", 0, at_least=0, doc="As log.roll.jitter.ms, in hours."
    )
    log_index_size_max_bytes: int = setting(
        "log.index.size.max.bytes",
        10 << 20,
        at_least=4,
        dynamic=True,
        doc="The largest size of a segment's offset index; the segment rolls when it is full.",
    )
    log_index_interval_bytes: int = setting(
        "log.index.interval.bytes",
        4096,
        at_least=0,
        dynamic=True,
        doc="How many bytes of log lie between two index entries; fewer find a record faster and take more space.",
    )
    log_preallocate: bool = setting(
        "log.preallocate",
        False,
        dynamic=True,
        doc="Accepted, so that topics defined for Kafka can be created; it has no effect here.",
    )
    log_segment_delete_delay_ms: int = setting(
        "log.segment.delete.delay.ms",
        60_000,
        type=LONG,
        at_least=0,
        dynamic=True,
        doc="How long a deleted segment's file stays on disk, renamed, before it is removed.",
    )
    ottla_open_files_max: int = setting(
        "ottla.open.files.max",
        1024,
        at_least=16,
        doc="How many segment files and indexes are kept open at most; the least used are closed and opened again when "
        "needed. Kafka keeps all of them open and needs the operating system's limit raised.",
    )
    # When data is forced to disk
    log_flush_interval_messages: int = setting(
        "log.flush.interval.messages",
        LONG_MAX,
        type=LONG,
        at_least=1,
        dynamic=True,
        doc="A log is forced to disk (fsync) when this many records were appended since the last time.",
    )
    log_flush_interval_ms: int | None = setting(
        "log.flush.interval.ms",
        None,
        type=LONG,
        at_least=0,
        dynamic=True,
        doc="A log is forced to disk when its oldest unforced record is this old; "
        "if not set, log.flush.scheduler.interval.ms counts.",
    )
    log_flush_scheduler_interval_ms: int = setting(
        "log.flush.scheduler.interval.ms",
        LONG_MAX,
        type=LONG,
        at_least=1,
        doc="How often the broker looks for logs that log.flush.interval.ms wants forced to disk.",
    )
    log_flush_offset_checkpoint_interval_ms: int = setting(
        "log.flush.offset.checkpoint.interval.ms",
        60_000,
        at_least=1,
        doc="How often it is written down up to where each log is on disk, and where it begins; recovery starts there.",
    )
    ottla_flush_bytes: int = setting(
        "ottla.flush.bytes",
        LONG_MAX,
        type=LONG,
        at_least=1,
        dynamic=True,
        doc="A log is forced to disk when this many bytes were appended since the last time. Kafka counts records, "
        "which says little about how much a power cut may take.",
    )
    ottla_flush_on_acks_all: bool = setting(
        "ottla.flush.on.acks.all",
        False,
        dynamic=True,
        doc="Whether an acks=all write is answered only when it is forced to disk; one fsync serves all writers that "
        "wait. Kafka trusts the replicas; a single node has none.",
    )
    # When data is deleted
    log_cleanup_policy: tuple[str, ...] = setting(
        "log.cleanup.policy",
        ("delete",),
        choices=("delete", "compact"),
        dynamic=True,
        doc="What happens to old data: 'delete' drops old segments, 'compact' keeps the newest value of each key; "
        "if empty, everything is kept.",
    )
    log_retention_bytes: int = setting(
        "log.retention.bytes",
        -1,
        type=LONG,
        at_least=-1,
        dynamic=True,
        doc="Old segments are deleted while a partition is larger than this; -1 is no limit.",
    )
    log_retention_ms: int | None = setting(
        "log.retention.ms",
        None,
        type=LONG,
        at_least=-1,
        dynamic=True,
        doc="A segment is deleted when its newest record is older than this; -1 keeps it for ever; "
        "if not set, log.retention.minutes counts, then log.retention.hours.",
    )
    log_retention_minutes: int | None = setting(
        "log.retention.minutes", None, type=INT, at_least=-1, doc="As log.retention.ms, in minutes."
    )
    log_retention_hours: int = setting(
        "log.retention.hours", 168, at_least=-1, doc="As log.retention.ms, in hours."
    )
    log_retention_check_interval_ms: int = setting(
        "log.retention.check.interval.ms",
        300_000,
        type=LONG,
        at_least=1,
        doc="How often the broker looks for segments to delete.",
    )
    log_cleaner_delete_retention_ms: int = setting(
        "log.cleaner.delete.retention.ms",
        86_400_000,
        type=LONG,
        at_least=0,
        dynamic=True,
        doc="How long a compacted topic keeps the mark that a key was deleted, so that readers can see it.",
    )
    log_cleaner_min_cleanable_ratio: float = setting(
        "log.cleaner.min.cleanable.ratio",
        0.5,
        at_least=0,
        at_most=1,
        dynamic=True,
        doc="A log is compacted when this part of it has not been compacted yet.",
    )
    log_cleaner_min_compaction_lag_ms: int = setting(
        "log.cleaner.min.compaction.lag.ms",
        0,
        type=LONG,
        at_least=0,
        dynamic=True,
        doc="A record younger than this is not compacted away.",
    )
    log_cleaner_max_compaction_lag_ms: int = setting(
        "log.cleaner.max.compaction.lag.ms",
        LONG_MAX,
        type=LONG,
        at_least=1,
        dynamic=True,
        doc="A record older than this is compacted even if the log is not dirty enough yet.",
    )
    # Compaction (config/cleaner.py)
    log_cleaner_enable: bool = cleaner.ENABLE
    log_cleaner_dedupe_buffer_size: int = cleaner.DEDUPE_BUFFER_SIZE
    log_cleaner_io_buffer_size: int = cleaner.IO_BUFFER_SIZE
    log_cleaner_io_max_bytes_per_second: float = cleaner.IO_MAX_BYTES_PER_SECOND
    log_cleaner_backoff_ms: int = cleaner.BACKOFF_MS
    # Idempotent producers
    producer_id_expiration_ms: int = setting(
        "producer.id.expiration.ms",
        86_400_000,
        at_least=1,
        doc="A partition forgets an idempotent producer that wrote nothing for this long.",
    )
    producer_id_expiration_check_interval_ms: int = setting(
        "producer.id.expiration.check.interval.ms",
        600_000,
        at_least=1,
        doc="How often the broker looks for producers to forget.",
    )
    # Consumer groups and their offsets (config/groups.py)
    group_initial_rebalance_delay_ms: int = groups.INITIAL_REBALANCE_DELAY_MS
    group_min_session_timeout_ms: int = groups.MIN_SESSION_TIMEOUT_MS
    group_max_session_timeout_ms: int = groups.MAX_SESSION_TIMEOUT_MS
    group_max_size: int = groups.MAX_SIZE
    offsets_retention_minutes: int = groups.RETENTION_MINUTES
    offsets_retention_check_interval_ms: int = groups.RETENTION_CHECK_INTERVAL_MS
    offset_metadata_max_bytes: int = groups.METADATA_MAX_BYTES
    offsets_topic_num_partitions: int = groups.TOPIC_NUM_PARTITIONS
    offsets_topic_replication_factor: int = groups.TOPIC_REPLICATION_FACTOR
    offsets_topic_segment_bytes: int = groups.TOPIC_SEGMENT_BYTES

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
        values = parse_values(type(self), properties)
        return replace(self, **values, given=self.given | properties.keys())

    @property
    def listener(self) -> Listener:
        """Where to listen."""
        return _parse_listener("listeners", self.listeners)

    @property
    def advertised_listener(self) -> Listener:
        """What to tell clients. A host that is empty, or port 0, is for the server to fill in."""
        if self.advertised_listeners is None:
            return self.listener
        return _parse_listener("advertised.listeners", self.advertised_listeners)

    @property
    def data_directory(self) -> str:
        """The one directory that holds all logs."""
        return self.log_dir if self.log_dirs is None else self.log_dirs

    def refuse_contradictions(self) -> None:
        """Raise ConfigError if the settings, each fine by itself, cannot be used together."""
        _ = self.listener
        if self.advertised_listener.host in ("0.0.0.0", "::"):
            raise ConfigError(
                f"Clients cannot connect to {self.advertised_listener.host}: set advertised.listeners to the address "
                "by which they reach this broker, for example PLAINTEXT://broker.example.org:9092."
            )
        if not self.data_directory or "," in self.data_directory:
            raise ConfigError(f"log.dirs cannot be '{self.data_directory}': it must be one directory.")
        low, high = self.log_cleaner_min_compaction_lag_ms, self.log_cleaner_max_compaction_lag_ms
        if low > high:
            raise ConfigError(
                f"log.cleaner.min.compaction.lag.ms ({low}) cannot exceed log.cleaner.max.compaction.lag.ms ({high})."
            )
        low, high = self.group_min_session_timeout_ms, self.group_max_session_timeout_ms
        if low > high:
            raise ConfigError(
                f"group.min.session.timeout.ms ({low}) cannot exceed group.max.session.timeout.ms ({high})."
            )


def _parse_listener(setting_name: str, text: str) -> Listener:
    match = _LISTENER.fullmatch(text.strip())
    if match is None or int(match[4]) > 65535:
        raise ConfigError(
            f"{setting_name} cannot be '{text}': it must be one address such as PLAINTEXT://localhost:9092."
        )
    if match[1].upper() != "PLAINTEXT":
        raise ConfigError(f"{setting_name} cannot be '{text}': only PLAINTEXT listeners are supported.")
    return Listener(match[1].upper(), match[2] or match[3], int(match[4]))
