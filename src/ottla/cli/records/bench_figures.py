"""The figures of a load generator: amounts, rates and latencies, with percentiles that need little memory."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any, Final

# Each bucket is 2 % wider than the one before: from a microsecond to a quarter of an hour in a thousand
# numbers.
_GROWTH: Final = 1.02
_BOUNDS_MS: Final = tuple([0.001 * _GROWTH**step for step in range(1_050)])
PERCENTILES: Final = (50.0, 90.0, 99.0, 99.9)


class Latencies:
    """Counts by size; percentiles are right to 2 %."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_BOUNDS_MS) + 1)
        self._count = 0
        self.largest_ms = 0.0

    def __len__(self) -> int:
        return self._count

    def add(self, ms: float) -> None:
        self._counts[bisect_left(_BOUNDS_MS, ms)] += 1
        self._count += 1
        self.largest_ms = max(self.largest_ms, ms)

    def percentile(self, percent: float) -> float:
        """The time that this percentage of requests did not exceed."""
        wanted, seen = self._count * percent / 100, 0
        for bound, count in zip((*_BOUNDS_MS, self.largest_ms), self._counts, strict=True):
            seen += count
            if seen >= wanted and count:
                return min(bound, self.largest_ms)
        return self.largest_ms


@dataclass(slots=True)
class Figures:
    """Counts since the beginning, and since the last look."""

    records: int = 0
    size_bytes: int = 0
    failed: int = 0
    latencies: Latencies = field(default_factory=Latencies)

    def summary(self, seconds: float) -> dict[str, Any]:
        """For programs, and for the last line."""
        seconds = max(seconds, 1e-9)
        summary: dict[str, Any] = {
            "records": self.records,
            "seconds": round(seconds, 3),
            "records_per_second": round(self.records / seconds, 1),
            "mb_per_second": round(self.size_bytes / seconds / 1e6, 3),
            "failed": self.failed,
        }
        if len(self.latencies):
            named = {f"p{percent:g}": self.latencies.percentile(percent) for percent in PERCENTILES}
            named["max"] = self.latencies.largest_ms
            summary["latency_ms"] = {name: round(ms, 3) for name, ms in named.items()}
        return summary
