"""The broker's settings about compaction; `BrokerConfig` lists them with all others."""

import sys
from typing import Any, Final

from ottla.config.setting import ConfigType, setting

LONG = ConfigType.LONG

ENABLE: Final[Any] = setting(
    "log.cleaner.enable", True, doc="Whether topics with cleanup.policy=compact are compacted at all."
)
DEDUPE_BUFFER_SIZE: Final[Any] = setting(
    "log.cleaner.dedupe.buffer.size",
    64 << 20,
    type=LONG,
    at_least=1 << 20,
    doc="The memory in which compaction remembers each key's newest offset, 20 bytes a key; a log with more keys takes several "
    "passes. Kafka's default is 128 MiB; here compaction has a process of its own, which should stay small.",
)
IO_BUFFER_SIZE: Final[Any] = setting(
    "log.cleaner.io.buffer.size",
    512 << 10,
    at_least=1024,
    doc="How much compaction reads and writes at once; a larger batch is read as a whole.",
)
IO_MAX_BYTES_PER_SECOND: Final[Any] = setting(
    "log.cleaner.io.max.bytes.per.second",
    sys.float_info.max,
    at_least=1,
    doc="How much compaction may read and write per second, together.",
)
BACKOFF_MS: Final[Any] = setting(
    "log.cleaner.backoff.ms",
    15_000,
    type=LONG,
    at_least=0,
    doc="How long compaction rests when no log needs it.",
)
