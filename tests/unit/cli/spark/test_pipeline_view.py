"""The view of a running pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from ottla.cli.spark.pipeline_view import Lines, LiveTable
from ottla.spark.pipelines.events import FlowEvent
from ottla.spark.pipelines.flow_progress import Board
from ottla.spark.pipelines.project import Project
from ottla.spark.pipelines.run import Outcome

PROJECT = Project(Path("/p/spark-pipeline.yml"), "shop", "file:///p/storage", None, None, {}, ())


def board() -> Board:
    made = Board()
    for flow, state in (("orders", "completed"), ("customers", "completed"), ("revenue", "skipped")):
        made.note(FlowEvent(flow, state))
    made.progress("orders", 1234, 99.6, {("t", 0): 5})
    made.measure({("t", 0): 12})
    return made


def test_lines_sum_up_an_update(capsys: pytest.CaptureFixture[str]) -> None:
    view = Lines(PROJECT, board())
    view.told(FlowEvent("orders", "running"))
    view.told(FlowEvent("revenue", "skipped"))
    view.ended(Outcome())
    view.ended(Outcome(("a.py:3: the flow orders failed: why",)))

    out, err = capsys.readouterr()
    lines = [line.partition(" ")[2] for line in out.splitlines()]
    summary = "orders read 1,234 rows, 7 behind, customers written, revenue skipped"
    assert lines == [
        "shop: revenue skipped",
        f"shop: update completed: {summary}",
        f"shop: update failed: {summary}",
    ]
    assert "Error: a.py:3: the flow orders failed: why" in err


def test_a_warning_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    view = Lines(PROJECT, board())
    view.warn(["a.py:3: the flow orders is late"])
    view.warn(["a.py:3: the flow orders is late", "b.py:1: so is revenue"])

    told = [line.partition(" ")[2] for line in capsys.readouterr().err.splitlines()]
    assert told == ["Warning: a.py:3: the flow orders is late", "Warning: b.py:1: so is revenue"]


def test_the_live_table_has_a_row_per_flow() -> None:
    console = Console(width=90, record=True, quiet=False, file=Path("/dev/null").open("w"))  # noqa: SIM115
    view = LiveTable(PROJECT, board(), console)
    view.ended(Outcome(("why [this]",)))
    console.print(view)
    console.file.close()

    text = console.export_text()
    assert "Error: why [this]" in text
    assert "shop: failed" in text
    cells = [line.split() for line in text.splitlines()]
    assert ["orders", "completed", "1,234", "100", "7"] in cells
    assert ["customers", "completed", "-", "-", "-"] in cells
