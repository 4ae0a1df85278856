"""The settings of what is written to and read from a topic."""

from ottla.config.setting import LONG_MAX, ConfigType, Form, family, setting


@family
class MessageConfig:
    """Which record batches are accepted, and how they are stored."""

    max_bytes: int = setting(
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
    gzip_level: int = setting(
        "compression.gzip.level",
        -1,
        form=Form("-1|[1-9]", "a whole number from 1 to 9, or -1"),
        dynamic=True,
        doc="The level at which gzip compresses where compression.type enforces it; -1 is the codec's own choice.",
    )
    lz4_level: int = setting(
        "compression.lz4.level",
        9,
        at_least=1,
        at_most=17,
        dynamic=True,
        doc="The level at which lz4 compresses where compression.type enforces it; 9 is the fast mode.",
    )
    zstd_level: int = setting(
        "compression.zstd.level",
        3,
        at_least=-131072,
        at_most=22,
        dynamic=True,
        doc="The level at which zstd compresses where compression.type enforces it.",
    )
    timestamp_type: str = setting(
        "log.message.timestamp.type",
        "CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        dynamic=True,
        doc="Whether a record's timestamp is the producer's or the time at which the broker appended it.",
    )
    timestamp_before_max_ms: int = setting(
        "log.message.timestamp.before.max.ms",
        LONG_MAX,
        type=ConfigType.LONG,
        at_least=0,
        dynamic=True,
        doc="A record whose timestamp is older than the broker's clock by more than this is refused.",
    )
    timestamp_after_max_ms: int = setting(
        "log.message.timestamp.after.max.ms",
        3_600_000,
        type=ConfigType.LONG,
        at_least=0,
        dynamic=True,
        doc="A record whose timestamp is ahead of the broker's clock by more than this is refused.",
    )


@family
class FetchConfig:
    """How much a fetch may take."""

    max_bytes: int = setting(
        "fetch.max.bytes",
        55 << 20,
        at_least=1024,
        doc="The most bytes that one fetch returns, whatever the client asks for; a single larger batch is still returned.",
    )
    max_incremental_session_cache_slots: int = setting(
        "max.incremental.fetch.session.cache.slots",
        1000,
        at_least=0,
        doc="How many incremental fetch sessions the broker remembers; without a slot a client sends full fetches.",
    )
