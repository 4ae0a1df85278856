"""Groups: their lag in records, in seconds and until deletion, and their members."""

from __future__ import annotations

from typing import Any

from ottla.client.admin.group_details import details_as_json, gather_group
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.groups import GroupDescription
from ottla.client.requests.offsets import ListedOffset, OffsetSpec
from ottla.errors import KafkaError
from ottla.gateway.console.door import Door, Visit
from ottla.gateway.console.machine.listing import LIST_PARAMETERS, named_like, page_of
from ottla.gateway.console.sampling import Sampler
from ottla.gateway.http.machine.routes import Route
from ottla.model import TopicPartition
from ottla.runtime.clock import OsClock


class GroupPages:
    """What the page shows of groups."""

    def __init__(self, door: Door, sampler: Sampler) -> None:
        self._door = door
        self._sampler = sampler

    def routes(self) -> tuple[Route, ...]:
        reads = self._door.reads
        return (
            reads("/groups", self._list, "Groups and their lag, a page at a time.", LIST_PARAMETERS),
            reads("/groups/{group}", self._show, "A group: its members, and its progress in each partition."),
        )

    async def _list(self, visit: Visit) -> Any:
        listed = await visit.admin.list_groups()
        found = named_like(listed, visit.query["search"], lambda each: each.group_id)
        rows, facts = page_of(found, visit.query["page"], visit.query["per_page"])
        names = [each.group_id for each in rows]
        described = await visit.admin.describe_groups(names) if names else {}
        committed = {name: await _committed(visit, name) for name in names}
        places = {place for offsets in committed.values() for place in offsets}
        ends = await _ends(visit, places)
        return {
            "groups": [
                _row(each.group_id, each.state, described.get(each.group_id), committed[each.group_id], ends)
                for each in rows
            ],
            **facts,
            "command": visit.commands.line("groups", "list"),
        }

    async def _show(self, visit: Visit) -> Any:
        name = visit.params["group"]
        details = details_as_json(await gather_group(visit.admin, name, OsClock().wall_ms()))
        return {
            **details,
            "history": self._sampler.history(visit.login).lag_of(name),
            "command": visit.commands.line("groups", "describe", name),
        }


async def _committed(visit: Visit, name: str) -> dict[TopicPartition, int]:
    try:
        found = await visit.admin.list_group_offsets(name)
    except KafkaError:
        return {}  # a group that this user may not see in full
    return {place: each.offset for place, each in found.items() if isinstance(each, CommittedOffset)}


async def _ends(visit: Visit, places: set[TopicPartition]) -> dict[TopicPartition, int]:
    listed = await visit.admin.list_offsets(dict.fromkeys(places, int(OffsetSpec.LATEST))) if places else {}
    return {place: each.offset for place, each in listed.items() if isinstance(each, ListedOffset)}


def _row(
    name: str,
    state: str,
    described: GroupDescription | KafkaError | None,
    committed: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
) -> dict[str, Any]:
    members = described.members if isinstance(described, GroupDescription) else ()
    assigned = {place.topic for member in members for place in member.assignment}
    return {
        "group": name,
        "state": state,
        "members": len(members),
        "topics": sorted({place.topic for place in committed} | assigned),
        "lag": sum(max(0, ends[place] - offset) for place, offset in committed.items() if place in ends)
        if committed
        else None,
    }
