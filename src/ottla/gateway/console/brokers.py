"""Brokers: where they are, how much they hold and do, what moves between them, the metadata quorum."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from ottla.client.requests.brokers import LogDir
from ottla.client.requests.configs import ConfigEntry, ConfigResource, ResourceType
from ottla.client.requests.outcomes import succeeded
from ottla.client.requests.quorum import QuorumDescription
from ottla.errors import KafkaError
from ottla.gateway.console.broker_control import BrokerControl
from ottla.gateway.console.door import Door, Visit
from ottla.gateway.console.topics import setting
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.http.machine.routes import Route

# The read-only entries of a broker's settings that tell its load (server/load_metrics.py).
_LOAD: Final = "ottla.load."
_MOST_MOVES: Final = 200


class BrokerPages:
    """What the page shows of brokers."""

    def __init__(self, door: Door, control: BrokerControl | None) -> None:
        self._door = door
        self._control = control

    def routes(self) -> tuple[Route, ...]:
        reads = self._door.reads
        return (
            reads("/brokers", self._list, "All brokers, the moves under way, and the quorum."),
            reads("/brokers/{broker}", self._show, "A broker's settings and their sources."),
        )

    async def _list(self, visit: Visit) -> Any:
        admin = visit.admin
        cluster = await admin.describe_cluster(include_fenced=True)
        alive = [each.node_id for each in cluster.brokers if not each.is_fenced]
        topics = await admin.list_topics(include_internal=True)
        partitions = [each for topic in topics for each in topic.partitions]
        leaders = Counter(each.leader for each in partitions)
        replicas = Counter(node_id for each in partitions for node_id in each.replicas)
        lagging = Counter(node for each in partitions for node in set(each.replicas) - set(each.isr))
        directories = await _permitted(admin.describe_log_dirs(alive)) or {}
        resources = [ConfigResource(ResourceType.BROKER, str(each)) for each in alive]
        configs = await _permitted(admin.describe_configs(resources)) or {}
        conditions = {} if self._control is None else await self._control.conditions()
        rows = [
            {
                "id": each.node_id,
                "address": str(each.address),
                "rack": each.rack,
                "is_alive": not each.is_fenced,
                "is_controller": each.node_id == cluster.controller_id,
                "leaders": leaders[each.node_id],
                "replicas": replicas[each.node_id],
                "lagging": lagging[each.node_id],
                "condition": conditions.pop(each.node_id, None),
                **_disk(directories.get(each.node_id)),
                "load": _load(configs.get(ConfigResource(ResourceType.BROKER, str(each.node_id)))),
            }
            for each in sorted(cluster.brokers, key=lambda broker: broker.node_id)
        ]
        rows += [_absent(node_id, condition) for node_id, condition in sorted(conditions.items())]
        return {
            "brokers": rows,
            "cluster_id": cluster.cluster_id,
            "is_local": self._control is not None,
            "moves": await _moves(visit),
            "quorum": _quorum(await _permitted(admin.describe_quorum())),
            "command": visit.commands.line("configs", "describe"),
        }

    async def _show(self, visit: Visit) -> Any:
        text = visit.params["broker"]
        known = {str(each.node_id) for each in (await visit.admin.describe_cluster()).brokers}
        if text not in known:
            raise HttpError(404, f"there is no broker {text[:50]!r} that is alive")
        resource = ConfigResource(ResourceType.BROKER, text)
        entries = succeeded(await visit.admin.describe_configs([resource]))[resource]
        return {
            "id": int(text),
            "configs": [
                setting(each) for name, each in sorted(entries.items()) if not name.startswith(_LOAD)
            ],
            "load": _load(entries),
            "command": visit.commands.line("configs", "describe", broker=text),
        }


async def _permitted(question: Any) -> Any:
    """The answer, or None where the user may not ask, or the cluster does not know the question."""
    try:
        return await question
    except KafkaError:
        return None


async def _moves(visit: Visit) -> list[dict[str, Any]]:
    moves = await _permitted(visit.admin.list_reassignments()) or {}
    return [
        {
            "topic": place.topic,
            "partition": place.partition,
            "adding": list(move.adding),
            "removing": list(move.removing),
            "replicas": list(move.replicas),
        }
        for place, move in sorted(moves.items())[:_MOST_MOVES]
    ]


def _absent(node_id: int, condition: str) -> dict[str, Any]:
    """A broker of a local cluster that is not registered."""
    return {
        "id": node_id,
        "address": None,
        "rack": None,
        "is_alive": False,
        "is_controller": False,
        "leaders": 0,
        "replicas": 0,
        "lagging": 0,
        "condition": condition,
        "bytes": None,
        "free_bytes": None,
        "total_bytes": None,
        "load": {},
    }


def _disk(found: tuple[LogDir, ...] | KafkaError | None) -> dict[str, Any]:
    if found is None or isinstance(found, KafkaError):
        return {"bytes": None, "free_bytes": None, "total_bytes": None}
    return {
        "bytes": sum(log.size_bytes for each in found for log in each.replicas.values()),
        "free_bytes": min((each.usable_bytes for each in found if each.usable_bytes >= 0), default=None),
        "total_bytes": min((each.total_bytes for each in found if each.total_bytes >= 0), default=None),
    }


def _load(entries: dict[str, ConfigEntry] | KafkaError | None) -> dict[str, float]:
    if entries is None or isinstance(entries, KafkaError):
        return {}
    found: dict[str, float] = {}
    for name, entry in entries.items():
        if name.startswith(_LOAD):
            try:
                found[name.removeprefix(_LOAD).replace(".", "_")] = float(entry.value or "")
            except ValueError:
                continue
    return found


def _quorum(found: QuorumDescription | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "leader_id": found.leader_id,
        "leader_epoch": found.leader_epoch,
        "high_watermark": found.high_watermark,
        "voters": [{"id": each.node_id, "log_end": each.log_end_offset} for each in found.voters],
    }
