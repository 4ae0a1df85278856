"""Updates of a pipeline: read the definitions, let Spark run them until nothing is left to do, tell what
happens on the way.

Spark's pipelines are triggered: an update reads what is there when it begins, and ends. A pipeline that runs
on is a row of updates in one session, which costs a second or two each instead of a start of Spark.
Definitions are read again for each, so an edited file takes effect with the next.

Rules
- Nothing here decides what is read or written twice: checkpoints and Spark's sinks do, so an update may be
  cut off anywhere.
- State is saved as soon as Spark has made the tables, before the first row is in them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ottla.spark.pipelines.catalog import definitions, forgets, quoted, restore
from ottla.spark.pipelines.events import FAILED, RUNNING, STARTING, FlowEvent, parse_event
from ottla.spark.pipelines.failures import PipelineError, exception_in_words, in_words
from ottla.spark.pipelines.flow_progress import Board
from ottla.spark.pipelines.graph import Graph, Reading, read_definitions
from ottla.spark.pipelines.live import LiveFlows
from ottla.spark.pipelines.project import Project, local_path
from ottla.spark.pipelines.remote import RemoteSpark
from ottla.spark.pipelines.remote_catalog import described, give_back
from ottla.spark.pipelines.session import LocalSpark
from ottla.spark.pipelines.small_files import Compacted, compact
from ottla.spark.pipelines.state import (
    FlowResult,
    PipelineState,
    TableState,
    UpdateState,
    load_state,
    save_state,
    with_graph,
)
from ottla.spark.pipelines.status import checkpoints
from ottla.spark.pipelines.views import Views, can_swap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ASIDE: Final = "_given_back"


@dataclass(frozen=True, slots=True)
class Selection:
    """The scope of an update: all tables, only some, some from the beginning, from a time on."""

    refresh: tuple[str, ...] = ()
    full_refresh: tuple[str, ...] = ()
    full_refresh_all: bool = False
    since: str | None = None

    @property
    def named(self) -> tuple[str, ...]:
        """The tables that are chosen by name."""
        return (*self.refresh, *self.full_refresh)

    def takes(self, name: str) -> bool:
        """Whether a table is updated."""
        return not self.named or name in map(_last_part, self.named)

    def without(self, names: Iterable[str]) -> Selection | None:
        """The selection but for some tables; None if it has no others."""
        given = set(names)
        refresh = tuple(each for each in self.refresh if _last_part(each) not in given)
        full_refresh = tuple(each for each in self.full_refresh if _last_part(each) not in given)
        if self.named and not (refresh or full_refresh):
            return None
        return replace(self, refresh=refresh, full_refresh=full_refresh)

    def reading(self, bootstrap_servers: str) -> Reading:
        anew = None if self.full_refresh_all else frozenset(self.full_refresh)
        return Reading(bootstrap_servers, self.since, anew)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an update ended; `errors` has a sentence for each flow that failed, or one for the whole."""

    errors: tuple[str, ...] = ()

    @property
    def completed(self) -> bool:
        return not self.errors


class Runner:
    """Runs updates of one project in one session of Spark."""

    def __init__(
        self,
        project: Project,
        spark: LocalSpark | RemoteSpark,
        board: Board,
        told: Callable[[FlowEvent], None],
    ) -> None:
        self._project = project
        self._spark = spark
        self._board = board
        self._told = told
        self._state = load_state(project)
        self._graph: Graph | None = None
        self._forgets = forgets(spark.connect)
        self._views: Views | None = None
        if isinstance(spark, LocalSpark) and can_swap(project, spark):
            self._views = Views(spark, self._database, self._note)
            spark.connect.catalog.setCurrentDatabase(self._database)
        self._described: set[str] = set()
        if self._forgets:
            tables = self._state.tables.items()
            self._restore({name: (table.created, table.location) for name, table in tables if table.created})

    def validate(self, reading: Reading) -> tuple[Graph, Outcome]:
        """Read the definitions and let Spark check them; nothing is run. Where a file is missing Spark would
        blame those that build on it.
        """
        graph = self._read(reading)
        if graph.problems:
            return graph, Outcome(tuple(graph.problems))
        return graph, self._follow(graph, Selection(), dry=True)

    def update(self, selection: Selection, reading: Reading, check: Callable[[Graph], None]) -> Outcome:
        """One update; `check` sees the graph before anything is run, and may raise."""
        graph = self._read(reading)
        if graph.problems:
            raise PipelineError("\n".join(graph.problems))
        check(graph)
        self._board.begin()
        began = UpdateState(started_ms=_now_ms(), process=os.getpid())
        self._state = replace(with_graph(self._state, graph), last_update=began)
        outcome = Outcome(("stopped",))
        try:
            outcome = self._follow(graph, selection.without(graph.swapped()), dry=False)
            outcome = self._write_views(graph, selection, outcome)
        finally:
            self._save_result(outcome)
        return outcome

    def live(self, interval_s: float) -> LiveFlows:
        """The queries of the last update's definitions, in place of further updates; `ended` follows them."""
        assert self._graph is not None, "an update comes first"
        if self._views is None or not isinstance(self._spark, LocalSpark):
            raise PipelineError("--live needs Parquet tables on this machine, and Spark's own catalog.")
        self._board.begin()
        began = UpdateState(started_ms=_now_ms(), process=os.getpid(), is_live=True)
        self._state = replace(self._state, last_update=began)
        save_state(self._project, self._state)
        return LiveFlows(
            self._project, self._spark, self._graph, interval_s, self._views, self._board, self._note
        )

    def compact(self) -> dict[str, Compacted]:
        """Make few large files of the many small ones of the streaming tables, by their short names. No flow runs."""
        found = {}
        streams = [place for _, place in checkpoints(self._project)]
        for name, table in sorted(self._state.tables.items()):
            place = local_path(table.location)
            done = compact(place, streams, self._rewrite) if place is not None else None
            if done is not None:
                found[_last_part(name)] = done
        return found

    def _rewrite(self, files: list[Path], directory: Path, count: int) -> None:
        paths = [f"file://{file}" for file in files]
        rows = self._spark.connect.read.option("mergeSchema", "true").parquet(*paths)
        rows.coalesce(count).write.parquet(f"file://{directory}")

    def ended(self, outcome: Outcome) -> None:
        """The queries have ended."""
        self._save_result(outcome)

    def _read(self, reading: Reading) -> Graph:
        if self._graph is not None:
            _drop(self._spark.connect, self._graph.identifier)
            self._graph = None
        wanted = replace(reading, swaps_views=self._views is not None)
        self._graph = read_definitions(self._spark.connect, self._project, wanted)
        if wanted.swaps_views and not self._graph.problems and not self._graph.for_spark():
            _drop(self._spark.connect, self._graph.identifier)  # Spark refuses a graph of views alone
            self._graph = read_definitions(self._spark.connect, self._project, reading)
        return self._graph

    def _follow(self, graph: Graph, selection: Selection | None, *, dry: bool) -> Outcome:
        if selection is None:
            return Outcome()
        failures: dict[str, str] = {}
        tables_made = False
        try:
            for event in _events(self._spark.connect, graph, self._project, selection, dry=dry):
                if event.state == FAILED and event.error:
                    failures[event.flow] = event.error
                elif event.state in (STARTING, RUNNING):
                    failures.pop(event.flow, None)  # Spark tries it again
                if not tables_made and not dry:
                    tables_made = True
                    self._remember_tables(graph)
                self._note(event)
        except Exception as error:
            return Outcome(_sentences(graph, failures) or (exception_in_words(error),))
        return Outcome()

    def _write_views(self, graph: Graph, selection: Selection, outcome: Outcome) -> Outcome:
        """The views behind the streams; after a failure those whose tables are there."""
        names = [name for name in graph.swapped() if selection.takes(name)]
        if self._views is None or not names:
            return outcome
        if not outcome.completed:
            names = [name for name in names if self._views.have_inputs(graph, name)]
        failures = self._views.write(graph, names)
        self._remember_tables(graph)
        return Outcome((*outcome.errors, *_sentences(graph, failures)))

    def _note(self, event: FlowEvent) -> None:
        self._board.note(event)
        self._told(event)

    def _restore(self, tables: Mapping[str, tuple[str, str]]) -> None:
        if self._spark.driver is not None:
            restore(self._spark.driver, tables)
        else:
            aside = f"{self._project.storage}/{_ASIDE}"
            give_back(self._spark.connect, self._database, tables, aside)

    def _remember_tables(self, graph: Graph) -> None:
        catalog = [self._project.catalog] if self._project.catalog else []
        names = {quoted([*catalog, self._database, name.rpartition(".")[2]]) for name in graph.tables()}
        if self._spark.driver is not None and self._forgets:
            found = definitions(self._spark.driver, self._database)
        elif names != self._described:
            found = described(self._spark.connect, sorted(names), with_definitions=self._forgets)
            self._described = names
        else:
            found = None
        if found is not None:
            tables = {name: TableState(*told) for name, told in found.items()}
            self._state = replace(self._state, tables=tables)
        save_state(self._project, self._state)

    @property
    def _database(self) -> str:
        return self._project.database or "default"

    def _save_result(self, outcome: Outcome) -> None:
        last = self._state.last_update
        assert last is not None, "an update has begun"
        flows = {
            flow.name: FlowResult(flow.state, flow.rows_in_update or None) for flow in self._board.flows()
        }
        word = "completed" if outcome.completed else "stopped" if outcome.errors == ("stopped",) else "failed"
        errors = () if word == "stopped" else outcome.errors
        ended = replace(last, ended_ms=_now_ms(), outcome=word, errors=errors, flows=flows)
        self._state = replace(self._state, last_update=ended)
        save_state(self._project, self._state)

    @property
    def state(self) -> PipelineState:
        return self._state


def _events(
    spark: SparkSession, graph: Graph, project: Project, selection: Selection, *, dry: bool
) -> Sequence[FlowEvent]:
    from pyspark.pipelines.spark_connect_pipeline import start_run

    results = start_run(
        spark,
        graph.identifier,
        full_refresh=selection.full_refresh,
        full_refresh_all=selection.full_refresh_all,
        refresh=selection.refresh,
        dry=dry,
        storage=project.storage,
    )
    messages = (
        result["pipeline_event_result"].event.message
        for result in results
        if "pipeline_event_result" in result
    )
    return cast("Sequence[FlowEvent]", (event for text in messages if (event := parse_event(text))))


def _sentences(graph: Graph, failures: dict[str, str]) -> tuple[str, ...]:
    return tuple(f"{_flow_in_words(graph, flow)}: {in_words(error)}" for flow, error in failures.items())


def _flow_in_words(graph: Graph, name: str) -> str:
    flow = graph.flows.get(name)
    return f"{flow.place}: the flow {name} failed" if flow else f"the flow {name} failed"


def _drop(spark: SparkSession, identifier: str) -> None:
    import pyspark.sql.connect.proto as protocol

    command = protocol.Command()
    command.pipeline_command.drop_dataflow_graph.dataflow_graph_id = identifier
    cast(Any, spark).client.execute_command(command)


def _last_part(name: str) -> str:
    return name.rpartition(".")[2].strip("`")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
