"""The settings of a producer, checked once.

Names and meanings are Kafka's, with underscores for dots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ottla.client.calls.arguments import MOST_INT32, MOST_INT64, duration_ms, flag, name_of, whole_number
from ottla.client.producer.machine.idempotence import BATCHES_REMEMBERED
from ottla.model import ACKS_ALL
from ottla.records.compression import Compression, compress

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
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    two_phase_commit: bool = False

    @property
    def is_transactional(self) -> bool:
        return self.transactional_id is not None


_BOUNDS: Final = {
    "batch_size": (1, MOST_INT64),
    "buffer_memory": (1, MOST_INT64),
    "max_request_size": (1, MOST_INT32),
    "compression_threshold": (0, MOST_INT64),
    "delivery_timeout_ms": (1, MOST_INT32),
    "request_timeout_ms": (1, MOST_INT32),
    "max_block_ms": (0, MOST_INT32),
    "retries": (0, MOST_INT64),
    "retry_backoff_ms": (0, MOST_INT32),
    "retry_backoff_max_ms": (0, MOST_INT32),
    "transaction_timeout_ms": (1, MOST_INT32),
}


def acks_of(acks: Acks) -> int:
    """The number on the wire. Raises ValueError with a sentence."""
    if acks == "all":
        return ACKS_ALL
    if acks not in (-1, 0, 1) or isinstance(acks, bool):
        raise ValueError(f'acks must be "all", 1 or 0, not {acks!r}')
    return acks


def is_idempotent(wanted: bool | None, acks: Acks) -> bool:
    """Whether batches are numbered; where the application does not say, they are if all replicas answer."""
    return acks_of(acks) == ACKS_ALL if wanted is None else wanted


def compression_named(name: CompressionName) -> Compression:
    """The codec of a name. Raises ValueError with a sentence."""
    try:
        return Compression[name.upper()]
    except (KeyError, AttributeError):
        names = ", ".join(each.name.lower() for each in Compression)
        raise ValueError(f"there is no compression {name!r}: choose from {names}") from None


def checked(settings: ProducerSettings) -> ProducerSettings:
    """The settings, if they can be carried out together. Raises TypeError or ValueError with a sentence."""
    for name, (least, most) in _BOUNDS.items():
        whole_number(name, getattr(settings, name), least, most)
    whole_number("max_in_flight_requests_per_connection", settings.max_in_flight, 1, MOST_INT32)
    duration_ms("linger_ms", settings.linger_ms)
    flag("enable_idempotence", settings.enable_idempotence)
    _check_compression_level(settings)
    if flag("two_phase_commit", settings.two_phase_commit) and settings.transactional_id is None:
        raise ValueError("two_phase_commit needs a transactional_id")
    if settings.transactional_id is not None:
        name_of("transactional_id", settings.transactional_id)
        if not settings.enable_idempotence:
            raise ValueError('transactional_id needs idempotence, and that needs acks="all"')
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


def _check_compression_level(settings: ProducerSettings) -> None:
    """Only the codec knows its levels: it is asked to compress nothing."""
    if settings.compression_level is None:
        return
    level = whole_number("compression_level", settings.compression_level, -MOST_INT32, MOST_INT32)
    try:
        compress(settings.compression, b"", level)
    except Exception as error:
        name = settings.compression.name.lower()
        raise ValueError(f"compression_level cannot be {level} with compression {name!r}: {error}") from None
