"""Moves of replicas: empty a broker, spread replicas evenly, cancel what is under way.

Moves begin all at once; `ottla cluster drain` begins a few at a time and can limit their rate, so a large plan is
left to it. The page of brokers shows what is under way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.client.requests.outcomes import succeeded
from ottla.gateway.console.actions import Plan, Planner, counted
from ottla.gateway.console.door import Visit
from ottla.gateway.console.machine.questions import Body
from ottla.gateway.console.move_planner import MovePlanner, Replicas
from ottla.gateway.http.machine.http_error import HttpError

_MOST: Final = 200  # each costs its leader a second reader of old data


def planners(moves: MovePlanner | None) -> Mapping[str, Planner]:
    """The actions of this module by name; none without somebody who plans moves."""
    if moves is None:
        return {}

    async def drain(visit: Visit, body: Body) -> Plan:
        broker = body.number("broker", 0, 2**31 - 1)
        wanted = await moves.drain(visit.admin, broker)
        if not wanted:
            raise HttpError(409, f"broker {broker} holds no replica that could move")
        command = visit.commands.line("cluster", "drain", broker)
        return await _moved(visit, wanted, f"to empty broker {broker}", command)

    async def rebalance(visit: Visit, body: Body) -> Plan:
        wanted, _ = await moves.rebalance(visit.admin)
        if not wanted:
            raise HttpError(409, "replicas are spread evenly: there is nothing to move")
        command = visit.commands.line("cluster", "rebalance")
        return await _moved(visit, wanted, "to spread replicas evenly", command)

    async def cancel(visit: Visit, body: Body) -> Plan:
        under_way = await visit.admin.list_reassignments()
        if not under_way:
            raise HttpError(409, "nothing is being moved")

        async def carry_out() -> str:
            return f"{counted(len(await moves.cancel(visit.admin)), 'move')} cancelled."

        what = (
            f"Ends {counted(len(under_way), 'move')} under way, where each began, and lifts the limit on their rate:"
            " what was copied for them is thrown away."
        )
        return Plan(what, visit.commands.line("cluster", "rebalance", cancel=True), carry_out)

    return {"drain": drain, "rebalance": rebalance, "cancel-moves": cancel}


async def _moved(visit: Visit, wanted: Replicas, why: str, command: str) -> Plan:
    if len(wanted) > _MOST:
        raise HttpError(
            409,
            f"{counted(len(wanted), 'partition')} would move {why}, and {_MOST} are the most here:"
            f" the command begins a few at a time and can limit their rate: {command}",
        )
    topics = await visit.admin.list_topics(include_internal=True)
    now = {(topic.name, each.index): each.replicas for topic in topics for each in topic.partitions}
    rows = [
        _row(str(place), now.get((place.topic, place.partition), ()), then) for place, then in wanted.items()
    ]

    async def carry_out() -> str:
        succeeded(await visit.admin.alter_reassignments(wanted))
        return (
            f"{counted(len(wanted), 'partition')} begin to move: the page of brokers shows how far they are."
        )

    what = (
        f"Moves {counted(len(wanted), 'partition')} {why}. They are served meanwhile; copying takes from the network"
        " and the disks until it is done, at full speed."
    )
    return Plan(what, command, carry_out, rows=rows)


def _row(place: str, now: Any, then: Any) -> dict[str, Any]:
    return {"partition": place, "now": ", ".join(map(str, now)), "then": ", ".join(map(str, then))}
