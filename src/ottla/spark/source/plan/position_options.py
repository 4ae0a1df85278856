"""Where a query begins and ends, from its options: what each can say, and what only a batch or only a stream can do.

Of the options for one side, the first that is given counts: one timestamp for all partitions, then one for each, then offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from ottla.model import TopicPartition
from ottla.spark.option_values import OptionError, whole
from ottla.spark.source.plan.offsets import EARLIEST, LATEST, in_words, parse_numbers
from ottla.spark.source.plan.positions import AtOffsets, AtTimestamp, AtTimestamps, Earliest, Latest, Position

if TYPE_CHECKING:
    from ottla.spark.source.plan.options import SourceOptions

_OFFSETS_EXAMPLE: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMESTAMPS_EXAMPLE: Final = '{"topicA":{"0":1700000000000,"1":1700000000000}}'


def parse_position(text_of: Callable[[str], str | None], side: str) -> Position | None:
    """The position on one side, "starting" or "ending"; None if no option speaks of it. `text_of` finds an option by its name."""
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


def for_batch(options: SourceOptions) -> tuple[Position, Position]:
    """Where a batch begins and ends; OptionError for what only a stream can do."""
    starting, ending = options.starting or Earliest(), options.ending or Latest()
    _refuse_end(starting, Latest(), LATEST, "startingOffsets", "latest", "a batch reads what is there by now")
    _refuse_end(ending, Earliest(), EARLIEST, "endingOffsets", "earliest", "nothing lies before it")
    _check_pair(starting, ending)
    return starting, ending


def _refuse_end(
    position: Position, whole_end: Position, number: int, name: str, word: str, reason: str
) -> None:
    if position == whole_end:
        raise OptionError(f"Option '{name}' cannot be {word} in a batch query: {reason}.")
    if isinstance(position, AtOffsets):
        wrong = [partition for partition, offset in position.offsets.items() if offset == number]
        if wrong:
            raise OptionError(
                f"Option '{name}' cannot be {number} ({word}) for {in_words(wrong)} in a batch query: {reason}."
            )


def _check_pair(starting: Position, ending: Position) -> None:
    match starting, ending:
        case AtOffsets(first), AtOffsets(last):
            _check_in_order("offset", first, last)
        case AtTimestamps(first), AtTimestamps(last):
            _check_in_order("timestamp", first, last)
        case AtTimestamp(since_ms), AtTimestamp(until_ms) if since_ms > until_ms:
            raise OptionError(f"'startingTimestamp' ({since_ms}) lies behind 'endingTimestamp' ({until_ms}).")


def _check_in_order(
    kind: str, first: Mapping[TopicPartition, int], last: Mapping[TopicPartition, int]
) -> None:
    if first.keys() != last.keys():
        raise OptionError(
            f"The starting and the ending {kind}s must name the same partitions. "
            f"Starting: {in_words(first)}. Ending: {in_words(last)}."
        )
    for partition, start in first.items():
        if 0 <= last[partition] < start:
            raise OptionError(
                f"The starting {kind} {start} of {partition} lies behind its ending {kind} {last[partition]}."
            )


def for_stream(options: SourceOptions) -> Position:
    """Where a new query begins; OptionError for what only a batch can do."""
    for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
        if name.lower() in options.given:
            raise OptionError(f"Option '{name}' is only for batch queries: a stream has no end.")
    return options.starting or Latest()
