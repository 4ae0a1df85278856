"""The targets of `python -m bench.mixed` (docs/benchmarks.md gives their reason)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench.verdicts import Spread, short

Measured = Mapping[str, Mapping[str, Sequence[float]]]


@dataclass(frozen=True, slots=True)
class MixedTarget:
    """Ours divided by a peer's: at least the limit, or at most."""

    workload: str
    peer: str
    limit: float
    at_most: bool = False

    @property
    def name(self) -> str:
        return f"{self.workload} ÷ {self.peer}"

    @property
    def asked(self) -> str:
        return f"{'at most' if self.at_most else 'at least'} {self.limit:g}"

    def verdict(self, measured: Measured, client: str) -> str:
        """The median with its spread, and held or missed by how much; "-" if it was not measured."""
        by_client = measured.get(self.workload, {})
        pairs = zip(by_client.get(client, ()), by_client.get(self.peer, ()), strict=False)
        values = [ours / theirs for ours, theirs in pairs]
        if not values:
            return "-"
        spread = Spread.of(values)
        is_held = spread.median <= self.limit if self.at_most else spread.median >= self.limit
        missed_by = f"MISSED by {abs(spread.median / self.limit - 1):.0%}"
        return f"{short(spread.median)} ({short(spread.low)} to {short(spread.high)}): {'held' if is_held else missed_by}"


TARGETS: Final = (
    *(MixedTarget(f"produce, {codec}", "aiokafka", 3.0) for codec in ("none", "lz4", "zstd")),
    *(MixedTarget(f"produce, {codec}", "confluent-kafka", 1.2) for codec in ("none", "lz4")),
    *(MixedTarget(f"consume, {codec}", "aiokafka", 2.0) for codec in ("none", "lz4", "zstd")),
    *(MixedTarget(f"consume, {codec}", "confluent-kafka", 0.8) for codec in ("none", "lz4", "zstd")),
    MixedTarget("one by one, zstd", "aiokafka", 2.0),
    MixedTarget("one by one, zstd", "confluent-kafka", 0.8),
    MixedTarget("batches, zstd", "confluent-kafka", 1.2),
    MixedTarget("end to end, p99", "aiokafka", 1.0, at_most=True),
    MixedTarget("one send, p50", "confluent-kafka", 1.2, at_most=True),
)


def verdicts(targets: Sequence[MixedTarget], measured: Measured, clients: Sequence[str]) -> list[list[str]]:
    return [
        [target.name, target.asked, *(target.verdict(measured, client) for client in clients)]
        for target in targets
    ]
