"""The measurement of failover still runs: one round, few partitions; nothing is judged but that it
measures.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from bench.failover import Measured, measure, measure_many, page
from bench.failover_probes import longest_gap_s
from bench.failover_targets import ottla


def test_one_round_measures_everything(tmp_path: Path) -> None:
    found: Measured = defaultdict(lambda: defaultdict(list))
    with ottla(tmp_path / "c") as cluster:
        measure(cluster, 1, found)
        measure_many(cluster, 6, 1, found)
    assert len(found) == 11
    assert all(0 < seconds < 60 for by_cluster in found.values() for seconds in by_cluster["ottla"])
    text = "\n".join(page(found, 1, ["here"]))
    assert text.count("held") + text.count("MISSED") == 6


def test_the_longest_gap_is_looked_for_between_two_moments() -> None:
    assert longest_gap_s([0.0, 5.0, 6.0, 8.5, 9.0, 20.0], since=5.5, until=8.9) == 2.5
    assert longest_gap_s([], since=0.0, until=1.0) == 0.0
