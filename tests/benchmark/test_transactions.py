"""The benchmark of transactions still runs: a fraction of each workload on one broker; nothing is judged but
correctness.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.transaction_clients import LIBRARIES
from bench.transaction_loads import percentile
from bench.transactions import CLIENTS, PROMISES, WORKLOADS, Run, measure, page, section, sites


@pytest.mark.timeout(300)  # it starts some twenty processes
def test_every_workload_answers_figures(tmp_path: Path) -> None:
    values: dict[str, dict[str, dict[str, list[float]]]] = {}
    with sites(["ottla"], tmp_path, 1) as places:
        measure(WORKLOADS, places, Run(1, 0.02, {}), values)
    assert set(CLIENTS) == set(LIBRARIES)
    assert {each.workload for each in PROMISES} == set(values)
    assert all(values[each.workload]["ottla"][each.figure] > [0.0] for each in PROMISES)


def test_every_promise_is_told() -> None:
    values = {
        each.workload: {"ottla": {each.figure: [2.0]}, "apache": {each.figure: [1.0]}} for each in PROMISES
    }
    text = page([section(1, values, "Load."), section(3, values, "Load.")], 1, ["- a machine"])
    assert "## One broker: the ratios to hold" in text
    assert "## Three brokers: everything" in text
    assert "ottla: read, a tenth aborted: cpu_us_per_record ÷ apache" in text


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(number) for number in range(200, 0, -1)]
    assert [percentile(values, share) for share in (0.5, 0.99, 1.0)] == [100.0, 198.0, 200.0]
    assert percentile([7.0], 0.99) == 7.0
