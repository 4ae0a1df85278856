"""What a dead letter says about itself: headers that Ottla's pipelines, Kafka Connect and Spring write.

dead-letter.reason, .topic, .partition, .offset, .timestamp                      Ottla
__connect.errors.topic, .partition, .offset, .exception.message                  Kafka Connect
kafka_dlt-original-topic, -partition (4 bytes), -offset (8 bytes), exception-message   Spring
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.records.record import Header

_NAMES: Final = {
    "reason": ("dead-letter.reason", "__connect.errors.exception.message", "kafka_dlt-exception-message"),
    "topic": ("dead-letter.topic", "__connect.errors.topic", "kafka_dlt-original-topic"),
    "partition": ("dead-letter.partition", "__connect.errors.partition", "kafka_dlt-original-partition"),
    "offset": ("dead-letter.offset", "__connect.errors.offset", "kafka_dlt-original-offset"),
}
_PREFIXES: Final = ("dead-letter.", "__connect.errors.", "kafka_dlt-")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a dead letter came from, and why. What its headers do not say is None."""

    reason: str | None
    topic: str | None
    partition: int | None
    offset: int | None


def origin_of(headers: tuple[Header, ...]) -> Origin | None:
    """The origin of a dead letter; None for a record that is none."""
    given = dict(headers)
    found = {part: _first(given, names) for part, names in _NAMES.items()}
    if found["topic"] is None and found["reason"] is None:
        return None
    return Origin(
        _text(found["reason"]), _text(found["topic"]), _number(found["partition"]), _number(found["offset"])
    )


def headers_before(headers: tuple[Header, ...]) -> tuple[Header, ...]:
    """The headers that the record had before it became a dead letter."""
    return tuple(each for each in headers if not each[0].startswith(_PREFIXES))


def _first(given: dict[str, bytes | None], names: tuple[str, ...]) -> bytes | None:
    return next((given[name] for name in names if given.get(name) is not None), None)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def _number(data: bytes | None) -> int | None:
    if data is None:
        return None
    if data.isdigit() and len(data) < 20:
        return int(data)
    return int.from_bytes(data, "big") if len(data) in (4, 8) else None
