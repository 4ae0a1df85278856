"""The benchmark of clusters still runs: three Ottla brokers, a fraction of each workload; nothing is
judged.
"""

from __future__ import annotations

from pathlib import Path

from bench.cluster import PROMISES, WORKLOADS, Run, page, started


def test_every_workload_answers_figures(tmp_path: Path) -> None:
    run = Run(1, 0.001, set())
    with started(["ottla"], tmp_path) as (cluster,):
        measured = {workload.name: workload.measure(cluster, run) for workload in WORKLOADS}
    assert all(value >= 0 for figures in measured.values() for value in figures.values())
    assert all(measured[each.workload][each.figure] > 0 for each in PROMISES)


def test_every_promise_is_told() -> None:
    values = {
        workload: {"ottla": {figure: [2.0]}, "apache": {figure: [1.0]}}
        for workload, figure in ((each.workload, each.figure) for each in PROMISES)
    }
    text = "\n".join(page(values, 1, ["- a machine"]))
    assert "produce 100 B: krec_per_s ÷ apache" in text
    assert "paced 200 records/s: p99_ms ÷ apache" in text
