"""The settings of a producer, checked once.

Names and meanings are Kafka's, with underscores for dots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ottla.client.producer.machine.idempotence import BATCHES_REMEMBERED
from ottla.model import ACKS_ALL
from ottla.records.compression import Compression

Acks: TypeAlias = Literal["all", -1, 0, 1]
CompressionName: TypeAlias = Literal["none", "gzip", "snappy", "lz4", "zstd"]


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """The settings of a `Producer`, which documents them and has the defaults."""

    acks: int
    enable_idempotence: bool
    batch_size: int
    linger_ms: float
    buffer_memory: int
    max_request_size: int
    max_in_flight: int
    compression: Compression
    compression_level: int | None
    compression_threshold: int
    delivery_timeout_ms: int
    request_timeout_ms: int
    max_block_ms: int
    retries: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int


def acks_of(acks: Acks) -> int:
    """The number on the wire. Raises ValueError with a sentence."""
    if acks == "all":
        return ACKS_ALL
    if acks not in (-1, 0, 1) or isinstance(acks, bool):
        raise ValueError(f'acks must be "all", 1 or 0, not {acks!r}')
    return acks


def compression_named(name: CompressionName) -> Compression:
    """The codec of a name. Raises ValueError with a sentence."""
    try:
        return Compression[name.upper()]
    except (KeyError, AttributeError):
        names = ", ".join(each.name.lower() for each in Compression)
        raise ValueError(f"there is no compression {name!r}: choose from {names}") from None


def checked(settings: ProducerSettings) -> ProducerSettings:
    """The settings, if they can be carried out together. Raises ValueError with a sentence."""
    _at_least(settings, 1, "batch_size", "buffer_memory", "max_request_size", "max_in_flight")
    _at_least(settings, 0, "linger_ms", "retries", "retry_backoff_ms", "retry_backoff_max_ms", "max_block_ms")
    _at_least(settings, 0, "compression_threshold")
    _at_least(settings, 1, "delivery_timeout_ms", "request_timeout_ms")
    if settings.enable_idempotence:
        if settings.acks != ACKS_ALL:
            raise ValueError(
                f'idempotence needs acks="all": set that, or enable_idempotence=False to keep acks={settings.acks}'
            )
        if settings.max_in_flight > BATCHES_REMEMBERED:
            raise ValueError(
                f"idempotence allows {BATCHES_REMEMBERED} requests in flight at most, not {settings.max_in_flight}: "
                "a broker remembers no more batches"
            )
    if settings.max_request_size > settings.buffer_memory:
        raise ValueError(
            f"buffer_memory ({settings.buffer_memory}) must hold one request at least "
            f"(max_request_size is {settings.max_request_size})"
        )
    return settings


def _at_least(settings: ProducerSettings, least: int, *names: str) -> None:
    for name in names:
        if getattr(settings, name) < least:
            raise ValueError(f"{name} must be {least} or more, not {getattr(settings, name)}")
