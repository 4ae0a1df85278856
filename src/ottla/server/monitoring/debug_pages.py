"""Pages for somebody who debugs a running node: its state, its tasks, its slowest requests. As JSON, in pieces."""

import asyncio
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from ottla.config import BrokerConfig, settings_of
from ottla.server.apis.shown_clients import client_as_json, point_as_json
from ottla.server.monitoring.subject import Subject
from ottla.server.monitoring.survey import Survey

# Frames of a task's stack, the innermost last.
_FRAMES: Final = 5


def state(subject: Subject, survey: Survey) -> Iterator[str]:
    """Everything that the node knows of itself, in one object."""
    yield "{\n"
    yield from _section("node", _node(subject))
    yield from _section("quorum", _quorum(subject))
    yield from _section("brokers", [_broker(each) for each in subject.quorum.image.brokers.values()])
    yield from _section("listeners", [_listener(each) for each in subject.listeners.all])
    yield from _list("partitions", (_row(row, "labels") for row in survey.partitions))
    yield from _list("groups", (_row(row) for row in survey.groups))
    yield from _list("offsets", (_offset(row) for row in survey.offsets))
    yield from _list("transactions", (_row(row) for row in survey.transactions))
    yield f'"settings": {json.dumps(_settings(subject))}\n}}\n'


def tasks() -> Iterator[str]:
    """The tasks of the event loop, and where each of them waits."""
    yield '{"tasks": [\n'
    before = ""
    for task in sorted(asyncio.all_tasks(), key=lambda each: each.get_name()):
        yield before + json.dumps(_task(task))
        before = ",\n"
    yield "\n]}\n"


def slow(subject: Subject, now_s: float) -> Iterator[str]:
    """The slowest requests of the last minutes, of each API."""
    found = [slow for times in subject.services.requests.all for slow in times.slowest.all]
    yield '{"slowest": [\n'
    yield ",\n".join(
        json.dumps({**_row(each, "at_s"), "ago_s": round(now_s - each.at_s, 3)})
        for each in sorted(found, reverse=True)
    )
    yield "\n]}\n"


def clients(subject: Subject, now_ms: int) -> Iterator[str]:
    """The clients that push metrics, with the numbers that each of them pushed last."""
    yield '{"clients": [\n'
    before = ""
    for each in subject.services.client_metrics:
        yield f'{before}{{"client": {json.dumps(client_as_json(each, now_ms))}, "metrics": ['
        before = ",\n"
        for number, point in enumerate(each.points):
            yield (",\n" if number else "\n") + json.dumps(point_as_json(point))
        yield "]}"
    yield "\n]}\n"


def _section(name: str, content: Any) -> Iterator[str]:
    yield f'"{name}": {json.dumps(content)},\n'


def _list(name: str, rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    yield f'"{name}": ['
    before = "\n"
    for row in rows:
        yield before + json.dumps(row)
        before = ",\n"
    yield "],\n"


def _node(subject: Subject) -> dict[str, Any]:
    process = subject.runtime.process
    return {
        "id": subject.node_id,
        "cluster": subject.quorum.image.cluster_id,
        "roles": subject.config.node.process_roles,
        "data": subject.config.logs.directory,
        "is_open": subject.listeners.is_gate_open,
        "cpu_s": process.cpu_s(),
        "resident_bytes": process.resident_bytes(),
        "open_files": process.open_files(),
        "tasks": len(asyncio.all_tasks()),
    }


def _quorum(subject: Subject) -> dict[str, Any]:
    quorum = subject.quorum
    replica = quorum.member.replica
    return {
        "controller": quorum.controller_id,
        "is_controller": quorum.is_controller,
        "epoch": replica.epoch,
        "voters": sorted(quorum.member.voters.ids),
        "high_watermark": replica.high_watermark,
        "log_end_offset": quorum.member.log_end_offset,
        "replayed_offset": quorum.image.last_offset,
        "broker_epoch": quorum.broker_epoch,
        "trouble": quorum.describe_trouble(),
    }


def _broker(broker: Any) -> dict[str, Any]:
    return {
        "id": broker.node_id,
        "epoch": broker.epoch,
        "is_fenced": broker.is_fenced,
        "in_controlled_shutdown": broker.in_controlled_shutdown,
        "rack": broker.rack,
        "endpoints": [f"{each.name}://{each.host}:{each.port}" for each in broker.endpoints],
    }


def _listener(listener: Any) -> dict[str, Any]:
    traffic = listener.traffic
    return {
        "name": listener.name,
        "port": listener.port,
        "connections": listener.connection_count,
        "accepted": listener.accepted,
        "refused": listener.refused,
        "received_bytes": traffic.received_bytes,
        "sent_bytes": traffic.sent_bytes,
    }


def _row(row: Any, *without: str) -> dict[str, Any]:
    return {name: value for name, value in row._asdict().items() if name not in without}


def _offset(row: Any) -> dict[str, Any]:
    return {**dict(row.labels), **_row(row, "labels", "group")}


def _settings(subject: Subject) -> dict[str, str | None]:
    """The settings that were given, without secrets."""
    given = subject.config.given
    return {
        each.name: "(hidden)" if each.sensitive else each.render(each.value_in(subject.config))
        for each in settings_of(BrokerConfig)
        if each.name in given
    }


def _task(task: "asyncio.Task[Any]") -> dict[str, Any]:
    stack = task.get_stack(limit=_FRAMES)
    return {
        "name": task.get_name(),
        "coroutine": getattr(task.get_coro(), "__qualname__", "?"),
        "stack": [
            f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})" for frame in stack
        ],
    }
