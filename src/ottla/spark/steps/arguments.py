"""Arguments of steps, checked before Spark sees them: each message names the argument, its value, and what it
takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

_DURATION: Final = re.compile(
    r"(?P<number>\d+)\s*(?P<unit>milliseconds?|ms|seconds?|s|minutes?|min|m|hours?|h|days?|d)", re.IGNORECASE
)
_UNITS: Final = {"ms": "millisecond", "s": "second", "m": "minute", "min": "minute", "h": "hour", "d": "day"}


class StepError(ValueError):
    """A step was given something that it cannot work with."""


def duration(argument: str, value: object) -> str:
    """A duration in Spark's words: `30 seconds` of "30s"."""
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise StepError(
            f"{argument} is {value!r}, but takes a duration such as '30 seconds', '1 minute' or '2h'."
        )
    unit = found["unit"].lower()
    return f"{int(found['number'])} {_UNITS.get(unit, unit.removesuffix('s'))}s"


def duration_above_zero(argument: str, value: object) -> str:
    """A duration that is longer than nothing."""
    checked = duration(argument, value)
    if checked.startswith("0 "):
        raise StepError(f"{argument} is {value!r}, but takes a duration longer than zero.")
    return checked


def names(argument: str, value: object, *, empty: bool = False) -> list[str]:
    """Names of columns: one, or several."""
    listed = [value] if isinstance(value, str) else list(value) if isinstance(value, Iterable) else None
    if listed is None or not all(isinstance(each, str) and each for each in listed):
        raise StepError(f"{argument} is {value!r}, but takes a column's name, or a list of names.")
    if not listed and not empty:
        raise StepError(f"{argument} is empty, but takes at least one column's name.")
    if len(set(listed)) < len(listed):
        raise StepError(f"{argument} names a column twice: {', '.join(listed)}.")
    return listed


def name(argument: str, value: object) -> str:
    """The name of one column, topic or table."""
    if not isinstance(value, str) or not value.strip():
        raise StepError(f"{argument} is {value!r}, but takes a name.")
    return value


def choice(argument: str, value: object, allowed: Sequence[str]) -> str:
    """One of a few words."""
    if value not in allowed:
        raise StepError(f"{argument} is {value!r}, but takes {', '.join(allowed[:-1])} or {allowed[-1]}.")
    return str(value)


def quoted(column: str) -> str:
    """A column's name as SQL wants it; dots lead into structs."""
    return ".".join(quoted_part(part.strip("`")) for part in column.split("."))


def quoted_part(part: str) -> str:
    """One name as SQL wants it, whatever is in it."""
    return f"`{part.replace('`', '``')}`"
