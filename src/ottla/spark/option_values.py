"""The values of options: Spark hands over text, whatever the user wrote. Each reader of a kind of value says
what is allowed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

# The units of Spark's time strings; a number alone means milliseconds there.
_UNITS_MS: Final = {
    "us": 0.001,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_LONG_MAX: Final = 2**63 - 1


class OptionError(ValueError):
    """An option that is missing, unknown, or has a value that it cannot have; the message says what is
    possible.
    """


def boolean(name: str, text: str) -> bool:
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise OptionError(f"Option '{name}' must be true or false, not '{text}'.")


def positive(name: str, text: str, *, zero: bool = False) -> int:
    least = 0 if zero else 1
    number = whole(name, text)
    if number < least:
        raise OptionError(f"Option '{name}' must be a whole number of at least {least}, not '{text}'.")
    return number


def whole(name: str, text: str) -> int:
    try:
        number = int(text.strip())
    except ValueError:
        number = None
    if number is None or abs(number) > _LONG_MAX:
        raise OptionError(f"Option '{name}' must be a whole number, not '{text}'.")
    return number


def duration_ms(name: str, text: str) -> int:
    """A time as Spark writes it: 15m, 30s, 500ms; a bare number is milliseconds."""
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    unit = _UNITS_MS.get(match[2] or "ms") if match else None
    if match is None or unit is None:
        raise OptionError(f"Option '{name}' must be a time such as 500ms, 30s, 15m, 2h or 1d, not '{text}'.")
    return int(int(match[1]) * unit)


def one_of(name: str, text: str, choices: Iterable[str]) -> str:
    choices = tuple(choices)
    if (value := text.strip().lower()) in choices:
        return value
    raise OptionError(f"Option '{name}' must be {' or '.join(choices)}, not '{text}'.")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant."""
    by_lower = {each.lower(): each for each in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None
