"""The benchmark still runs: the floor and Ottla, a thousandth of each workload, in seconds; nothing is
judged.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from bench.processes import Stopwatch, cpu_seconds, memory_mebibytes
from bench.report import figures_table, verdicts_table
from bench.targets import Target, started
from bench.verdicts import TARGETS, Spread
from bench.workloads import WORKLOADS, Run, Workload

MEASURED = [workload for workload in WORKLOADS if workload.name != "start and idle"]


@pytest.mark.parametrize("name", ["floor", "ottla"])
def test_every_workload_answers_figures(name: str, tmp_path: Path) -> None:
    run = Run(1, 0.001, tmp_path)
    with started([name], tmp_path) as (target,):
        measured = {workload.name: workload.measure(target, run) for workload in MEASURED}
    assert not {work: figures for work, figures in measured.items() if min(figures.values()) <= 0}
    assert "cpu_us_per_request" in measured["small produce"]
    assert "cpu_s_per_gb" in measured["raw fetch 1 MiB"]


def test_start_up_and_idle_memory_are_measured(tmp_path: Path) -> None:
    (start,) = [workload for workload in WORKLOADS if workload.name == "start and idle"]
    figures = start.measure(Target("ottla"), Run(1, 0.001, tmp_path))
    assert 0 < figures["ready_s"] < 20
    assert 1 < figures["proportional_mib"] <= figures["resident_mib"]


def test_the_mock_of_librdkafka_is_measured_without_a_process(tmp_path: Path) -> None:
    produce: Workload = MEASURED[0]
    figures = produce.measure(Target("mock"), Run(1, 0.001, tmp_path))
    assert set(figures) == {"krec_per_s", "mb_per_s"}


def test_a_ratio_is_judged_by_its_median_and_shown_with_its_spread() -> None:
    measured = {
        "raw produce 16 KiB": {
            "ottla": {"cpu_s_per_gb": [1.0, 1.2, 9.0]},
            "floor": {"cpu_s_per_gb": [0.5, 0.5, 0.5]},
        },
        "small produce": {"ottla": {"cpu_us_per_request": [9.9, 9.9, 9.9]}},
    }
    text = "\n".join(verdicts_table(measured))
    assert "2.40 (2.00 to 18.0)" in text
    assert "held, rounds disagree" in text
    assert re.search(r"MISSED by 10% +\|", text)
    assert "0.50 (0.50 to 0.50)" in "\n".join(figures_table(measured))


def test_every_promise_names_a_workload_that_exists() -> None:
    assert {target.workload for target in TARGETS} <= {workload.name for workload in WORKLOADS}


def test_the_spread_is_median_and_range() -> None:
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)


def test_cpu_time_and_memory_of_a_process_are_read() -> None:
    watch = Stopwatch(os.getpid())
    with watch:
        sum(range(2_000_000))
    assert 0 < watch.cpu_seconds <= cpu_seconds(os.getpid())
    resident, proportional = memory_mebibytes(os.getpid())
    assert 1 < proportional <= resident
