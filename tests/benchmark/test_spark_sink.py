"""The page about the sink judges exactly once beside at least once and beside the connector."""

from __future__ import annotations

from bench.spark_loads import Figures
from bench.spark_sink import page


def figures(seconds: float) -> Figures:
    return Figures(1_000_000, seconds, 1.0, 1.0)


def test_ratios_are_made_within_a_round_and_judged() -> None:
    found = {
        100: {
            "exactly once": [figures(1.0), figures(2.0)],
            "at least once": [figures(0.9), figures(1.8)],
            "Spark's Kafka connector": [figures(0.5), figures(1.0)],
        }
    }
    text = page(found, 2, ["- a machine"])
    assert "| 100 B: exactly once ÷ at least once           | ≥ 0.8 | 0.90 (0.90 to 0.90) | held" in text
    assert "MISSED by 50%" in text


def test_without_the_connector_the_rest_is_told() -> None:
    text = page({100: {"exactly once": [figures(1.0)], "at least once": [figures(2.0)]}}, 1, [])
    assert "2.00 (2.00 to 2.00) | held" in text
    assert "connector" not in text.split("| rows per second")[1]
