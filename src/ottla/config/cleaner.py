"""The settings of compaction."""

import sys

from ottla.config.setting import LONG_MAX, ConfigType, family, setting


@family
class CleanerConfig:
    """Which logs are compacted, when, and with which resources."""

    delete_retention_ms: int = setting(
        "log.cleaner.delete.retention.ms",
        86_400_000,
        type=ConfigType.LONG,
        at_least=0,
        dynamic=True,
        doc="How long a compacted topic keeps the mark that a key was deleted, so that readers can see it.",
    )
    min_cleanable_ratio: float = setting(
        "log.cleaner.min.cleanable.ratio",
        0.5,
        at_least=0,
        at_most=1,
        dynamic=True,
        doc="A log is compacted when this part of it has not been compacted yet.",
    )
    min_compaction_lag_ms: int = setting(
        "log.cleaner.min.compaction.lag.ms",
        0,
        type=ConfigType.LONG,
        at_least=0,
        dynamic=True,
        doc="A record younger than this is not compacted away.",
    )
    max_compaction_lag_ms: int = setting(
        "log.cleaner.max.compaction.lag.ms",
        LONG_MAX,
        type=ConfigType.LONG,
        at_least=1,
        dynamic=True,
        doc="A record older than this is compacted even if the log is not dirty enough yet.",
    )
    enable: bool = setting(
        "log.cleaner.enable", True, doc="Whether topics with cleanup.policy=compact are compacted at all."
    )
    dedupe_buffer_size: int = setting(
        "log.cleaner.dedupe.buffer.size",
        64 << 20,
        type=ConfigType.LONG,
        at_least=1 << 20,
        doc="The memory in which compaction remembers each key's newest offset, 20 bytes a key; a log with more keys takes several "
        "passes. Kafka's default is 128 MiB; here compaction has a process of its own, which should stay small.",
    )
    io_buffer_size: int = setting(
        "log.cleaner.io.buffer.size",
        512 << 10,
        at_least=1024,
        doc="How much compaction reads and writes at once; a larger batch is read as a whole.",
    )
    io_max_bytes_per_second: float = setting(
        "log.cleaner.io.max.bytes.per.second",
        sys.float_info.max,
        at_least=1,
        doc="How much compaction may read and write per second, together.",
    )
    backoff_ms: int = setting(
        "log.cleaner.backoff.ms",
        15_000,
        type=ConfigType.LONG,
        at_least=0,
        doc="How long compaction rests when no log needs it.",
    )
