"""Where a query begins and ends: the options' positions, or the defaults of a batch and of a stream.

Options that only a batch or only a stream can have are refused here, when the query starts.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.model import TopicPartition
from ottla.spark.option_values import OptionError
from ottla.spark.source.plan.offsets import EARLIEST, LATEST, in_words
from ottla.spark.source.plan.options import SourceOptions
from ottla.spark.source.plan.positions import AtOffsets, AtTimestamp, AtTimestamps, Earliest, Latest, Position


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
            raise OptionError(f"'startingTimestamp' ({since_ms}) is after 'endingTimestamp' ({until_ms}).")


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
                f"The starting {kind} {start} of {partition} is after its ending {kind} {last[partition]}."
            )


def for_stream(options: SourceOptions) -> Position:
    """Where a new query begins; OptionError for what only a batch can do."""
    for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
        if name.lower() in options.given:
            raise OptionError(f"Option '{name}' is only for batch queries: a stream has no end.")
    return options.starting or Latest()
