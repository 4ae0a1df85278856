"""The settings of a broker. Names, types, defaults and bounds are Kafka's, except for those that begin with `ottla.`.

Only what this broker honours is declared: a name that stands here does something. The settings marked
`dynamic` may be changed while it runs, with AlterConfigs on the broker or on the default of all brokers;
they are the defaults of topic settings (config/topic.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

from ottla.config import cleaner, connections, groups, quorum, replication
from ottla.config.listeners import Listener, Voter, parse_listener
from ottla.config.setting import LONG_MAX, ConfigError, ConfigType, parse_values, setting

INT, LONG, STRING = ConfigType.INT, ConfigType.LONG, ConfigType.STRING

# Pairs of which the first must not be larger than the second.
_ORDERED: Final = (
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("broker.heartbeat.interval.ms", "broker.session.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
)


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
    # The cluster: roles, the metadata quorum, who counts as alive (config/quorum.py)
    process_roles: tuple[str, ...] = quorum.PROCESS_ROLES
    controller_quorum_voters: tuple[str, ...] = quorum.QUORUM_VOTERS
    ottla_cluster_id: str | None = quorum.CLUSTER_ID
    controller_quorum_election_timeout_ms: int = quorum.ELECTION_TIMEOUT_MS
    controller_quorum_election_backoff_max_ms: int = quorum.ELECTION_BACKOFF_MAX_MS
    controller_quorum_fetch_timeout_ms: int = quorum.FETCH_TIMEOUT_MS
    controller_quorum_request_timeout_ms: int = quorum.REQUEST_TIMEOUT_MS
    controller_quorum_retry_backoff_ms: int = quorum.RETRY_BACKOFF_MS
    metadata_log_max_record_bytes_between_snapshots: int = quorum.MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS
    broker_heartbeat_interval_ms: int = quorum.HEARTBEAT_INTERVAL_MS
    broker_session_timeout_ms: int = quorum.SESSION_TIMEOUT_MS
    ottla_broker_disconnect_grace_ms: int = quorum.DISCONNECT_GRACE_MS
    ottla_broker_capacity: int = quorum.CAPACITY
    controlled_shutdown_enable: bool = quorum.CONTROLLED_SHUTDOWN_ENABLE
    auto_leader_rebalance_enable: bool = quorum.LEADER_REBALANCE_ENABLE
    leader_imbalance_check_interval_seconds: int = quorum.LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS
    leader_imbalance_per_broker_percentage: int = quorum.LEADER_IMBALANCE_PER_BROKER_PERCENTAGE
    # Replication between brokers (config/replication.py)
    replica_lag_time_max_ms: int = replication.LAG_TIME_MAX_MS
    replica_fetch_wait_max_ms: int = replication.FETCH_WAIT_MAX_MS
    replica_fetch_min_bytes: int = replication.FETCH_MIN_BYTES
    replica_fetch_max_bytes: int = replication.FETCH_MAX_BYTES
    replica_fetch_response_max_bytes: int = replication.FETCH_RESPONSE_MAX_BYTES
    replica_fetch_backoff_ms: int = replication.FETCH_BACKOFF_MS
    leader_replication_throttled_rate: int = replication.LEADER_THROTTLED_RATE
    follower_replication_throttled_rate: int = replication.FOLLOWER_THROTTLED_RATE
    # Connections (config/connections.py)
    socket_request_max_bytes: int = connections.REQUEST_MAX_BYTES
    socket_send_buffer_bytes: int = connections.SEND_BUFFER_BYTES
    socket_receive_buffer_bytes: int = connections.RECEIVE_BUFFER_BYTES
    socket_listen_backlog_size: int = connections.LISTEN_BACKLOG_SIZE
    max_connections: int = connections.MAX_CONNECTIONS
    max_connections_per_ip: int = connections.MAX_CONNECTIONS_PER_IP
    connections_max_idle_ms: int = connections.MAX_IDLE_MS
    ottla_connection_response_bytes: int = connections.RESPONSE_BYTES
    ottla_idle_buffer_release_ms: int = connections.IDLE_BUFFER_RELEASE_MS
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
        return parse_listener("listeners", self.listeners)

    @property
    def advertised_listener(self) -> Listener:
        """What to tell clients. A host that is empty, or port 0, is for the server to fill in."""
        if self.advertised_listeners is None:
            return self.listener
        return parse_listener("advertised.listeners", self.advertised_listeners)

    @property
    def voters(self) -> tuple[Voter, ...]:
        """The voters of the metadata quorum in the order of their ids; none if this node alone is the quorum."""
        return quorum.parse_voters(self.controller_quorum_voters)

    @property
    def is_broker(self) -> bool:
        """Whether this node holds topics and serves clients."""
        return quorum.BROKER in self.process_roles

    @property
    def is_voter(self) -> bool:
        """Whether this node votes in the metadata quorum."""
        return quorum.CONTROLLER in self.process_roles

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
        quorum.refuse_role(self.node_id, self.process_roles, self.voters)
        quorum.refuse_cluster_id(self.ottla_cluster_id)
        for lower, higher in _ORDERED:
            low, high = (getattr(self, name.replace(".", "_")) for name in (lower, higher))
            if low > high:
                raise ConfigError(f"{lower} ({low}) cannot exceed {higher} ({high}).")
