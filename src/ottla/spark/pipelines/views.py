"""Materialized views: each is computed into a directory beside the old one, and takes its name in one step, so that
readers find the last complete view at all times. (Spark itself drops the view and fills it when the update is done.)

Rules
- A view is written here if its definition is plain: a name, a comment, a query. Others are Spark's.
- A view reads the tables as they are when it is computed. Views that read other views follow them.
- Temporary views are given to the session only while a view is computed: a plan that was resolved earlier would
  have the files of an earlier time.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ottla.spark.pipelines.catalog import forgets, quoted
from ottla.spark.pipelines.directory_swap import swap
from ottla.spark.pipelines.events import COMPLETED, FAILED, RUNNING, FlowEvent
from ottla.spark.pipelines.failures import exception_in_words
from ottla.spark.pipelines.graph import FlowDefinition, Graph
from ottla.spark.pipelines.project import Project, local_path
from ottla.spark.pipelines.remote import RemoteSpark
from ottla.spark.pipelines.session import LocalSpark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BESIDE: Final = "beside"


def can_swap(project: Project, spark: LocalSpark | RemoteSpark) -> bool:
    """Whether a view's directory can be exchanged: Parquet on this machine's file system, in Spark's own catalog."""
    return (
        spark.driver is not None
        and project.table_format == "parquet"
        and project.catalog in (None, "spark_catalog")
        and local_path(project.warehouse) is not None
        and forgets(spark.connect)
    )


class Views:
    """The materialized views of a pipeline that are written here."""

    def __init__(self, spark: LocalSpark, database: str, told: Callable[[FlowEvent], None]) -> None:
        self._spark = spark
        self._database = database
        self._told = told

    def write(self, graph: Graph, names: Iterable[str]) -> dict[str, str]:
        """Compute views; the failures by the names of the views."""
        wanted = set(names)
        failures = {}
        for flow in in_order(graph, (flow for flow in graph.flows.values() if is_swapped(graph, flow))):
            if flow.name not in wanted:
                continue
            self._told(FlowEvent(flow.name, RUNNING))
            try:
                self._write(graph, flow)
            except Exception as error:
                failures[flow.name] = exception_in_words(error)
                self._told(FlowEvent(flow.name, FAILED, failures[flow.name]))
            else:
                self._told(FlowEvent(flow.name, COMPLETED))
        return failures

    def have_inputs(self, graph: Graph, name: str) -> bool:
        """Whether all of the pipeline's tables that a view reads are there."""
        return all(self._spark.connect.catalog.tableExists(self._quoted(each)) for each in below(graph, name))

    def _write(self, graph: Graph, flow: FlowDefinition) -> None:
        connect, name = self._spark.connect, self._quoted(flow.name)
        for table in below(graph, flow.name):
            connect.catalog.refreshTable(self._quoted(table))
        with temporary_views(connect, graph, [flow]):
            frame = query(connect, flow)
            if not connect.catalog.tableExists(name):
                comment = graph.outputs[flow.name].comment
                connect.catalog.createTable(name, source="parquet", schema=frame.schema, description=comment)
            place = self.location(flow.name)
            fresh = self._beside(place)
            frame.write.parquet(f"file://{fresh}")
        swap(fresh, place)
        self._tell_catalog(flow.name, frame)
        shutil.rmtree(fresh, ignore_errors=True)

    def _beside(self, place: Path) -> Path:
        """A new name for a directory; what a killed process has left under such a name goes."""
        prefix = f".{place.name}.{_BESIDE}-"
        place.parent.mkdir(parents=True, exist_ok=True)
        for left in place.parent.glob(f"{prefix}*"):
            shutil.rmtree(left, ignore_errors=True)
        return place.with_name(prefix + os.urandom(4).hex())

    def location(self, name: str) -> Path:
        """The directory of a table of the pipeline."""
        place = local_path(str(self._catalog().getTable(self._database, name).location()))
        assert place is not None, "the warehouse is on this machine"
        return place

    def _tell_catalog(self, name: str, frame: DataFrame) -> None:
        """The columns may be others than before, and the files are."""
        connect = self._spark.connect
        if _columns(connect.table(self._quoted(name))) != _columns(frame):
            session = cast(Any, self._spark.driver)._jsparkSession
            schema = session.parseDataType(frame.schema.json())
            self._catalog().alterTableDataSchema(self._database, name, schema)
        connect.catalog.refreshTable(self._quoted(name))

    def _catalog(self) -> Any:
        return cast(Any, self._spark.driver)._jsparkSession.sharedState().externalCatalog()

    def _quoted(self, name: str) -> str:
        return quoted([self._database, name])


def is_swapped(graph: Graph, flow: FlowDefinition) -> bool:
    """Whether a flow is the query of a view that is written here."""
    output = graph.outputs.get(flow.target)
    return output is not None and output.is_swapped


def in_order(graph: Graph, flows: Iterable[FlowDefinition]) -> list[FlowDefinition]:
    """Flows behind those whose views they read."""
    ordered: dict[str, FlowDefinition] = {}
    begun: set[str] = set()
    wanted = {flow.name: flow for flow in flows}

    def visit(name: str) -> None:
        flow = graph.flows.get(name)
        if flow is None or name in begun:
            return
        begun.add(name)
        for each in sorted(flow.inputs.all):
            visit(each)
        if name in wanted:
            ordered[name] = flow

    for name in wanted:
        visit(name)
    return list(ordered.values())


def below(graph: Graph, name: str) -> set[str]:
    """The pipeline's stored tables that a flow reads, itself or through temporary views."""
    stored = set(graph.tables())
    found: set[str] = set()
    seen: set[str] = set()
    pending = [name]
    while pending:
        flow = graph.flows.get(pending.pop())
        for each in flow.inputs.all if flow else ():
            if each in stored:
                found.add(each)
            elif each not in seen:
                seen.add(each)
                pending.append(each)
    return found


def temporary_views_of(graph: Graph, flows: Iterable[FlowDefinition]) -> list[FlowDefinition]:
    """The temporary views that flows read, also through each other, in the order in which they can be made."""
    found: dict[str, FlowDefinition] = {}
    pending = list(flows)
    while pending:
        for name in pending.pop().inputs.all:
            output = graph.outputs.get(name)
            if output is not None and output.kind == "temporary view" and name not in found:
                found[name] = graph.flows[name]
                pending.append(graph.flows[name])
    return in_order(graph, found.values())


@contextmanager
def temporary_views(spark: SparkSession, graph: Graph, flows: Iterable[FlowDefinition]) -> Iterator[None]:
    """While queries are resolved, the session has the temporary views that they read."""
    made = []
    try:
        for view in temporary_views_of(graph, flows):
            query(spark, view).createOrReplaceTempView(view.name)
            made.append(view.name)
        yield
    finally:
        for name in made:
            spark.catalog.dropTempView(name)


def query(spark: SparkSession, flow: FlowDefinition) -> DataFrame:
    """The DataFrame of a flow, resolved anew."""
    assert flow.query is not None, "Spark knows the query of this flow alone"
    return spark.sql(flow.query) if isinstance(flow.query, str) else flow.query


def _columns(frame: DataFrame) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
