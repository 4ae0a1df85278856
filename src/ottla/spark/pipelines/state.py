"""A pipeline's memory between processes: its tables, its flows, and the result of the last update. One JSON
file beside the checkpoints.

It says nothing that decides what is processed: that is in Spark's checkpoints. It is written as a whole and
put in place by a rename.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ottla.spark.pipelines.graph import Graph
from ottla.spark.pipelines.project import Project, local_path

FILE_NAME: Final = "ottla-pipeline.json"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class TableState:
    """A table: what makes it (`CREATE TABLE`; empty if its catalog remembers it), and where it lies."""

    created: str
    location: str


@dataclass(frozen=True, slots=True)
class FlowState:
    """A flow, as it was defined in the last update."""

    target: str
    place: str
    topics: tuple[str, ...] = ()
    group: str | None = None


@dataclass(frozen=True, slots=True)
class FlowResult:
    """How far a flow came in the last update."""

    state: str
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class UpdateState:
    """The last update; `ended_ms` is None while it runs, or if its process was killed."""

    started_ms: int
    process: int
    ended_ms: int | None = None
    outcome: str = "running"  # running, completed, failed, stopped
    errors: tuple[str, ...] = ()
    flows: Mapping[str, FlowResult] = field(default_factory=dict)
    is_live: bool = False  # queries that go on, from this time on


@dataclass(frozen=True, slots=True)
class PipelineState:
    """All of it."""

    tables: Mapping[str, TableState] = field(default_factory=dict)
    flows: Mapping[str, FlowState] = field(default_factory=dict)
    last_update: UpdateState | None = None


def is_running(update: UpdateState) -> bool:
    """Whether an update is not over: its process is there, and has not said that it is."""
    if update.outcome != "running":
        return False
    try:
        os.kill(update.process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def state_file(project: Project) -> Path:
    """Beside the checkpoints if those are on this machine, else beside the project's file."""
    storage = local_path(project.storage)
    return (storage or project.directory) / FILE_NAME


def load_state(project: Project) -> PipelineState:
    """The remembered state; empty before the first update."""
    try:
        content = json.loads(state_file(project).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return PipelineState()
    return _parse(content)


def save_state(project: Project, state: PipelineState) -> None:
    """Put the new state in the place of the old one."""
    file = state_file(project)
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(f".{os.getpid()}.partial")
    partial.write_text(json.dumps({"version": _VERSION, **asdict(state)}, indent=1) + "\n", encoding="utf-8")
    os.replace(partial, file)


def with_graph(state: PipelineState, graph: Graph) -> PipelineState:
    """The state with the flows of a graph."""
    flows = {
        flow.name: FlowState(
            target=flow.target,
            place=str(flow.place),
            topics=tuple(dict.fromkeys(read.topic for read in flow.reads)),
            group=flow.reads[0].group if flow.reads else None,
        )
        for flow in graph.flows.values()
    }
    return replace(state, flows=flows)


def _parse(content: dict[str, Any]) -> PipelineState:
    last = content.get("last_update")
    return PipelineState(
        tables={name: TableState(**table) for name, table in content["tables"].items()},
        flows={
            name: FlowState(**{**flow, "topics": tuple(flow["topics"])})
            for name, flow in content["flows"].items()
        },
        last_update=last and _update(last),
    )


def _update(content: dict[str, Any]) -> UpdateState:
    flows = {name: FlowResult(**result) for name, result in content["flows"].items()}
    return UpdateState(**{**content, "errors": tuple(content["errors"]), "flows": flows})
