"""A pipeline's flows as streaming queries that go on: the live mode.

An update of Spark's pipelines reads what is there and ends; the next one costs seconds before it reads a row. Here an
update is only the beginning: Spark makes the tables and the checkpoints and catches up. Then each flow runs as a
query of its own, with a short trigger, from the checkpoint where the update has left it into the same table or sink,
under the same name. So an update can follow again, and takes over the other way round.

Rules
- What is read twice or written twice is decided by checkpoints and sinks, here as in an update: a query may be cut
  off anywhere.
- A query keeps the plan with which it started. What would be a different plan later (a table of the pipeline that is
  joined as it is) is refused.
- A query that fails is started again, after a pause that grows. Flows that read from it wait for its rows.
- Materialized views are computed again when a table that they read has grown, and at least as long as that takes is
  left between two of them, so that they cannot starve the flows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ottla.spark.pipelines.catalog import quoted
from ottla.spark.pipelines.events import FAILED, RUNNING, STARTING, STOPPED, FlowEvent
from ottla.spark.pipelines.failures import PipelineError, exception_in_words
from ottla.spark.pipelines.flow_progress import Board
from ottla.spark.pipelines.graph import FlowDefinition, Graph
from ottla.spark.pipelines.project import Project, local_path
from ottla.spark.pipelines.session import LocalSpark
from ottla.spark.pipelines.views import Views, below, query, temporary_views, temporary_views_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FAILURES_IN_A_ROW: Final = 5
_LOOKS_PER_INTERVAL: Final = 4
_CATALOG: Final = "spark_catalog"
_COMMITTED_FILES: Final = "_spark_metadata"


@dataclass(slots=True)
class _LiveFlow:
    """A flow and its query; `due` is when a failed one starts again."""

    definition: FlowDefinition
    query: StreamingQuery | None = None
    failures: int = 0
    rows: int = 0  # the board's count when it was started
    due: float = 0.0


class LiveFlows:
    """The queries and views of a pipeline while it is live."""

    def __init__(
        self,
        project: Project,
        spark: LocalSpark,
        graph: Graph,
        interval_s: float,
        views: Views,
        board: Board,
        told: Callable[[FlowEvent], None],
    ) -> None:
        self._project = project
        self._spark = spark
        self._graph = graph
        self._interval_s = interval_s
        self._board = board
        self._told = told
        streams = [flow for flow in graph.flows.values() if _is_stream(graph, flow)]
        self._flows = {flow.name: _LiveFlow(flow) for flow in streams}
        self._views = _DueViews(project, spark, graph, views, interval_s)

    def start(self) -> None:
        """Start all queries."""
        for flow in self._flows.values():
            self._start(flow)

    def step(self) -> str | None:
        """Start failed queries again and compute views that are due; why to give up, where a flow fails and fails."""
        running = {query.id for query in self._spark.connect.streams.active}
        for flow in self._flows.values():
            if flow.query is not None and flow.query.id not in running:
                self._note_failure(flow)
                if flow.failures >= FAILURES_IN_A_ROW:
                    return f"the flow {flow.definition.name} has failed {flow.failures} times in a row: giving up"
            elif flow.query is None and time.monotonic() >= flow.due:
                self._start(flow)
        self._views.write_due()
        return None

    def stop(self) -> None:
        """Stop all queries; a batch that is cut off is repeated by the next start."""
        for flow in self._flows.values():
            if flow.query is not None:
                flow.query.stop()
                flow.query = None
                self._told(FlowEvent(flow.definition.name, STOPPED))

    def _start(self, flow: _LiveFlow) -> None:
        definition = flow.definition
        self._told(FlowEvent(definition.name, STARTING))
        flow.rows = self._rows(definition.name)
        try:
            flow.query = self._started(definition)
        except Exception as error:
            self._retry_later(flow, exception_in_words(error))
            return
        self._told(FlowEvent(definition.name, RUNNING))

    def _started(self, flow: FlowDefinition) -> StreamingQuery:
        connect, output = self._spark.connect, self._graph.outputs[flow.target]
        with _settings(connect, flow), temporary_views(connect, self._graph, [flow]):
            writer = (
                query(connect, flow)
                .writeStream.queryName(flow.name)
                .option("checkpointLocation", f"file://{checkpoint(self._project, flow, output.kind)}")
                .trigger(processingTime=f"{round(self._looks_every_s(flow) * 1000)} milliseconds")
                .outputMode("append")
            )
            if output.kind == "sink":
                assert output.format is not None, "a sink has a format"
                return writer.format(output.format).options(**output.options).start()
            name = quoted([self._project.database or "default", flow.target])
            return writer.format(output.format or "parquet").toTable(name)

    def _looks_every_s(self, flow: FlowDefinition) -> float:
        """Spark's triggers are at the same moments for all queries: a flow that waited as long for a table as the one
        that fills it would always find the rows one interval late. Looking for new files is no batch.
        """
        parts = [flow, *temporary_views_of(self._graph, [flow])]
        follows = below(self._graph, flow.name) and not any(part.reads for part in parts)
        return self._interval_s / _LOOKS_PER_INTERVAL if follows else self._interval_s

    def _note_failure(self, flow: _LiveFlow) -> None:
        assert flow.query is not None, "it ran"
        if self._rows(flow.definition.name) > flow.rows:
            flow.failures = 0
        error = cast(Any, flow.query).exception()
        flow.query = None
        said = exception_in_words(error) if error is not None else "the query has ended without a word"
        self._retry_later(flow, said)

    def _retry_later(self, flow: _LiveFlow, said: str) -> None:
        flow.failures += 1
        flow.due = time.monotonic() + 2.0 ** (flow.failures - 1)
        self._told(FlowEvent(flow.definition.name, FAILED, said))

    def _rows(self, name: str) -> int:
        return next((flow.rows or 0 for flow in self._board.flows() if flow.name == name), 0)


@dataclass(slots=True)
class _DueViews:
    """When which views are computed: not before their tables have grown, nor too often."""

    project: Project
    spark: LocalSpark
    graph: Graph
    views: Views
    interval_s: float
    _seen: dict[str, dict[str, int]] = field(default_factory=dict)
    _next: float = 0.0

    def write_due(self) -> None:
        if time.monotonic() < self._next:
            return
        now = {name: self._versions(name) for name in self.graph.swapped()}
        stale = [name for name, versions in now.items() if versions != self._seen.get(name)]
        if not stale:
            return
        began = time.monotonic()
        failures = self.views.write(self.graph, stale)
        self._seen |= {name: now[name] for name in stale if name not in failures}
        ended = time.monotonic()
        self._next = ended + max(self.interval_s, ended - began)

    def _versions(self, view: str) -> dict[str, int]:
        """The tables below a view, each with the time of its last commit."""
        found: dict[str, int] = {}
        for table in sorted(below(self.graph, view)):
            if self.graph.outputs[table].is_swapped:
                found |= self._versions(table)
            else:
                found[table] = _changed_ns(self.views.location(table) / _COMMITTED_FILES)
        return found


def _changed_ns(directory: Path) -> int:
    try:
        return directory.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def checkpoint(project: Project, flow: FlowDefinition, kind: str) -> Path:
    """Where Spark's pipelines keep a flow's checkpoint: the newest of its numbered directories."""
    storage = local_path(project.storage)
    assert storage is not None, "the storage is on this machine"
    catalog = () if kind == "sink" else (_CATALOG, project.database or "default")
    flow_directory = storage.joinpath("_checkpoints", *catalog, flow.target, flow.name)
    numbers = [int(each.name) for each in _listed(flow_directory) if each.name.isdecimal()]
    if not numbers:
        raise PipelineError(
            f"{flow.place}: the flow {flow.name} has no checkpoint at {flow_directory}, although an update has run."
        )
    return flow_directory / str(max(numbers))


def _listed(directory: Path) -> list[Path]:
    return list(directory.iterdir()) if directory.is_dir() else []


@contextmanager
def _settings(spark: SparkSession, flow: FlowDefinition) -> Iterator[None]:
    """A flow's own settings of Spark while its query starts, which copies those of the session."""
    before = {name: spark.conf.get(name, None) for name in flow.settings}
    try:
        for name, value in flow.settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def _is_stream(graph: Graph, flow: FlowDefinition) -> bool:
    output = graph.outputs.get(flow.target)
    return output is not None and output.kind in ("table", "sink")


def refusals(project: Project, graph: Graph) -> list[str]:
    """A sentence for each thing of a pipeline that cannot be live."""
    problems = [
        f"{place}: --live takes no settings in SQL: write them into `configuration`."
        for place in graph.settings_in_sql
    ]
    if local_path(project.storage) is None:
        problems.append(
            f"{project.file}: --live needs `storage` on a file system of this machine, not {project.storage}."
        )
    for output in graph.outputs.values():
        if output.kind == "materialized view" and not output.is_swapped:
            problems.append(
                f"{output.place}: the materialized view {output.name} is more than a name, a comment and a query: Spark "
                "writes it, and only in updates."
            )
        elif output.kind == "table" and (output.format or project.table_format) != "parquet":
            problems.append(f"{output.place}: the table {output.name} is not Parquet, as --live needs.")
    for flow in graph.flows.values():
        problems += _flow_refusals(graph, flow)
    return problems


def _flow_refusals(graph: Graph, flow: FlowDefinition) -> list[str]:
    if flow.query is None:
        return [f"{flow.place}: the flow {flow.name} is no query, and runs in updates only."]
    if not _is_stream(graph, flow):
        return []
    fused = [flow, *temporary_views_of(graph, [flow])]
    stored = set(graph.tables())
    return [
        f"{flow.place}: the flow {flow.name} joins its stream with {name}, a table of this pipeline: a query that goes "
        "on would see it as it was at the start. Join two streams (`steps.join_streams`), or use --continuous."
        for name in sorted({each for part in fused for each in part.inputs.tables} & stored)
    ]
