"""A pipeline's stored state is read back as it was."""

from __future__ import annotations

from pathlib import Path

from ottla.spark.pipelines.context import TopicRead
from ottla.spark.pipelines.failures import Place
from ottla.spark.pipelines.graph import FlowDefinition, Graph
from ottla.spark.pipelines.project import Project
from ottla.spark.pipelines.state import (
    FlowResult,
    PipelineState,
    TableState,
    UpdateState,
    load_state,
    save_state,
    state_file,
    with_graph,
)


def project(directory: Path, storage: str | None = None) -> Project:
    return Project(
        directory / "spark-pipeline.yml", "p", storage or f"file://{directory}/storage", None, None, {}, ()
    )


def test_state_is_saved_and_loaded(tmp_path: Path) -> None:
    graph = Graph("1")
    graph.flows["orders"] = FlowDefinition(
        "orders", "orders", Place(Path("a.py"), 3), (TopicRead("t", "p.orders"),)
    )
    update = UpdateState(1, 2, 3, "failed", ("why",), {"orders": FlowResult("failed", 7)})
    state = with_graph(PipelineState({"`a`": TableState("CREATE TABLE a", "file:/a")}, {}, update), graph)
    assert load_state(project(tmp_path)) == PipelineState()

    save_state(project(tmp_path), state)

    assert load_state(project(tmp_path)) == state
    assert state.flows["orders"].topics == ("t",)
    assert [each.name for each in (tmp_path / "storage").iterdir()] == ["ottla-pipeline.json"]


def test_state_of_a_pipeline_whose_storage_is_elsewhere_is_beside_its_file(tmp_path: Path) -> None:
    assert state_file(project(tmp_path, "s3://b/c")).parent == tmp_path
