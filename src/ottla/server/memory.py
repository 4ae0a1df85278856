"""A broker whose data is in memory (`ottla serve --memory`, `ottla.memory.bytes`).

The data directory is created for the length of the process, on a memory file system: a broker that comes back has
an empty directory with another id, and to the other brokers it is one that lost its disk.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from ottla.config import BrokerConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime.clock import monotonic_ms
from ottla.runtime.memory_directory import MemoryDirectory
from ottla.runtime.memory_disk import MemoryDisk
from ottla.runtime.runtime import Runtime

logger = logging.getLogger(__name__)

# Only whole segments are deleted: a segment must be a small part of the memory.
_SEGMENTS: Final = 64
_SMALLEST_SEGMENT_BYTES: Final = 1 << 20


@contextmanager
def data_in_memory(config: BrokerConfig) -> Iterator[tuple[BrokerConfig, Runtime]]:
    """The settings and the runtime of a broker whose data is in memory for the length of the block."""
    limit_bytes = config.logs.memory_bytes
    assert limit_bytes is not None
    directory = MemoryDirectory.create()
    try:
        if directory.free_bytes < limit_bytes:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"ottla.memory.bytes is {limit_bytes}, and the memory file system has {directory.free_bytes} bytes "
                "left: choose less, or make /dev/shm larger (in a container: --shm-size).",
            )
        _warn(config, directory)
        disk = MemoryDisk(directory.path, limit_bytes, monotonic_ms)
        yield _adapted(config, directory.path, limit_bytes), Runtime(disk=disk)
    finally:
        directory.remove()


def _warn(config: BrokerConfig, directory: MemoryDirectory) -> None:
    if not directory.is_in_memory:
        logger.warning(
            "this machine has no /dev/shm: the data is in temporary files, %s, never forced to disk",
            directory.path,
        )
    if len(config.node.voters) > 1:
        logger.warning(
            "the data of this broker is in memory: after a restart the broker is empty and fetches its replicas again; "
            "partitions without another replica are lost, and everything is if a majority of the voters is gone at once"
        )
    else:
        logger.warning("all data is in memory: it is lost when this process ends")


def _adapted(config: BrokerConfig, path: str, limit_bytes: int) -> BrokerConfig:
    logs = replace(config.logs, dirs=path)
    if "log.segment.bytes" not in config.given:
        wanted = max(_SMALLEST_SEGMENT_BYTES, limit_bytes // _SEGMENTS)
        logs = replace(logs, segment_bytes=min(logs.segment_bytes, wanted))
    if "log.segment.delete.delay.ms" not in config.given:
        logs = replace(logs, segment_delete_delay_ms=0)
    return replace(config, logs=logs)
