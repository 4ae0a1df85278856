"""The benchmark of Spark: what is made of figures, and the topics that it reads."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any, cast

import pytest
from bench import spark as bench_spark
from bench.spark import Bench, broker_cost, cost, page, rate, ratios, verdicts, whole_streams
from bench.spark_loads import Figures, orders


def figures(seconds: float) -> Figures:
    return Figures(rows=1_000_000, seconds=seconds, spark_cpu_seconds=2.0, broker_cpu_seconds=0.5)


def bench(**workloads: tuple[list[float], list[float]]) -> Bench:
    made = Bench(cast(Any, None))
    for name, (ours, theirs) in workloads.items():
        made.figures[name] = {
            "ottla": [figures(each) for each in ours],
            "kafka": [figures(each) for each in theirs],
        }
    return made


def test_figures_are_per_row() -> None:
    assert (rate(figures(2.0)), cost(figures(2.0)), broker_cost(figures(2.0))) == (500.0, 2.0, 0.5)


def test_ratios_are_made_within_a_round_and_judged_by_their_median() -> None:
    measured = bench(read=([1.0, 1.0, 2.0], [2.0, 3.0, 1.0]), write=([4.0], [3.0]))
    assert ratios(measured.figures["read"]) == [2.0, 3.0, 0.5]
    assert verdicts(measured) == [
        ["read", "2.00 (0.50 to 3.00)", "held, rounds disagree"],
        ["write", "0.75 (0.75 to 0.75)", "MISSED by 25%"],
    ]


def test_a_stream_counts_its_micro_batches_and_its_start_stands_beside() -> None:
    measured = bench(stream=([1.0], [2.0]))
    [ours] = measured.figures["stream"]["ottla"]
    measured.figures["stream"]["ottla"] = [replace(ours, start_seconds=3.0)]
    assert ratios(measured.figures["stream"]) == [2.0]
    assert whole_streams(measured) == [["stream", "0.50 (0.50 to 0.50)", "MISSED by 50%"]]


def test_the_page_has_every_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_spark, "connector_version", lambda: "4.2.0")
    text = page(bench(read=([1.0], [2.0])), "command", 1, ["- facts"])
    assert "| read     | 2.00 (2.00 to 2.00) | held    |" in text
    assert "- facts" in text


def test_orders_have_the_size_that_was_asked_for_and_are_not_all_the_same() -> None:
    for size in (100, 1024):
        drawn = list(islice(orders(size), 500))
        assert {len(value) for _, value in drawn} == {size}
        assert len({value for _, value in drawn}) == 500
        assert drawn == list(islice(orders(size), 500))
