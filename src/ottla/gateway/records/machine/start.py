"""Where a read begins: `earliest`, `latest`, an offset, or the first record at or after a time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

_WORDS = "earliest, latest, an offset such as 42, or a time such as 2026-11-18T08:00:00Z"


@dataclass(frozen=True, slots=True)
class Start:
    """A place in a partition. `number` is the offset, or the milliseconds since 1970 of a time."""

    kind: Literal["earliest", "latest", "offset", "time"]
    number: int = 0


EARLIEST = Start("earliest")
LATEST = Start("latest")


def parse_start(text: str) -> Start:
    """Raises ValueError with a sentence."""
    if text in ("earliest", "latest"):
        return LATEST if text == "latest" else EARLIEST
    if text.isascii() and text.isdigit() and len(text) < 19:
        return Start("offset", int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"a read cannot begin at {text[:50]!r}: write {_WORDS}") from None
    if moment.tzinfo is None:
        raise ValueError(f"the time {text[:50]!r} has no time zone: write Z for UTC at its end")
    milliseconds = round(moment.timestamp() * 1000)
    if milliseconds < 0:
        raise ValueError(f"a read cannot begin at {text[:50]!r}: it is before 1970")
    return Start("time", milliseconds)
