"""Where a read begins and ends: an offset, a time, the start or the end of the log.

A position is "earliest", "latest", a time (a datetime, `2026-11-15T12:00:00Z`, or milliseconds since 1970),
or offsets by partition: `{0: 23, 1: 42}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

from ottla.spark.steps.arguments import StepError

Position: TypeAlias = str | int | datetime | Mapping[int, int]

_TAKES: Final = (
    "takes 'earliest', 'latest', a time such as '2026-11-15T12:00:00Z', a datetime, milliseconds since 1970, "
    "or offsets by partition such as {0: 23, 1: 42}"
)


def position_options(
    argument: str, side: Literal["starting", "ending"], value: Position, topic: str
) -> dict[str, str]:
    """The source's options for a position."""
    if value in ("earliest", "latest"):
        if side == "ending" and value == "earliest":
            raise StepError(f"{argument} is 'earliest': a read would end before its first record.")
        return {f"{side}Offsets": str(value)}
    if isinstance(value, Mapping):
        return {f"{side}Offsets": json.dumps({topic: _offsets(argument, value)})}
    return {f"{side}Timestamp": str(moment_ms(argument, value))}


def _offsets(argument: str, value: Mapping[Any, Any]) -> dict[str, int]:
    offsets = {}
    for partition, offset in value.items():
        numbers = (str(partition).isdecimal(), isinstance(offset, int) and not isinstance(offset, bool))
        if not all(numbers) or offset < -2:
            raise StepError(f"{argument} has {partition!r}: {offset!r}, but {_TAKES}.")
        offsets[str(partition)] = offset
    if not offsets:
        raise StepError(f"{argument} is empty, but {_TAKES}.")
    return offsets


def moment_ms(argument: str, value: object) -> int:
    """A time in milliseconds since 1970; one without a zone is UTC."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str):
        if value.isdecimal():
            return int(value)
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise StepError(f"{argument} is {value!r}, but {_TAKES}.") from None
    if not isinstance(value, datetime):
        raise StepError(f"{argument} is {value!r}, but {_TAKES}.")
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)
