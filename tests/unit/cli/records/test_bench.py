from __future__ import annotations

import math
import random

import pytest
from click.testing import CliRunner

from ottla.cli.main import ottla
from ottla.cli.records.bench_figures import Figures, Latencies
from ottla.cli.records.bench_view import View


def test_percentiles_are_right_to_two_percent() -> None:
    latencies, dice = Latencies(), random.Random(1)
    values = sorted(dice.lognormvariate(1, 2) for _ in range(10_000))
    for value in values:
        latencies.add(value)
    for percent in (1, 50, 90, 99, 99.9):
        exact = values[math.ceil(len(values) * percent / 100) - 1]
        assert latencies.percentile(percent) == pytest.approx(exact, rel=0.03)
    assert latencies.percentile(100) == latencies.largest_ms == values[-1]


def test_what_took_no_time_or_forever_is_counted_too() -> None:
    latencies = Latencies()
    for value in (0.0, 10.0**9):
        latencies.add(value)
    assert latencies.percentile(50) <= 0.001
    assert latencies.percentile(99) == 10.0**9


def test_a_summary_has_latencies_only_if_there_are_any() -> None:
    figures = Figures(records=100, size_bytes=2_000_000)
    assert figures.summary(2.0) == {
        "records": 100,
        "seconds": 2.0,
        "records_per_second": 50.0,
        "mb_per_second": 1.0,
        "failed": 0,
    }
    figures.latencies.add(4.0)
    assert figures.summary(2.0)["latency_ms"]["max"] == 4.0


def test_each_second_is_shown_for_itself() -> None:
    figures = Figures()
    view = View(figures)
    figures.records, figures.failed = 1_000, 2
    first, second = view.row(), view.row()
    assert first[3] == "2"
    assert second[1] == "0"
    assert second[3] == "0"
    assert second[-1] == "-"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["produce"], "Missing argument 'TOPIC'"),
        (["produce", "t", "--records", "0"], "--records"),
        (["consume", "t", "--from", "yesterday"], "--from"),
    ],
)
def test_a_command_that_cannot_be_understood_ends_with_2(arguments: list[str], words: str) -> None:
    shown = CliRunner().invoke(ottla, ["bench", *arguments])
    assert shown.exit_code == 2
    assert words in shown.stderr


@pytest.mark.parametrize("command", ["produce", "consume"])
def test_a_broker_that_is_not_there_is_one_sentence(command: str) -> None:
    shown = CliRunner().invoke(ottla, ["bench", command, "t", "--bootstrap", "127.0.0.1:1"])
    assert shown.exit_code == 1
    assert "could not reach 127.0.0.1:1: connection refused." in shown.stderr
