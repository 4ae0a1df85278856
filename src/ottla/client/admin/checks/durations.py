"""Durations as people read them."""

from __future__ import annotations

_STEPS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def duration(milliseconds: int) -> str:
    """A duration in its two largest units: 3 d 4 h, 12 min 5 s, 0.4 s."""
    seconds = milliseconds / 1000
    for size, unit in _STEPS:
        if seconds >= size:
            whole, rest = divmod(int(seconds), size)
            smaller, name = _below(unit)
            return f"{whole} {unit} {rest // smaller} {name}"
    return f"{seconds:.1f} s"


def _below(unit: str) -> tuple[int, str]:
    return {"d": (3_600, "h"), "h": (60, "min"), "min": (1, "s")}[unit]
