"""The view of a running pipeline: a live table on a terminal, a line per event elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

import click

from ottla.errors import KafkaError
from ottla.spark.pipelines.events import COMPLETED, ENDED, FAILED, RUNNING, SKIPPED, FlowEvent
from ottla.spark.pipelines.flow_progress import Board, FlowProgress
from ottla.spark.pipelines.project import Project
from ottla.spark.pipelines.topics import log_ends

if TYPE_CHECKING:
    from ottla.spark.pipelines.run import Outcome

_LAG_EVERY_S: Final = 2.0
_REFRESHES_PER_S: Final = 4
_COLOURS: Final = {RUNNING: "cyan", COMPLETED: "green", FAILED: "red", SKIPPED: "yellow"}


class View(Protocol):
    """Where a run tells what happens."""

    def say(self, sentence: str) -> None:
        """Something about the run as a whole."""

    def warn(self, sentences: Sequence[str]) -> None:
        """Warnings about a pipeline; each is shown once."""

    def told(self, event: FlowEvent) -> None:
        """A flow has entered a state."""

    def ended(self, outcome: Outcome) -> None:
        """An update has ended."""


@contextmanager
def open_view(project: Project, board: Board) -> Iterator[View]:
    """A live view on a terminal, lines elsewhere; both measure lag while they are open."""
    done = threading.Event()
    meter = threading.Thread(target=_measure, args=(project, board, done), name="lag", daemon=True)
    meter.start()
    try:
        if sys.stdout.isatty():
            with _live(project, board) as view:
                yield view
        else:
            yield Lines(project, board)
    finally:
        done.set()
        meter.join()


def _measure(project: Project, board: Board, done: threading.Event) -> None:
    while not done.wait(_LAG_EVERY_S):
        try:
            board.measure(log_ends(project.bootstrap_servers, board.topics(), project.security))
        except (OSError, TimeoutError, KafkaError):
            continue  # a broker that is away for a moment: what was known is shown


class Lines:
    """For logs and pipes: one line for what a reader of a log wants to know."""

    def __init__(self, project: Project, board: Board) -> None:
        self._project = project
        self._board = board
        self._warned: set[str] = set()

    def say(self, sentence: str) -> None:
        click.echo(f"{_clock()} {self._project.name}: {sentence}")

    def warn(self, sentences: Sequence[str]) -> None:
        for sentence in _unseen(sentences, self._warned):
            click.echo(f"{_clock()} Warning: {sentence}", err=True)

    def told(self, event: FlowEvent) -> None:
        if event.state in (FAILED, SKIPPED):
            self.say(f"{event.flow} {event.state}")

    def ended(self, outcome: Outcome) -> None:
        flows = [flow for flow in self._board.flows() if flow.state in ENDED]
        summary = ", ".join(_brief(flow) for flow in flows)
        word = "completed" if outcome.completed else "failed"
        self.say(f"update {word}: {summary}" if summary else f"update {word}")
        for error in outcome.errors:
            click.echo(f"{_clock()} Error: {error}", err=True)


def _brief(flow: FlowProgress) -> str:
    lag = f", {flow.behind:,} behind" if flow.behind else ""
    if flow.state != COMPLETED:
        return f"{flow.name} {flow.state}{lag}"
    return (
        f"{flow.name} read {flow.rows_in_update:,} rows{lag}"
        if flow.rows is not None
        else f"{flow.name} written"
    )


def _clock() -> str:
    return time.strftime("%H:%M:%S")


@contextmanager
def _live(project: Project, board: Board) -> Iterator[View]:
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    table = LiveTable(project, board, console)
    with Live(table, console=console, refresh_per_second=_REFRESHES_PER_S, transient=False):
        yield table


class LiveTable:
    """For people: a row per flow, redrawn several times a second."""

    def __init__(self, project: Project, board: Board, console: Any) -> None:
        self._project = project
        self._board = board
        self._console = console
        self._updates = 0
        self._sentence = ""
        self._warned: set[str] = set()

    def say(self, sentence: str) -> None:
        self._sentence = sentence

    def warn(self, sentences: Sequence[str]) -> None:
        for sentence in _unseen(sentences, self._warned):
            self._console.print(f"[yellow]Warning:[/yellow] {_escaped(sentence)}")

    def told(self, event: FlowEvent) -> None:
        self._sentence = ""

    def ended(self, outcome: Outcome) -> None:
        self._updates += 1
        self._sentence = "completed" if outcome.completed else "failed"
        for error in outcome.errors:
            self._console.print(f"[red]Error:[/red] {_escaped(error)}")

    def __rich__(self) -> Any:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        updates = f", {self._updates} updates" if self._updates > 1 else ""
        title = f"{self._project.name}{updates}: {self._sentence or 'running'}"
        table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, header_style="bold")
        for name in ("flow", "state"):
            table.add_column(name)
        for name in ("rows read", "rows/s", "behind"):
            table.add_column(name, justify="right", min_width=8)
        for flow in self._board.flows():
            state = Text(flow.state, style=_COLOURS.get(flow.state, ""))
            rate = None if flow.rows_per_s is None else round(flow.rows_per_s)
            table.add_row(flow.name, state, _number(flow.rows), _number(rate), _number(flow.behind))
        return table


def _unseen(sentences: Sequence[str], seen: set[str]) -> list[str]:
    """Those that were not there before; a pipeline that runs on reads its definitions again and again."""
    new = [sentence for sentence in sentences if sentence not in seen]
    seen.update(new)
    return new


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
