"""The benchmark on mixed records still runs: every client, one codec, a few records; nothing is judged."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from bench.memory import WarmPages
from bench.mixed import BATCHES, MixedBench, Workload, figures_of, page, ratios
from bench.mixed_latency import READERS, SENDERS
from bench.mixed_loads import COMPILED, CONSUME, PRODUCE, is_compiled
from bench.mixed_records import HEADERS, LARGEST, SMALLEST, mixed_records
from bench.mixed_targets import MixedTarget, verdicts
from bench.targets import started


@pytest.mark.timeout(300)  # it starts some thirty processes
def test_every_client_is_measured(tmp_path: Path) -> None:
    with started(["ottla"], tmp_path) as (target,):
        bench = MixedBench(target, WarmPages(tmp_path, 1 << 20), ["zstd"])
        bench.fill(0.001)
        bench.round(1, 0.001, keep=True)

    def those_here(clients: Iterable[str]) -> list[str]:
        return sorted(client for client in clients if client != COMPILED or is_compiled())

    assert PRODUCE.keys() == CONSUME.keys()
    assert {name: sorted(by_client) for name, by_client in bench.rates.items()} == {
        "produce, zstd": those_here(PRODUCE),
        "consume, zstd": those_here(CONSUME),
        "one by one, zstd": those_here(CONSUME),
        "batches, zstd": those_here(BATCHES),
    }
    assert {name: sorted(by_client) for name, by_client in bench.times_ms.items()} == {
        "one send, p50": those_here(SENDERS),
        "one send, p99": those_here(SENDERS),
        "end to end, p50": those_here(READERS),
        "end to end, p99": those_here(READERS),
    }
    text = page(bench, "command", 1, ["- facts"])
    assert "\n| produce, zstd " in text
    assert "\n| end to end, p99 ÷ aiokafka " in text


def test_a_client_without_a_codec_or_without_compiled_loops_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("bench.mixed", "bench.mixed_loads"):
        monkeypatch.setattr(f"{module}.find_spec", lambda name: None)
    assert Workload("produce", "lz4").clients == ["ottla", "aiokafka", "confluent-kafka"]
    assert Workload("produce", "zstd").clients == ["ottla", "aiokafka", "confluent-kafka", "kafka-python"]
    assert Workload("batches", "zstd").clients == ["ottla", "confluent-kafka"]
    assert figures_of({"produce, lz4": {"ottla": [1.0]}}) == [
        ["produce, lz4", "1.00 (1.00 to 1.00)", "-", "-", "-", "-"]
    ]


def test_a_ratio_is_taken_within_a_round() -> None:
    by_client = {"ottla": [30.0, 20.0], "aiokafka": [10.0, 10.0]}
    by_client |= {"confluent-kafka": [60.0, 40.0], "kafka-python": [3.0, 5.0]}
    assert ratios({"produce, none": by_client}) == [
        ["produce, none", "ottla", "2.50 (2.00 to 3.00)", "0.50 (0.50 to 0.50)", "7.00 (4.00 to 10.0)"]
    ]


def test_a_target_is_held_or_missed_by_the_median() -> None:
    measured = {"consume, none": {"ottla": [18.0, 30.0, 22.0], "aiokafka": [10.0, 10.0, 10.0]}}
    measured["one send, p50"] = {"ottla": [3.0], "aiokafka": [2.0]}
    targets = [
        MixedTarget("consume, none", "aiokafka", 2.0),
        MixedTarget("one send, p50", "aiokafka", 1.2, at_most=True),
    ]
    assert verdicts(targets, measured, ["ottla", COMPILED]) == [
        ["consume, none ÷ aiokafka", "at least 2", "2.20 (1.80 to 3.00): held", "-"],
        ["one send, p50 ÷ aiokafka", "at most 1.2", "1.50 (1.50 to 1.50): MISSED by 25%", "-"],
    ]


def test_records_are_mixed_and_the_same_in_each_run() -> None:
    records = mixed_records(2_000)
    assert records == mixed_records(2_000)
    sizes = [len(record.value) for record in records]
    assert SMALLEST <= min(sizes) < 100
    assert 700 < max(sizes) <= LARGEST
    assert len({record.key for record in records}) > 300
    with_headers = [record for record in records if record.headers]
    assert 0.25 < len(with_headers) / len(records) < 0.42
    assert all(record.headers == HEADERS for record in with_headers)
