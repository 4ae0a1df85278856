"""Where a query begins and ends, as its options say it.

Of the options for one side, the first that is given counts: one timestamp for all partitions, then one for
each, then offsets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.model import TopicPartition
from ottla.spark.option_values import OptionError, whole
from ottla.spark.source.plan.offsets import EARLIEST, parse_numbers
from ottla.spark.source.plan.positions import AtOffsets, AtTimestamp, AtTimestamps, Earliest, Latest, Position

_OFFSETS_EXAMPLE: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMESTAMPS_EXAMPLE: Final = '{"topicA":{"0":1700000000000,"1":1700000000000}}'


def parse_position(text_of: Callable[[str], str | None], side: str) -> Position | None:
    """The position on one side, "starting" or "ending"; None if no option speaks of it. `text_of` finds an
    option by its name.
    """
    if (text := text_of(f"{side}Timestamp")) is not None:
        return AtTimestamp(_timestamp_ms(f"{side}Timestamp", text))
    if (text := text_of(f"{side}OffsetsByTimestamp")) is not None:
        return AtTimestamps(_timestamps_ms(f"{side}OffsetsByTimestamp", text))
    if (text := text_of(f"{side}Offsets")) is not None:
        return _offsets(f"{side}Offsets", text)
    return None


def _timestamp_ms(name: str, text: str) -> int:
    timestamp_ms = whole(name, text)
    if timestamp_ms < 0:
        raise OptionError(f"Option '{name}' must be milliseconds since 1970, not '{text}'.")
    return timestamp_ms


def _timestamps_ms(name: str, text: str) -> dict[TopicPartition, int]:
    try:
        timestamps = parse_numbers(text)
    except ValueError as error:
        raise OptionError(
            f"Option '{name}' must be JSON such as {_TIMESTAMPS_EXAMPLE}, not '{text}': {error}."
        ) from None
    for partition, timestamp_ms in timestamps.items():
        if timestamp_ms < 0:
            raise OptionError(
                f"Option '{name}' has {timestamp_ms} for {partition}: it must be milliseconds since 1970."
            )
    return timestamps


def _offsets(name: str, text: str) -> Position:
    match text.strip().lower():
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
    try:
        offsets = parse_numbers(text)
    except ValueError as error:
        raise OptionError(
            f"Option '{name}' must be earliest, latest, or JSON such as {_OFFSETS_EXAMPLE}, not '{text}': {error}."
        ) from None
    for partition, offset in offsets.items():
        if offset < EARLIEST:
            raise OptionError(
                f"Option '{name}' has the offset {offset} for {partition}: it must be 0 or more, -1 (latest) or -2 (earliest)."
            )
    return AtOffsets(offsets)
