"""Samples of a cluster over the last hours, in bounded memory.

A sample has the end offsets of topics and the lag of groups. Rates are differences of sums of end offsets: topics
that came or went between two samples do not count, so a topic that is deleted is no negative rate. Kept are three
hours of totals, and of the lag of the groups with the most lag.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

MOST_SAMPLES: Final = 720
MOST_GROUPS: Final = 200


@dataclass(frozen=True, slots=True)
class Sample:
    """What was seen at a moment (milliseconds since 1970)."""

    at_ms: int
    ends: Mapping[str, int]  # the sum of a topic's end offsets
    lags: Mapping[str, int]  # the lag of a group, in records


@dataclass(frozen=True, slots=True)
class _Point:
    at_ms: int
    records_per_s: float | None
    lag: int
    lags: Mapping[str, int]


class History:
    """The samples of one user."""

    def __init__(self, most: int = MOST_SAMPLES) -> None:
        self._points: deque[_Point] = deque(maxlen=most)
        self._latest: Sample | None = None
        self._rates: dict[str, float] = {}

    def add(self, sample: Sample) -> None:
        """Take a sample. One with an older time than the latest is left out: a clock was set back."""
        latest, rate = self._latest, None
        if latest is not None:
            elapsed_s = (sample.at_ms - latest.at_ms) / 1000
            if elapsed_s <= 0:
                return
            self._rates = {
                topic: max(0, end - latest.ends[topic]) / elapsed_s
                for topic, end in sample.ends.items()
                if topic in latest.ends
            }
            rate = sum(self._rates.values())
        most = sorted(sample.lags.items(), key=lambda each: -each[1])[:MOST_GROUPS]
        self._points.append(_Point(sample.at_ms, rate, sum(sample.lags.values()), dict(most)))
        self._latest = sample

    def rate_of(self, topic: str) -> float | None:
        """Records a second that were written to a topic between the latest two samples."""
        return self._rates.get(topic)

    @property
    def busiest(self) -> list[tuple[str, float]]:
        """The topics that are written most, now."""
        found = sorted(self._rates.items(), key=lambda each: -each[1])
        return [(topic, rate) for topic, rate in found[:5] if rate > 0]

    def series(self) -> dict[str, Any]:
        """Totals over time."""
        return {
            "at_ms": [each.at_ms for each in self._points],
            "records_per_s": [each.records_per_s for each in self._points],
            "lag": [each.lag for each in self._points],
        }

    def lag_of(self, group: str) -> dict[str, Any]:
        """The lag of a group over time; null where the group was not among those with the most lag."""
        return {
            "at_ms": [each.at_ms for each in self._points],
            "lag": [each.lags.get(group) for each in self._points],
        }
