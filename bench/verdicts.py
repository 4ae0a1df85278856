"""The targets of `python -m bench` (docs/benchmarks.md gives their reasons), each held or missed by how much.

A ratio is taken within a round, between two runs that were minutes apart at most; what is judged is the
median of the rounds, and the spread is shown beside it.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# workload → target → figure → one value per round
Measured = Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some rounds and the range they lie in."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))

    def text(self) -> str:
        return f"{short(self.median)} ({short(self.low)} to {short(self.high)})"


def short(value: float) -> str:
    """Three significant digits, without an exponent; small values have at most four decimals."""
    if value >= 100:
        return f"{value:.0f}"
    if 0 < value < 0.1:
        return f"{value:.3f}" if value >= 0.01 else f"{value:.4f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


@dataclass(frozen=True, slots=True)
class Target:
    """A promise: a figure of ours, alone or divided by a peer's, on the right side of a limit."""

    workload: str
    figure: str
    limit: float
    at_most: bool
    peer: str | None = None
    name_in_docs: str = "broker"  # the row of the table of targets in docs/benchmarks.md

    def values(self, measured: Measured) -> list[float]:
        """One value per round; empty where something was not measured."""
        by_target = measured.get(self.workload, {})
        ours = by_target.get("ottla", {}).get(self.figure, ())
        if self.peer is None:
            return list(ours)
        theirs = by_target.get(self.peer, {}).get(self.figure, ())
        return [mine / other for mine, other in zip(ours, theirs, strict=False) if other]

    def name(self) -> str:
        against = f" ÷ {self.peer}" if self.peer else ""
        return f"{self.workload}: {self.figure}{against}"

    def verdict(self, spread: Spread) -> str:
        """Held or missed by how much; and whether some round says otherwise."""
        doubt = "" if self._holds(spread.low) == self._holds(spread.high) else ", rounds disagree"
        if self._holds(spread.median):
            return f"held{doubt}"
        return f"MISSED by {abs(spread.median / self.limit - 1):.0%}{doubt}"

    def _holds(self, value: float) -> bool:
        return value <= self.limit if self.at_most else value >= self.limit


APACHE = "Apache Kafka"
SIZES = (100, 1024)
ACKS = ("1", "all")
TARGETS = (
    Target("small produce", "cpu_us_per_request", 9.0, at_most=True),
    Target("small produce idempotent", "cpu_us_per_request", 9.0, at_most=True),
    Target("raw produce 64 KiB", "cpu_s_per_gb", 0.7, at_most=True),
    Target("raw produce 1 MiB", "cpu_s_per_gb", 0.7, at_most=True),
    Target("raw fetch 1 MiB", "cpu_s_per_gb", 0.35, at_most=True),
    Target("raw produce 16 KiB", "cpu_s_per_gb", 2.5, at_most=True, peer="floor", name_in_docs="floor"),
    Target("raw produce 1 MiB", "cpu_s_per_gb", 1.5, at_most=True, peer="floor", name_in_docs="floor"),
    Target(
        "confluent produce 100 B acks=1", "krec_per_s", 0.90, at_most=False, peer="mock", name_in_docs="mock"
    ),
    Target(
        "confluent produce 1024 B acks=1", "krec_per_s", 0.65, at_most=False, peer="mock", name_in_docs="mock"
    ),
    *(
        Target(
            f"confluent produce {size} B acks={acks}",
            "krec_per_s",
            1.0,
            at_most=False,
            peer="apache",
            name_in_docs=APACHE,
        )
        for size in SIZES
        for acks in ACKS
    ),
    *(
        Target(
            f"confluent consume {size} B",
            "krec_per_s",
            1.0,
            at_most=False,
            peer="apache",
            name_in_docs=APACHE,
        )
        for size in SIZES
    ),
    *(
        Target(
            f"confluent produce {size} B acks={acks}",
            "cpu_s_per_gb",
            1.0,
            at_most=True,
            peer="apache",
            name_in_docs=APACHE,
        )
        for size in SIZES
        for acks in ACKS
    ),
    *(
        Target(
            f"confluent consume {size} B",
            "cpu_s_per_gb",
            1.0,
            at_most=True,
            peer="apache",
            name_in_docs=APACHE,
        )
        for size in SIZES
    ),
    Target("start and idle", "ready_s", 0.3, at_most=True, name_in_docs="start"),
    Target("start and idle", "resident_mib", 60.0, at_most=True, name_in_docs="start"),
)
