"""Runs updates at a terminal: starts Spark, shows progress, ends when asked to.

SIGTERM is taken like Ctrl-C, so that a container ends as a terminal does. A continuous pipeline is retried
after a failure, with a longer pause each time, until the limit of failures in a row below is reached.
"""

from __future__ import annotations

import math
import signal
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Timer
from typing import Final

import click

from ottla.cli.spark.pipeline_view import View, open_view
from ottla.errors import KafkaError
from ottla.spark.pipelines.failures import PipelineError
from ottla.spark.pipelines.flow_progress import Board
from ottla.spark.pipelines.graph import Graph
from ottla.spark.pipelines.live import FAILURES_IN_A_ROW, LiveFlows, refusals
from ottla.spark.pipelines.master import is_cluster, reach_master, waits_for_executors
from ottla.spark.pipelines.project import Project, check_syntax
from ottla.spark.pipelines.remote import RemoteSpark
from ottla.spark.pipelines.run import Outcome, Runner, Selection
from ottla.spark.pipelines.session import LocalSpark, Where, start_spark
from ottla.spark.pipelines.small_files import Compacted
from ottla.spark.pipelines.state import is_running, load_state
from ottla.spark.pipelines.topics import missing_topics, reach_brokers

_LONGEST_PAUSE_S: Final = 30.0
_TRIGGER_S: Final = 1.0
_LOOK_EVERY_S: Final = 0.25
_INTERRUPTED: Final = 130
# Executors of a cluster that has room come within five.
_EXECUTORS_DUE_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Updates:
    """The options of `ottla pipeline run`; `every_s` is None for one update, and for the usual trigger of `is_live`."""

    project: Project
    selection: Selection
    every_s: float | None
    where: Where
    is_live: bool = False
    compact_every_s: float | None = None

    @property
    def goes_on(self) -> bool:
        return self.is_live or self.every_s is not None


def run_updates(updates: Updates) -> int:
    """Run until there is nothing left to do, or until stopped; the exit code."""
    check_syntax(updates.project)
    _answers(updates.project)
    board = Board()
    with _terminations(), open_view(updates.project, board) as view:
        try:
            with _spark(updates.project, updates.where, view) as spark, _listening(spark, board):
                return _loop(updates, Runner(updates.project, spark, board, view.told), view)
        except KeyboardInterrupt:
            view.say("stopped")
            return 0 if updates.goes_on else _INTERRUPTED


def _loop(updates: Updates, runner: Runner, view: View) -> int:
    selection, failures = updates.selection, 0
    while True:
        began = time.monotonic()
        outcome = _one(updates, runner, selection, view)
        view.ended(outcome)
        if outcome.completed and updates.is_live:
            return _live(updates, runner, view)
        if not updates.goes_on:
            return 0 if outcome.completed else 1
        if outcome.completed:
            selection, failures = Selection(refresh=updates.selection.refresh), 0
        else:
            failures += 1
            if failures == FAILURES_IN_A_ROW:
                view.say(f"{failures} updates in a row have failed: giving up")
                return 1
        pause = min(_LONGEST_PAUSE_S, 2.0 ** (failures - 1)) if failures else 0.0
        time.sleep(max(pause, began + (updates.every_s or 0.0) - time.monotonic(), 0.0))


def _live(updates: Updates, runner: Runner, view: View) -> int:
    """Keep a query per flow running until stopped, or until one fails too often."""
    interval_s = _TRIGGER_S if updates.every_s is None else updates.every_s
    live = runner.live(interval_s)
    outcome = Outcome(("stopped",))
    try:
        sentence = None
        while sentence is None:
            live.start()
            view.say(f"live, with a trigger of {interval_s:g} s")
            sentence = _follow(live, updates.compact_every_s)
            if sentence is None:
                live.stop()
                _say_compacted(view, runner.compact())
        outcome = Outcome((sentence,))
    finally:
        with _undisturbed():
            live.stop()
            runner.ended(outcome)
    view.say(sentence)
    return 1


def _follow(live: LiveFlows, seconds: float | None) -> str | None:
    """Look after the queries for some time; why to give up, if so."""
    ends = math.inf if seconds is None else time.monotonic() + seconds
    while time.monotonic() < ends:
        if (sentence := live.step()) is not None:
            return sentence
        time.sleep(_LOOK_EVERY_S)
    return None


def compact_project(project: Project, where: Where) -> None:
    """Compact the tables of a pipeline that does not run."""
    last = load_state(project).last_update
    if last is None or is_running(last):
        reason = "it has not run yet" if last is None else f"it runs (process {last.process}): stop it first"
        raise PipelineError(f"{project.name} cannot be compacted: {reason}.")
    board = Board()
    with open_view(project, board) as view, _spark(project, where, view) as spark:
        _say_compacted(view, Runner(project, spark, board, lambda event: None).compact())


def _say_compacted(view: View, tables: Mapping[str, Compacted]) -> None:
    for name, done in tables.items():
        waiting = f"; {done.waiting:,} wait until all flows have read them" if done.waiting else ""
        view.say(f"compacted {name}: {done.before:,} files are {done.after:,}{waiting}")
    if not tables:
        view.say("compacted: no table has small files in a list that Spark has closed")


def _one(updates: Updates, runner: Runner, selection: Selection, view: View) -> Outcome:
    """One update. If another update follows, an update that cannot start (a file is being edited, brokers are
    away) is a failure like others.
    """
    reading = selection.reading(updates.project.bootstrap_servers)

    def check(graph: Graph) -> None:
        view.warn(graph.warnings)
        if problems := graph.unknown_tables(selection.named):
            raise click.UsageError("\n".join(problems))
        if updates.is_live and (problems := refusals(updates.project, graph)):
            raise click.ClickException("\n".join(problems))
        _check_topics(updates.project, graph)

    try:
        return runner.update(selection, reading, check)
    except (PipelineError, KafkaError, OSError) as error:
        if not updates.goes_on:
            raise
        return Outcome((str(error),))


def check_pipeline(project: Project, where: Where) -> list[str]:
    """All that is wrong with a pipeline, in sentences; says what it found where nothing is."""
    check_syntax(project)
    _answers(project)
    board = Board()
    with open_view(project, board) as view, _spark(project, where, view) as spark:
        runner = Runner(project, spark, board, lambda event: None)
        graph, outcome = runner.validate(Selection().reading(project.bootstrap_servers))
        view.warn(graph.warnings)
    problems = [*outcome.errors, *_topic_problems(project, graph)]
    if not problems:
        topics = ", ".join(sorted(graph.topics_read())) or "none"
        click.echo(
            f"{project.name} is fine: {len(graph.flows)} flows, tables {', '.join(graph.tables())}, topics read {topics}."
        )
    return problems


def _check_topics(project: Project, graph: Graph) -> None:
    if problems := _topic_problems(project, graph):
        raise PipelineError("\n".join(problems))


def _topic_problems(project: Project, graph: Graph) -> list[str]:
    with _broker_in_words(project):
        missing = set(missing_topics(project.bootstrap_servers, graph.topics_read(), project.security))
    return [
        f"{flow.place}: the flow {flow.name} reads the topic {read.topic}, which does not exist at "
        f"{project.bootstrap_servers}. Make it with: ottla topics create {read.topic} --bootstrap {project.bootstrap_servers}"
        for flow in graph.flows.values()
        for read in flow.reads
        if read.topic in missing
    ]


def _answers(project: Project) -> None:
    """Brokers that do not answer are better known now than after the start of Spark."""
    with _broker_in_words(project):
        reach_brokers(project.bootstrap_servers, project.security)


@contextmanager
def _broker_in_words(project: Project) -> Iterator[None]:
    try:
        yield
    except (ConnectionError, TimeoutError) as error:
        raise PipelineError(f"No broker answers at {project.bootstrap_servers}: {error}") from error


@contextmanager
def _spark(project: Project, where: Where, view: View) -> Iterator[LocalSpark | RemoteSpark]:
    view.say(f"connecting to Spark at {where}" if where.remote else f"starting Spark ({where})")
    if where.master:
        reach_master(where.master)
    began = time.monotonic()
    spark = start_spark(project, where)
    hint = Timer(_EXECUTORS_DUE_S, _tell_of_executors, (spark, view))
    hint.daemon = True
    if is_cluster(where.master):
        hint.start()
    try:
        view.say(f"Spark is ready after {time.monotonic() - began:.1f} s")
        for name, value in spark.decided.items():
            view.say(f"the server decides {name}: {value or 'not set'}, not {project.configuration[name]}")
        yield spark
    finally:
        hint.cancel()
        with _undisturbed():
            spark.close()


def _tell_of_executors(spark: LocalSpark | RemoteSpark, view: View) -> None:
    """Spark itself would wait without a word."""
    if spark.driver is not None and (sentence := waits_for_executors(spark.driver)):
        view.say(sentence)


@contextmanager
def _listening(spark: LocalSpark | RemoteSpark, board: Board) -> Iterator[None]:
    from ottla.spark.pipelines.listener import BoardListener

    listener = BoardListener(board)
    # Spark's client reports this when its server ends first, as a server does that gets the same signal.
    for beginning in ("StreamingQueryListenerBus Handler thread", "Failed to remove the listener"):
        warnings.filterwarnings("ignore", beginning, UserWarning)
    spark.connect.streams.addListener(listener)
    try:
        yield
    finally:
        with _undisturbed():
            spark.connect.streams.removeListener(listener)


@contextmanager
def _terminations() -> Iterator[None]:
    """SIGTERM as Ctrl-C."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A second Ctrl-C must not leave a JVM behind."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
