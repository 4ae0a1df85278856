"""Definitions in SQL as they are read, and graphs that are refused."""

from __future__ import annotations

from pathlib import Path

from ottla.spark.pipelines.failures import Place
from ottla.spark.pipelines.graph import (
    FlowDefinition,
    Graph,
    OutputDefinition,
    Reading,
    note_sql,
    out_of_order,
    shared_parquet,
)
from ottla.spark.pipelines.project import Project

PROJECT = Project(Path("/p/spark-pipeline.yml"), "p", "file:///p/s", None, None, {}, ())
FILE = Path("a.sql")


def test_definitions_in_sql_are_noted_with_their_lines() -> None:
    graph = Graph("1")
    note_sql(
        graph,
        "-- a comment\nCREATE STREAMING TABLE raw;\n\ncreate flow fill AS INSERT INTO raw BY NAME SELECT * FROM STREAM a;\n"
        "CREATE OR REFRESH MATERIALIZED VIEW `s`.`sums` AS SELECT 1;\nCREATE TEMPORARY VIEW v AS SELECT 2",
        FILE,
    )

    assert {name: (output.kind, output.place.line) for name, output in graph.outputs.items()} == {
        "raw": ("table", 2),
        "sums": ("materialized view", 5),
        "v": ("temporary view", 6),
    }
    assert {name: flow.target for name, flow in graph.flows.items()} == {
        "fill": "raw",
        "sums": "sums",
        "v": "v",
    }


def shared(kind: str, table_format: str | None) -> Graph:
    graph = Graph("1")
    graph.outputs["t"] = OutputDefinition("t", kind, Place(FILE, 1), table_format)
    for name in ("one", "two"):
        graph.flows[name] = FlowDefinition(name, "t", Place(FILE, 2))
    return graph


def test_two_flows_into_one_parquet_table_are_refused() -> None:
    (problem,) = shared_parquet(PROJECT, shared("table", None))
    assert problem.startswith("a.sql:2: the flows one and two write to the Parquet table t")
    assert shared_parquet(PROJECT, shared("table", "delta")) == []
    assert shared_parquet(PROJECT, shared("sink", None)) == []


def test_tables_that_a_user_names_wrongly_are_told_with_those_that_there_are() -> None:
    graph = Graph("1")
    for name, kind in (("orders", "table"), ("totals", "materialized view"), ("parsed", "temporary view")):
        graph.outputs[name] = OutputDefinition(name, kind, Place(FILE, 1))
    assert graph.unknown_tables(["orders", "totals", "spark_catalog.default.orders", "`orders`"]) == []
    assert graph.unknown_tables(["order", "nosuch", "parsed"]) == [
        "the pipeline has no table order; did you mean orders?",
        "the pipeline has no table nosuch; there are orders, totals.",
        "the pipeline has no table parsed; there are orders, totals.",
    ]


def test_only_tables_that_are_made_anew_begin_at_a_time() -> None:
    reading = Reading("b:1", "2026-01-01", frozenset({"orders"}))

    assert (reading.since_of("orders"), reading.since_of("raw")) == ("2026-01-01", None)
    assert Reading("b:1", "2026-01-01", None).since_of("raw") == "2026-01-01"
    assert Reading("b:1").since_of("raw") is None


def test_a_flow_that_runs_too_early_is_warned_of() -> None:
    graph = Graph("1")
    note_sql(graph, "CREATE STREAMING TABLE raw;\nCREATE TEMPORARY VIEW v AS SELECT 2", FILE)
    graph.flows["late"] = FlowDefinition(
        "late", "late", Place(FILE, 3), (), frozenset({("drop", "raw"), ("drop", "v")})
    )
    graph.flows["fine"] = FlowDefinition("fine", "fine", Place(FILE, 4), (), frozenset({("drop", "v")}))

    (warning,) = out_of_order(graph)

    assert warning.startswith("a.sql:3: the flow late uses `drop` on raw: from the second update on")
