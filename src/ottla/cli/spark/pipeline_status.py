"""`ottla pipeline status`: the last update, the flows with their lag, the tables; for people or as JSON."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import click

from ottla.cli.broker_command import print_json, print_table
from ottla.client.admin.checks.durations import duration
from ottla.errors import KafkaError
from ottla.spark.pipelines.flow_progress import Offsets
from ottla.spark.pipelines.project import Project
from ottla.spark.pipelines.state import PipelineState, UpdateState, is_running, load_state
from ottla.spark.pipelines.status import FlowStanding, TableStanding, flow_standings, table_standings
from ottla.spark.pipelines.topics import log_ends


@dataclass(frozen=True, slots=True)
class Report:
    """All that is known; `ends` is None if no broker answers."""

    state: PipelineState
    flows: list[FlowStanding]
    tables: list[TableStanding]
    ends: Offsets | None

    def lag(self, flow: FlowStanding) -> int | None:
        if self.ends is None or not flow.position:
            return None
        return sum(max(0, self.ends.get(at, next_) - next_) for at, next_ in flow.position.items())


def print_report(project: Project, *, as_json: bool) -> None:
    """Gather and print."""
    state = load_state(project)
    if state.last_update is None and not as_json:
        click.echo(f"{project.name} has not run yet. Run it with: ottla pipeline run {project.directory}")
        return
    flows = flow_standings(project, state)
    report = Report(state, flows, table_standings(state), _ends(project, flows))
    if as_json:
        print_json(_as_json(project, report))
        return
    _print_update(project, report)
    _print_flows(report)
    _print_tables(report)


def _ends(project: Project, flows: list[FlowStanding]) -> Offsets | None:
    topics = {topic for flow in flows for topic, _ in flow.position}
    try:
        return log_ends(project.bootstrap_servers, topics, project.security)
    except (OSError, TimeoutError, KafkaError) as error:
        click.echo(f"Lag is unknown: no broker answers at {project.bootstrap_servers} ({error})", err=True)
        return None


def _print_update(project: Project, report: Report) -> None:
    last = report.state.last_update
    assert last is not None, "a pipeline that has not run has no report"
    ago = duration(max(0, int(time.time() * 1000) - (last.ended_ms or last.started_ms)))
    took = f", took {duration(last.ended_ms - last.started_ms)}" if last.ended_ms else ""
    what = "live mode" if last.is_live else "last update"
    click.echo(f"{project.name}: {what} {outcome_in_words(last)} {ago} ago{took}")
    for error in last.errors:
        click.echo(f"  {error}")


def outcome_in_words(update: UpdateState) -> str:
    """An update whose process is gone without a word was cut off."""
    if update.outcome != "running":
        return update.outcome
    return "running since" if is_running(update) else "cut off"


def _print_flows(report: Report) -> None:
    results = report.state.last_update.flows if report.state.last_update else {}
    rows = [
        (
            flow.name,
            results[flow.name].state if flow.name in results else None,
            flow.batches,
            results[flow.name].rows if flow.name in results else None,
            _position_in_words(flow.position) or None,
            report.lag(flow),
            flow.group,
        )
        for flow in report.flows
    ]
    print_table(("flow", "state", "batches", "rows read", "position", "lag", "group"), rows)


def _position_in_words(position: Offsets) -> str:
    return " ".join(
        f"{topic}-{partition}@{offset}" for (topic, partition), offset in sorted(position.items())
    )


def _print_tables(report: Report) -> None:
    rows = [
        (table.name, table.rows, table.files, _size(table.size_bytes), table.location)
        for table in report.tables
    ]
    print_table(("table", "rows", "files", "size", "location"), rows)


def _size(size_bytes: int | None) -> str | None:
    if size_bytes is None:
        return None
    size, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def _as_json(project: Project, report: Report) -> dict[str, Any]:
    last = report.state.last_update
    return {
        "pipeline": project.name,
        "last_update": last
        and {
            "outcome": outcome_in_words(last),
            "live": last.is_live,
            "started_ms": last.started_ms,
            "ended_ms": last.ended_ms,
            "errors": list(last.errors),
        },
        "flows": [
            {
                "name": flow.name,
                "state": last.flows[flow.name].state if last and flow.name in last.flows else None,
                "batches": flow.batches,
                "group": flow.group,
                "position": [
                    {"topic": topic, "partition": partition, "offset": offset}
                    for (topic, partition), offset in sorted(flow.position.items())
                ],
                "lag": report.lag(flow),
            }
            for flow in report.flows
        ],
        "tables": [
            {"name": t.name, "rows": t.rows, "files": t.files, "bytes": t.size_bytes, "location": t.location}
            for t in report.tables
        ],
    }
