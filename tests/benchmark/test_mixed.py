"""The benchmark on mixed records still runs: every client, one codec, a few records; nothing is judged."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.memory import WarmPages
from bench.mixed import MixedBench, clients_for, figures_of, page, ratios
from bench.mixed_loads import CONSUME, PRODUCE
from bench.mixed_records import HEADERS, LARGEST, SMALLEST, mixed_records
from bench.targets import started


@pytest.mark.timeout(300)  # it starts some twenty processes
def test_every_client_is_measured(tmp_path: Path) -> None:
    with started(["ottla"], tmp_path) as (target,):
        bench = MixedBench(target, WarmPages(tmp_path, 1 << 20), ["zstd"])
        bench.fill(0.001)
        bench.round(1, 0.001, keep=True)
    assert PRODUCE.keys() == CONSUME.keys()
    assert sorted(bench.rates) == ["consume, zstd", "produce, zstd"]
    assert all(sorted(by_client) == sorted(PRODUCE) for by_client in bench.rates.values())
    assert "| produce, zstd |" in page(bench, "command", 1, ["- facts"])


def test_a_client_without_a_codec_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.mixed.find_spec", lambda name: None)
    assert clients_for("lz4") == ["ottla", "aiokafka", "confluent-kafka"]
    assert clients_for("zstd") == [*PRODUCE]
    assert figures_of({"produce, lz4": {"ottla": [1.0]}}) == [
        ["produce, lz4", "1.00 (1.00 to 1.00)", "-", "-", "-"]
    ]


def test_a_ratio_is_taken_within_a_round() -> None:
    by_client = {"ottla": [30.0, 20.0], "aiokafka": [10.0, 10.0]}
    by_client |= {"confluent-kafka": [60.0, 40.0], "kafka-python": [3.0, 5.0]}
    assert ratios({"produce, none": by_client}) == [
        ["produce, none", "2.50 (2.00 to 3.00)", "0.50 (0.50 to 0.50)", "7.00 (4.00 to 10.0)"]
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
