"""The clients that push metrics, as read-only entries of a broker's configuration in DescribeConfigs.

    ottla.clients          an entry for each client: who it is, what it is asked for, when it pushed
    ottla.clients.<id>     an entry for each number that the client with this instance id pushed last

Only those who ask by these names get them; the values are JSON. Kafka has no API to read what clients push. In this
form every administrator's client can, with the right to describe the cluster's settings.
"""

import json
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any, Final, NamedTuple

from ottla.log.files.uuids import parse_uuid
from ottla.telemetry.clients.instances import ClientInstance, ClientInstances
from ottla.telemetry.clients.otlp_metrics import Point

CLIENTS: Final = "ottla.clients"


class ShownEntry(NamedTuple):
    """A name and its JSON value."""

    name: str
    value: str


def asks_for_clients(names: Iterable[str] | None) -> bool:
    """Whether some of the names that are asked for are about clients."""
    return any(name == CLIENTS or name.startswith(CLIENTS + ".") for name in names or ())


def shown_clients(clients: ClientInstances, names: Iterable[str], now_ms: int) -> Iterator[ShownEntry]:
    """The entries for the names that are asked for."""
    for name in dict.fromkeys(names):
        if name == CLIENTS:
            for each in clients:
                value = json.dumps(client_as_json(each, now_ms))
                yield ShownEntry(f"{CLIENTS}.{each.client.instance_id}", value)
        elif name.startswith(CLIENTS + "."):
            instance_id = parse_uuid(name.removeprefix(CLIENTS + "."))
            found = None if instance_id is None else clients.find(instance_id)
            for number, point in enumerate(() if found is None else found.points):
                yield ShownEntry(f"{name}.{number}", json.dumps(point_as_json(point)))


def client_as_json(instance: ClientInstance, now_ms: int) -> dict[str, Any]:
    """A client, without its metrics."""
    wanted = instance.wanted
    return {
        **instance.client._asdict(),
        "subscriptions": wanted.subscriptions,
        "interval_ms": wanted.interval_ms,
        "pushes": instance.pushes,
        "numbers": len(instance.points),
        "numbers_beyond_limit": instance.hidden,
        "pushed_ms_ago": None if instance.pushed_ms is None else now_ms - instance.pushed_ms,
        "is_terminating": instance.is_terminating,
    }


def point_as_json(point: Point) -> dict[str, Any]:
    """A number that a client pushed; None for one that is none (Java's averages of nothing), as JSON has no NaN."""
    value = point.value if isfinite(point.value) else None
    return {**point._asdict(), "value": value, "attributes": dict(point.attributes)}
