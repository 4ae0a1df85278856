"""The benchmark of clients still runs: every client, a few records; nothing is judged."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from bench.clients import LONE, WORKLOADS, Bench, Promise, lone_ratios, page, ratios, verdicts
from bench.memory import WarmPages
from bench.targets import started


@pytest.mark.timeout(300)  # it starts some forty processes
def test_every_client_is_measured_and_compared(tmp_path: Path) -> None:
    bench = Bench(argparse.Namespace(quick=True, only=""), WarmPages(tmp_path, 1 << 20))
    bench.scale = 0.001
    with started(["ottla"], tmp_path) as (target,):
        bench.round(1, target)
    for workload in WORKLOADS:
        measured = bench.rates["ottla", workload.name]
        assert measured.keys() == set(workload.clients)
        assert all(value > 0 for values in measured.values() for value in values)
    text = page(bench, "command", 1, ["- facts"])
    assert "| ottla  | produce 100 B  | aiokafka" in text
    assert "kafka-python" in text
    assert "| ottla  | consume 100 B, 1 record per batch |" in text


def test_batches_of_one_record_have_a_table_and_no_promise() -> None:
    rates = {
        ("ottla", LONE.name): {"ottla": [30.0, 20.0], "ottla batches": [40.0, 40.0], "aiokafka": [10.0, 10.0]}
    }
    assert lone_ratios(rates) == [["ottla", "aiokafka", "2.50 (2.00 to 3.00)"]]
    assert verdicts(rates) == []


def test_ratios_are_made_within_a_round_and_judged_by_their_median() -> None:
    rates = {("ottla", "produce 100 B"): {"ottla": [10.0, 30.0, 20.0], "aiokafka": [10.0, 10.0, 10.0]}}
    assert ratios(rates, "ottla", "produce 100 B", "aiokafka") == [1.0, 3.0, 2.0]
    (row,) = verdicts(rates)
    assert row[-2:] == ["2.00 (1.00 to 3.00)", "held, rounds disagree"]
    assert Promise("produce", "aiokafka", 2.0).limit == 2.0


def test_what_is_missed_says_by_how_much() -> None:
    rates = {("ottla", "consume 1024 B"): {"ottla": [10.0], "kafka-python": [4.0]}}
    (row,) = verdicts(rates)
    assert row[-1] == "MISSED by 50%"
