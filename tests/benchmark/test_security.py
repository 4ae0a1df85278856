"""The benchmark of security still runs: a fraction of each workload on one broker; nothing is judged but correctness."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.security import PROMISES, WORKLOADS, Costs, Run, Values, measure, measure_rights, page
from bench.security_targets import GUARDED, guarded, secured


@pytest.mark.timeout(240)  # it starts a dozen processes
def test_every_workload_answers_figures(tmp_path: Path) -> None:
    values, written = Values(), dict[tuple[str, str], int]()
    with secured(["ottla"], tmp_path) as sites:
        measure(WORKLOADS, sites, Run(1, 0.01, written), values)
    assert {each.name for each in WORKLOADS} == set(values)
    assert all(values[each.workload]["ottla"][each.figure] > [0.0] for each in PROMISES)


@pytest.mark.timeout(240)
def test_brokers_with_rules_are_measured(tmp_path: Path) -> None:
    costs = Costs()
    with guarded(tmp_path, count=40) as targets:
        measure_rights(targets, Run(1, 0.01, {}), costs)
    assert set(costs) == set(GUARDED)
    assert all(costs[name][work] > [0.0] for name in costs for work in ("small", "ping-pong"))


def test_every_promise_is_told() -> None:
    values = {
        each.workload: {"ottla": {each.figure: [2.0]}, "apache": {each.figure: [1.0]}} for each in PROMISES
    }
    costs = {name: {"small": [10.0 + number], "ping-pong": [20.0]} for number, name in enumerate(GUARDED)}
    text = page(values, costs, 1, ["- a machine"], "Load.")
    assert "produce over TLS: cpu_s_per_gb ÷ apache" in text
    assert "1.200 (1.200 to 1.200) | missed" in text
