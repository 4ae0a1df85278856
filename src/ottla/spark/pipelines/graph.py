"""A pipeline's definitions: read from its files, told to Spark, and remembered with the file and line of
each.

Rules
- A Python file is run once per update; what it defines with `pyspark.pipelines` goes to Spark as it comes.
  `spark` is defined in it, as under Spark's own command.
- A flow's function is called inside `defining`, so that `read_topic` knows the flow.
- Parquet's streaming tables have one flow each. Spark lets several flows write to one, but they share the
  table's list of committed batches: each takes the others' batches for its own, and skips data without a
  word. This is refused here.
- A flow that Spark runs before the tables that it reads are filled (pipelines/order.py) is warned of.
- Plain materialized views (`Reading.swaps_views`) are temporary views for Spark, which would empty them at the
  beginning of an update; views.py writes them.
- Settings are the session's: given to Spark once more with the definitions, those that it takes only at its
  start would make every flow fail.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ottla.spark.pipelines.context import Recorder, TopicRead, defining, logging_in
from ottla.spark.pipelines.failures import Place, exception_in_words, place_of
from ottla.spark.pipelines.flow_inputs import FlowInputs, inputs_of_plan, inputs_of_sql
from ottla.spark.pipelines.missing_dependencies import in_words, tables_looked_up
from ottla.spark.pipelines.project import Project, definition_files
from ottla.spark.pipelines.sql_definitions import other_statements, parse_sql, with_plain_views_temporary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Spark analyses these at once, when the pipeline's tables are not there yet.
_NOT_YET: Final = re.compile(r"The table or view `(?P<table>[^`]+)` cannot be found")


@dataclass(frozen=True, slots=True)
class FlowDefinition:
    """A flow: where it is defined, what it fills, which topics it reads."""

    name: str
    target: str
    place: Place
    reads: tuple[TopicRead, ...] = ()
    looked_up: frozenset[tuple[str, str]] = frozenset()  # steps on tables for which Spark would not wait
    inputs: FlowInputs = field(default_factory=FlowInputs)
    query: DataFrame | str | None = field(
        default=None, compare=False
    )  # SQL's is text; None: Spark alone knows it
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OutputDefinition:
    """A table, a view or a sink. `topic` is where a sink writes to, if that is known."""

    name: str
    kind: str  # table, materialized view, temporary view, sink
    place: Place
    format: str | None = None
    topic: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # a sink's; there may be passwords
    is_plain: bool = True  # its definition asks for no schema, partitions or properties
    is_swapped: bool = False  # a materialized view that is written beside the old one, not by Spark
    comment: str | None = None


@dataclass(slots=True)
class Graph:
    """All that a project defines."""

    identifier: str  # Spark's
    outputs: dict[str, OutputDefinition] = field(default_factory=dict)
    flows: dict[str, FlowDefinition] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)  # why it cannot be run, in sentences
    warnings: list[str] = field(default_factory=list)  # what it would better not do
    settings_in_sql: list[Place] = field(default_factory=list)  # statements that define nothing

    def tables(self) -> list[str]:
        """Those that are stored, by the names that their definitions give them."""
        return [
            name for name, output in self.outputs.items() if output.kind in ("table", "materialized view")
        ]

    def swapped(self) -> list[str]:
        """The materialized views that are written beside the old ones."""
        return [name for name, output in self.outputs.items() if output.is_swapped]

    def for_spark(self) -> list[str]:
        """The tables and sinks that Spark's update fills."""
        return [
            name
            for name, output in self.outputs.items()
            if output.kind != "temporary view" and not output.is_swapped
        ]

    def unknown_tables(self, names: Iterable[str]) -> list[str]:
        """A sentence for each name that no stored table has; a name may have its catalog and database before it."""
        known = self.tables()
        problems = []
        for name in dict.fromkeys(names):
            own = name.rpartition(".")[2].strip("`")
            if any(own == each.rpartition(".")[2] for each in known):
                continue
            close = get_close_matches(own, known, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known) or 'none'}."
            problems.append(f"the pipeline has no table {name}; {hint}")
        return problems

    def topics_read(self) -> set[str]:
        return {read.topic for flow in self.flows.values() for read in flow.reads}


@dataclass(frozen=True, slots=True)
class Reading:
    """How definitions are read in this update: the brokers, and the time from which some tables are
    rebuilt.
    """

    bootstrap_servers: str
    since: str | None = None
    anew: frozenset[str] | None = frozenset()  # None: all tables
    swaps_views: bool = False  # plain materialized views are not Spark's

    def since_of(self, target: str) -> str | None:
        return self.since if self.anew is None or target in self.anew else None


class _Registry:
    """Stands before Spark's own registry: notes what is defined, and passes it on."""

    def __init__(
        self, project: Project, reading: Reading, graph: Graph, spark_registry: Any, client: Any
    ) -> None:
        self._client = client
        self._project = project
        self._reading = reading
        self._graph = graph
        self._spark = spark_registry

    @property
    def swaps_views(self) -> bool:
        return self._reading.swaps_views

    def register_output(self, output: Any) -> None:
        kind = _KINDS[type(output).__name__]
        table_format, options = getattr(output, "format", None), getattr(output, "options", {})
        is_swapped = self._reading.swaps_views and kind == "materialized view" and _is_plain(output)
        self._spark.register_output(_temporary(output) if is_swapped else output)
        self._graph.outputs[output.name] = OutputDefinition(
            output.name,
            kind,
            _place(output),
            table_format,
            options.get("topic") if table_format == "ottla" else None,
            options,
            _is_plain(output),
            is_swapped,
            output.comment,
        )

    def register_flow(self, flow: Any) -> None:
        recorder = Recorder(
            self._project.name,
            flow.name,
            self._reading.bootstrap_servers,
            self._reading.since_of(flow.target),
        )
        made: list[Any] = []

        def defined() -> Any:
            made.append(flow.func())
            return made[-1]

        with defining(recorder):
            self._spark.register_flow(replace(flow, func=defined))
        plan = made[-1]._plan.plan(self._client)
        self._graph.flows[flow.name] = FlowDefinition(
            flow.name,
            flow.target,
            _place(flow),
            tuple(recorder.reads),
            tables_looked_up(plan),
            inputs_of_plan(plan),
            made[-1],
            flow.spark_conf,
        )

    def register_auto_cdc_flow(self, flow: Any) -> None:
        self._spark.register_auto_cdc_flow(flow)
        self._graph.flows[flow.name] = FlowDefinition(flow.name, flow.target, _place(flow))

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        text = with_plain_views_temporary(sql_text) if self._reading.swaps_views else sql_text
        self._spark.register_sql(text, file_path)


def _is_plain(output: Any) -> bool:
    """Whether a table's definition asks for nothing that only Spark's own way of making it would give."""
    special = ("table_properties", "partition_cols", "cluster_by", "schema")
    plain_format = getattr(output, "format", None) in (None, "parquet")
    return (
        plain_format and "." not in output.name and not any(getattr(output, each, None) for each in special)
    )


def _temporary(view: Any) -> Any:
    from pyspark.pipelines.output import TemporaryView

    return TemporaryView(view.name, view.comment, view.source_code_location)


_KINDS: Final = {
    "StreamingTable": "table",
    "MaterializedView": "materialized view",
    "TemporaryView": "temporary view",
    "Sink": "sink",
}


def _place(element: Any) -> Place:
    location = element.source_code_location
    return Place(Path(location.filename), location.line_number or 0)


def read_definitions(spark: SparkSession, project: Project, reading: Reading) -> Graph:
    """Run and register all files of a project. One that cannot be read is noted, so that all that is wrong is
    known at once.
    """
    from pyspark.pipelines.graph_element_registry import graph_element_registration_context
    from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
    from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph

    _hush()
    files = definition_files(project)
    identifier = create_dataflow_graph(
        spark,
        default_catalog=project.catalog,
        default_database=project.database,
        sql_conf={},
    )
    graph = Graph(identifier)
    spark_registry = SparkConnectGraphElementRegistry(spark, identifier)
    registry: Any = _Registry(project, reading, graph, spark_registry, cast(Any, spark).client)
    reached = logging_in(project.client_properties)
    with _inside(project.directory), reached, graph_element_registration_context(registry):
        failures = [_read_file(file, spark, project, graph, registry) for file in files]
    causes = [f"{place}: {_cause(said, graph)}" for place, said in filter(None, failures)]
    graph.problems += [*causes, *shared_parquet(project, graph)]
    graph.warnings += out_of_order(graph)
    return graph


def _read_file(
    file: Path, spark: SparkSession, project: Project, graph: Graph, registry: _Registry
) -> tuple[Place | Path, str] | None:
    """Where and why a file could not be read; None if it could."""
    try:
        if file.suffix == ".py":
            _run_python(file, spark, graph.identifier)
        else:
            text = file.read_text(encoding="utf-8")
            registry.register_sql(text, file.relative_to(project.directory))
            note_sql(graph, text, file, swaps_views=registry.swaps_views)
    except Exception as error:
        return place_of(error, project.directory) or file, exception_in_words(error)
    return None


def _hush() -> None:
    """Spark's client logs every error that it raises, with everything that the server said."""
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)


def _run_python(file: Path, spark: SparkSession, identifier: str) -> None:
    from pyspark.pipelines.add_pipeline_analysis_context import add_pipeline_analysis_context
    from pyspark.pipelines.block_session_mutations import block_session_mutations

    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["spark"] = spark
    context = add_pipeline_analysis_context(spark=spark, dataflow_graph_id=identifier, flow_name=None)
    with context, block_session_mutations():
        spec.loader.exec_module(module)


def note_sql(graph: Graph, text: str, file: Path, *, swaps_views: bool = False) -> None:
    """Note what a file in SQL defines; Spark reads it by itself."""
    for found in parse_sql(text):
        name = _last_part(found.name)
        place = Place(file, text.count("\n", 0, found.start) + 1)
        if found.kind != "flow":
            is_swapped = swaps_views and found.kind == "materialized view" and found.is_plain
            graph.outputs[name] = OutputDefinition(
                name, found.kind, place, is_plain=found.is_plain, is_swapped=is_swapped
            )
        if found.kind == "flow" or found.query:
            inputs = inputs_of_sql(found.query or "")
            graph.flows[name] = FlowDefinition(
                name, _last_part(found.target), place, inputs=inputs, query=found.query
            )
    graph.settings_in_sql += [Place(file, line) for line in other_statements(text)]


def _last_part(name: str) -> str:
    return name.rpartition(".")[2].strip("`")


def _cause(said: str, graph: Graph) -> str:
    """The sentence, or a better one, which needs to know all tables."""
    missing = _NOT_YET.search(said)
    if missing and _last_part(missing["table"]) in graph.outputs:
        table = missing["table"]
        return (
            f"{table} is a table of this pipeline, and Spark cannot look at it while definitions are read, as "
            "`withWatermark`, `drop`, `columns` and `schema` want to. A watermark is set by "
            f'`steps.read_table(spark, "{table}", watermark=("COLUMN", "1 minute"))`, and columns are left out by '
            '`selectExpr("* EXCEPT (a, b)")`.'
        )
    return said


def out_of_order(graph: Graph) -> list[str]:
    """A sentence for each flow that Spark runs too early."""
    tables = {_last_part(name) for name in graph.tables()}
    found = {
        name: [each for each in flow.looked_up if each[1] in tables] for name, flow in graph.flows.items()
    }
    return [f"{graph.flows[name].place}: {in_words(name, steps)}" for name, steps in found.items() if steps]


def shared_parquet(project: Project, graph: Graph) -> list[str]:
    """A sentence for each table in which Spark would skip rows."""
    problems = []
    writers: dict[str, list[FlowDefinition]] = {}
    for flow in graph.flows.values():
        writers.setdefault(_last_part(flow.target), []).append(flow)
    for target, flows in writers.items():
        output = graph.outputs.get(target)
        if output is None or output.kind != "table" or len(flows) < 2:
            continue
        if (output.format or project.table_format) == "parquet":
            names = " and ".join(flow.name for flow in flows)
            problems.append(
                f"{flows[-1].place}: the flows {names} write to the Parquet table {target}, and Spark would skip rows: they share "
                "its list of committed batches. Unite the inputs in one flow with `unionByName`, or give each flow a table."
            )
    return problems


@contextmanager
def _inside(directory: Path) -> Iterator[None]:
    """Definitions find files beside them by relative paths, as under Spark's own command."""
    before = os.getcwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)
