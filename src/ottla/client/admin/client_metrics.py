"""Clients that push metrics to their brokers (KIP-714), as an administrator sees them.

Every broker keeps what was pushed to it; an Ottla broker shows it as read-only entries of its configuration. A
client that has changed its broker is shown once, as the broker says that heard of it last.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.admin.admin import Admin
from ottla.client.requests.configs import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ResourceType,
)
from ottla.client.requests.outcomes import succeeded

CLIENTS: Final = "ottla.clients"
_SETTINGS: Final = ("interval.ms", "metrics", "match")


@dataclass(frozen=True, slots=True)
class PushingClient:
    """A client that pushes metrics, or could. `broker` is the one that it speaks to."""

    broker: int
    instance_id: str
    client_id: str
    software: str
    address: str
    user: str
    subscriptions: tuple[str, ...]
    interval_ms: int
    pushes: int
    numbers: int
    pushed_ms_ago: int | None
    is_terminating: bool


@dataclass(frozen=True, slots=True)
class ClientNumber:
    """A number that a client pushed, None if it had none; of a histogram the sum and the number of observations."""

    name: str
    kind: str
    unit: str
    attributes: dict[str, str]
    value: float | None
    observations: int | None


async def list_clients(admin: Admin) -> list[PushingClient]:
    """The clients of all brokers."""
    found: dict[str, PushingClient] = {}
    for broker in (await admin.describe_cluster()).brokers:
        for entry in await _entries(admin, broker.node_id, CLIENTS):
            each = _client(broker.node_id, json.loads(entry.value or "{}"))
            known = found.get(each.instance_id)
            if known is None or _age(each) < _age(known):
                found[each.instance_id] = each
    return sorted(found.values(), key=lambda each: (each.client_id, each.instance_id))


async def client_numbers(admin: Admin, client: PushingClient) -> list[ClientNumber]:
    """The numbers that a client pushed last, in the order in which it sends them."""
    entries = await _entries(admin, client.broker, f"{CLIENTS}.{client.instance_id}")
    return [ClientNumber(**json.loads(entry.value or "{}")) for entry in entries]


async def list_subscriptions(admin: Admin) -> dict[str, dict[str, str]]:
    """The subscriptions to metrics of clients with their settings."""
    resources = await admin.list_config_resources(ResourceType.CLIENT_METRICS)
    described = succeeded(await admin.describe_configs(resources))
    return {
        resource.name: {name: entries[name].value or "" for name in _SETTINGS if name in entries}
        for resource, entries in described.items()
    }


async def subscribe(admin: Admin, name: str, settings: dict[str, str]) -> None:
    """Make a subscription, or give one exactly these settings."""
    changes = [ConfigChange(each, settings[each]) for each in _SETTINGS if each in settings]
    changes += [
        ConfigChange(each, None, ConfigOperation.DELETE) for each in _SETTINGS if each not in settings
    ]
    succeeded(await admin.alter_configs({ConfigResource(ResourceType.CLIENT_METRICS, name): changes}))


async def unsubscribe(admin: Admin, name: str) -> bool:
    """Remove a subscription; False if there is none of that name."""
    known = await admin.list_config_resources(ResourceType.CLIENT_METRICS)
    if all(each.name != name for each in known):
        return False
    await subscribe(admin, name, {})
    return True


async def _entries(admin: Admin, node_id: int, name: str) -> Iterable[ConfigEntry]:
    resource = ConfigResource(ResourceType.BROKER, str(node_id))
    entries = succeeded(await admin.describe_configs([resource], names=[name]))[resource]
    # Kafka's brokers know none of these names.
    return [entry for entry in entries.values() if entry.name.startswith(name + ".")]


def _client(node_id: int, shown: dict[str, Any]) -> PushingClient:
    return PushingClient(
        broker=node_id,
        instance_id=shown["instance_id"],
        client_id=shown["client_id"],
        software=f"{shown['software_name']} {shown['software_version']}",
        address=f"{shown['address']}:{shown['port']}",
        user=shown["user"],
        subscriptions=tuple(shown["subscriptions"]),
        interval_ms=shown["interval_ms"],
        pushes=shown["pushes"],
        numbers=shown["numbers"],
        pushed_ms_ago=shown["pushed_ms_ago"],
        is_terminating=shown["is_terminating"],
    )


def _age(client: PushingClient) -> float:
    return float("inf") if client.pushed_ms_ago is None else client.pushed_ms_ago
