"""Queries of the live mode that fail: started again after a growing pause, given up after five failures in a row."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.spark.pipelines import live
from ottla.spark.pipelines.failures import Place
from ottla.spark.pipelines.flow_inputs import FlowInputs
from ottla.spark.pipelines.flow_progress import Board
from ottla.spark.pipelines.graph import FlowDefinition, Graph, OutputDefinition
from ottla.spark.pipelines.live import LiveFlows
from ottla.spark.pipelines.project import Project


@dataclass(slots=True)
class Query:
    """A streaming query; `error` is what it ends with."""

    id: str
    error: Exception | None = None
    stopped: bool = False

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.stopped = True


@dataclass(slots=True)
class Spark:
    """The parts of a session and of its writer that are used, and the queries that were started."""

    started: list[Query] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    now: float = 0.0

    @property
    def connect(self) -> Spark:
        return self

    @property
    def conf(self) -> Any:
        return SimpleNamespace(
            get=self.settings.get,
            set=self.settings.__setitem__,
            unset=lambda name: self.settings.pop(name, None),
        )

    @property
    def streams(self) -> Any:
        return SimpleNamespace(active=[each for each in self.started if each.error is None])

    @property
    def writeStream(self) -> Spark:  # noqa: N802 - Spark's name
        return self

    def __getattr__(self, name: str) -> Any:
        def note(*arguments: Any, **named: Any) -> Spark:
            self.options |= {name: arguments or named}
            return self

        return note

    def toTable(self, name: str) -> Query:  # noqa: N802 - Spark's name
        self.options["settings"] = dict(self.settings)
        self.started.append(Query(name))
        return self.started[-1]

    def fail(self) -> None:
        self.started[-1].error = RuntimeError("no disk")


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Spark:
    made = Spark()
    monkeypatch.setattr(live, "time", SimpleNamespace(monotonic=lambda: made.now))
    return made


@pytest.fixture
def board() -> Board:
    return Board()


@pytest.fixture
def flows(spark: Spark, board: Board, tmp_path: Path) -> LiveFlows:
    project = Project(tmp_path / "spark-pipeline.yml", "p", f"file://{tmp_path}", None, None, {}, ())
    (tmp_path / "_checkpoints/spark_catalog/default/raw/fill/0").mkdir(parents=True)
    graph = Graph("1")
    place = Place(Path("a.py"), 1)
    graph.outputs["raw"] = OutputDefinition("raw", "table", place)
    frame: Any = spark
    graph.flows["fill"] = FlowDefinition("fill", "raw", place, query=frame, settings={"spark.x": "1"})
    session: Any = spark
    views: Any = None
    return LiveFlows(project, session, graph, 0.5, views, board, board.note)


def test_a_flow_goes_on_from_its_checkpoint_with_its_own_settings(
    spark: Spark, flows: LiveFlows, tmp_path: Path
) -> None:
    flows.start()

    assert flows.step() is None
    assert spark.options["queryName"] == ("fill",)
    directory = f"file://{tmp_path}/_checkpoints/spark_catalog/default/raw/fill/0"
    assert spark.options["option"] == ("checkpointLocation", directory)
    assert spark.options["trigger"] == {"processingTime": "500 milliseconds"}
    assert (spark.options["settings"], spark.settings) == ({"spark.x": "1"}, {})
    flows.stop()
    assert [each.stopped for each in spark.started] == [True]


def test_a_failed_query_is_started_again_after_a_pause_that_grows(
    spark: Spark, flows: LiveFlows, board: Board
) -> None:
    flows.start()
    for pause in (1.0, 2.0, 4.0, 8.0):
        count = len(spark.started)
        spark.fail()
        assert flows.step() is None
        (state,) = board.flows()
        assert (state.state, state.error) == ("failed", "RuntimeError: no disk")
        spark.now += pause - 0.1
        assert flows.step() is None
        assert len(spark.started) == count
        spark.now += 0.1
        assert flows.step() is None
        assert len(spark.started) == count + 1
    spark.fail()
    assert flows.step() == "the flow fill has failed 5 times in a row: giving up"


def test_a_query_that_has_read_rows_begins_to_count_anew(
    spark: Spark, flows: LiveFlows, board: Board
) -> None:
    flows.start()
    for number in range(7):
        board.progress("fill", 1, None, {})
        spark.fail()
        assert flows.step() is None, number
        spark.now += 1.0
        assert flows.step() is None
    assert len(spark.started) == 8


def test_a_flow_that_follows_a_table_looks_for_rows_more_often(spark: Spark, tmp_path: Path) -> None:
    project = Project(tmp_path / "spark-pipeline.yml", "p", f"file://{tmp_path}", None, None, {}, ())
    (tmp_path / "_checkpoints/spark_catalog/default/good/good/0").mkdir(parents=True)
    graph, place = Graph("1"), Place(Path("a.py"), 1)
    frame: Any = spark
    for name, kind in (("raw", "table"), ("judged", "temporary view"), ("good", "table")):
        graph.outputs[name] = OutputDefinition(name, kind, place)
    for name, source in (("judged", "raw"), ("good", "judged")):
        inputs = FlowInputs(frozenset({source}))
        graph.flows[name] = FlowDefinition(name, name, place, inputs=inputs, query=frame)
    unused: Any = None

    LiveFlows(project, frame, graph, 2.0, unused, Board(), lambda event: None).start()

    assert spark.options["trigger"] == {"processingTime": "500 milliseconds"}
