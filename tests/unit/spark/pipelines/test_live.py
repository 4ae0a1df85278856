"""Which pipelines can be live, in which order their views are made, and where their checkpoints are."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.spark.pipelines.directory_swap import swap
from ottla.spark.pipelines.failures import PipelineError, Place
from ottla.spark.pipelines.flow_inputs import FlowInputs
from ottla.spark.pipelines.graph import FlowDefinition, Graph, OutputDefinition, note_sql
from ottla.spark.pipelines.live import checkpoint, refusals
from ottla.spark.pipelines.project import Project
from ottla.spark.pipelines.views import below, in_order, temporary_views_of

PROJECT = Project(Path("/p/spark-pipeline.yml"), "p", "file:///p/s", None, None, {}, ())
FILE = Path("a.sql")


def graph_of(text: str) -> Graph:
    graph = Graph("1")
    note_sql(graph, text, FILE, swaps_views=True)
    return graph


def test_a_pipeline_whose_queries_can_go_on_is_not_refused() -> None:
    graph = graph_of(
        "CREATE STREAMING TABLE raw AS SELECT * FROM STREAM(somewhere);\n"
        "CREATE STREAMING TABLE good AS SELECT * FROM STREAM(raw) JOIN elsewhere USING (id);\n"
        "CREATE MATERIALIZED VIEW sums AS SELECT count(*) FROM good JOIN raw"
    )

    assert refusals(PROJECT, graph) == []


def test_what_would_not_stay_true_in_a_query_that_goes_on_is_refused() -> None:
    graph = graph_of(
        "SET a = 1;\n"
        "CREATE STREAMING TABLE raw AS SELECT * FROM STREAM(somewhere);\n"
        "CREATE TEMPORARY VIEW known AS SELECT * FROM sums;\n"
        "CREATE STREAMING TABLE good AS SELECT * FROM STREAM(raw) JOIN known USING (id);\n"
        "CREATE MATERIALIZED VIEW sums (a INT) AS SELECT count(*) FROM raw;\n"
        "CREATE STREAMING TABLE changes;\n"
        "CREATE FLOW cdc AS AUTO CDC INTO changes FROM STREAM(raw) KEYS (id) SEQUENCE BY at"
    )
    graph.outputs["other"] = OutputDefinition("other", "table", Place(FILE, 9), "delta")

    settings, view, table, joined, cdc = refusals(PROJECT, graph)

    assert settings.startswith("a.sql:1: --live takes no settings")
    assert view.startswith("a.sql:5: the materialized view sums")
    assert table.startswith("a.sql:9: the table other is not Parquet")
    assert joined.startswith("a.sql:4: the flow good joins its stream with sums")
    assert cdc.startswith("a.sql:7: the flow cdc is no query")


def test_views_are_made_behind_those_that_they_read() -> None:
    graph = graph_of(
        "CREATE MATERIALIZED VIEW c AS SELECT * FROM b JOIN v;\n"
        "CREATE TEMPORARY VIEW v AS SELECT * FROM w;\n"
        "CREATE TEMPORARY VIEW w AS SELECT * FROM raw;\n"
        "CREATE MATERIALIZED VIEW b AS SELECT * FROM good;\n"
        "CREATE STREAMING TABLE good AS SELECT * FROM STREAM(raw);\n"
        "CREATE STREAMING TABLE raw AS SELECT * FROM STREAM(somewhere)"
    )

    assert [flow.name for flow in in_order(graph, [graph.flows["c"], graph.flows["b"]])] == ["b", "c"]
    assert [flow.name for flow in temporary_views_of(graph, [graph.flows["c"]])] == ["w", "v"]
    assert below(graph, "c") == {"b", "raw"}
    assert (graph.swapped(), graph.for_spark()) == (["c", "b"], ["good", "raw"])


def test_a_flow_goes_on_from_its_newest_checkpoint(tmp_path: Path) -> None:
    project = Project(tmp_path / "spark-pipeline.yml", "p", f"file://{tmp_path}/s", None, "shop", {}, ())
    flow = FlowDefinition("fill", "raw", Place(FILE, 1), inputs=FlowInputs())
    with pytest.raises(PipelineError, match="the flow fill has no checkpoint"):
        checkpoint(project, flow, "table")
    for number in ("0", "9", "10", "x"):
        (tmp_path / "s/_checkpoints/spark_catalog/shop/raw/fill" / number).mkdir(parents=True)
    (tmp_path / "s/_checkpoints/raw/fill/3").mkdir(parents=True)

    assert checkpoint(project, flow, "table").name == "10"
    assert checkpoint(project, flow, "sink").name == "3"


def test_directories_exchange_their_names(tmp_path: Path) -> None:
    for name in ("fresh", "old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()

    swap(tmp_path / "fresh", tmp_path / "old")
    assert (tmp_path / "old" / "fresh").exists()
    assert (tmp_path / "fresh" / "old").exists()
    swap(tmp_path / "fresh", tmp_path / "new")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["new", "old"]


def test_directories_exchange_their_names_where_the_system_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.spark.pipelines.directory_swap._exchange", lambda one, other: False)
    test_directories_exchange_their_names(tmp_path)
