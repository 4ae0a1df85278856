"""Sets of offsets as intervals `[start, end)`, in order and apart from each other: what filters on `offset`
leave to be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

_END: Final = 2**63


@dataclass(frozen=True, slots=True)
class Intervals:
    """Made by the functions below, which keep the order."""

    spans: tuple[tuple[int, int], ...]

    def __and__(self, other: Intervals) -> Intervals:
        return Intervals(
            tuple(
                (max(start, low), min(end, high))
                for start, end in self.spans
                for low, high in other.spans
                if max(start, low) < min(end, high)
            )
        )

    def __invert__(self) -> Intervals:
        borders = [0, *(border for span in self.spans for border in span), _END]
        return _in_order(zip(borders[::2], borders[1::2], strict=True))


def between(start: int = 0, end: int = _END) -> Intervals:
    return _in_order([(max(start, 0), min(end, _END))])


def points(offsets: Sequence[int]) -> Intervals:
    """Just these offsets; neighbours become one interval."""
    spans: list[tuple[int, int]] = []
    for offset in sorted({each for each in offsets if 0 <= each < _END}):
        if spans and spans[-1][1] == offset:
            spans[-1] = (spans[-1][0], offset + 1)
        else:
            spans.append((offset, offset + 1))
    return Intervals(tuple(spans))


def _in_order(spans: Iterable[tuple[int, int]]) -> Intervals:
    return Intervals(tuple((start, end) for start, end in spans if start < end))


EVERYTHING: Final = between()
NOTHING: Final = Intervals(())
