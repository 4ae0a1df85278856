"""The benchmark of groups still runs: a hundredth of everything, in seconds; nothing is judged but
correctness.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.figures import Figure, table
from bench.groups import MEASUREMENTS, Scale

TINY = Scale(
    groups=4,
    members=3,
    heart_connections=5,
    heartbeat_seconds=0.5,
    rebalance_members=5,
    rebalances=1,
    offset_groups=60,
    commits=50,
)


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_every_measurement_answers_figures(name: str, tmp_path: Path) -> None:
    figures = MEASUREMENTS[name](tmp_path, TINY)
    assert figures
    assert all(figure.value >= 0 for figure in figures)


def test_a_promise_is_held_or_missed() -> None:
    text = "\n".join(table([Figure("a", 19.9, "%", 20), Figure("b", 20.1, "%", 20), Figure("c", 1, "s")]))
    assert text.count("held") == text.count("MISSED") == 1
