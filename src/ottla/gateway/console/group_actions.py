"""Changes of groups: move offsets, with a preview of each partition; remove members; delete."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.admin.offset_resets import Move, Target, parse_topics, partitions_of, plan_moves
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.outcomes import succeeded
from ottla.gateway.console.actions import Plan, Planner, counted
from ottla.gateway.console.door import Visit
from ottla.gateway.console.machine.questions import Body
from ottla.gateway.http.machine.http_error import HttpError, unprocessable
from ottla.gateway.records.machine.start import parse_start

_MOST_SHIFT = 2**62


def planners() -> Mapping[str, Planner]:
    """The actions of this module by name."""
    return {"reset-offsets": _reset, "remove-members": _remove_members, "delete-group": _delete}


async def _reset(visit: Visit, body: Body) -> Plan:
    group = body.text("group")
    target = Target(body.choice("target", [each.value for each in Target]))
    value, option = _value(body, target)
    texts = body.texts("topics")
    try:
        topics = parse_topics(texts) if texts else None
    except ValueError as error:
        raise unprocessable(str(error)) from error
    partitions = await partitions_of(visit.admin, group, topics)
    if not partitions:
        raise HttpError(409, f"the group {group!r} has committed no offsets: name the topics to move it in")
    moves = await plan_moves(visit.admin, group, partitions, target, value)
    changes = {each.partition: CommittedOffset(each.new) for each in moves if each.new is not None}
    members = await _member_count(visit, group)

    async def carry_out() -> str:
        succeeded(await visit.admin.alter_group_offsets(group, changes))
        return f"{group} continues at other offsets in {counted(len(changes), 'partition')}."

    command = visit.commands.line(
        "groups",
        "reset-offsets",
        group,
        topic=texts or None,
        all_topics=not texts,
        **{target.value.replace("-", "_"): option},
        execute=True,
    )
    return Plan(_moved(group, moves, members), command, carry_out, rows=[_row(each) for each in moves])


def _value(body: Body, target: Target) -> tuple[int, object]:
    """The number of a target, and its option on the command line. Raises HttpError(422)."""
    if target is Target.OFFSET:
        offset = body.number("value")
        return offset, offset
    if target is Target.SHIFT:
        shift = body.number("value", -_MOST_SHIFT, _MOST_SHIFT)
        return shift, shift
    if target is Target.TIME:
        try:
            start = parse_start(body.text("value"))
        except ValueError as error:
            raise unprocessable(str(error)) from error
        if start.kind != "time":
            raise unprocessable('"value" must be a time such as 2026-11-18T08:00:00Z')
        return start.number, body.text("value")
    return 0, True


def _moved(group: str, moves: list[Move], members: int) -> str:
    again = sum(
        max(0, each.old - each.new) for each in moves if each.old is not None and each.new is not None
    )
    skipped = sum(
        max(0, each.new - each.old) for each in moves if each.old is not None and each.new is not None
    )
    what = f"Moves {group} in {counted(len(moves), 'partition')}:"
    what += f" {counted(again, 'record')} will be read again, {counted(skipped, 'record')} skipped."
    if members:
        what += f" It has {counted(members, 'member')}, and will be refused until its consumers are stopped."
    return what


def _row(move: Move) -> dict[str, object]:
    return {
        "partition": str(move.partition),
        "now": move.old,
        "then": move.new,
        "change": None if move.old is None or move.new is None else move.new - move.old,
        "note": move.note,
    }


async def _member_count(visit: Visit, group: str) -> int:
    found = (await visit.admin.describe_groups([group]))[group]
    return len(getattr(found, "members", ()))


async def _remove_members(visit: Visit, body: Body) -> Plan:
    group, members = body.text("group"), body.texts("members")
    described = succeeded(await visit.admin.describe_groups([group]))[group]
    present = [each for each in described.members if not members or each.member_id in members]
    if not present:
        raise HttpError(409, f"the group {group!r} has no such members")

    async def carry_out() -> str:
        wanted = [each.member_id for each in present]
        succeeded(await visit.admin.remove_members(group, members=wanted, reason="removed in the console"))
        return f"{counted(len(present), 'member')} removed from {group}."

    rows = [
        {"member": each.member_id, "client": each.client_id, "host": each.client_host} for each in present
    ]
    what = (
        f"Removes {counted(len(present), 'member')} from {group}; the others share their partitions."
        " A consumer that still runs joins again."
    )
    command = visit.commands.line(
        "groups", "remove-members", group, member=[each.member_id for each in present] if members else None,
        all=not members,
    )  # fmt: skip
    return Plan(what, command, carry_out, rows=list(rows))


async def _delete(visit: Visit, body: Body) -> Plan:
    group = body.text("group")
    described = succeeded(await visit.admin.describe_groups([group]))[group]
    committed = await visit.admin.list_group_offsets(group)

    async def carry_out() -> str:
        succeeded(await visit.admin.delete_groups([group]))
        return f"The group {group} is deleted."

    what = f"Deletes the group {group} for good, with its committed offsets of {counted(len(committed), 'partition')}."
    if described.members:
        what += f" It has {counted(len(described.members), 'member')}, and will be refused until they are stopped."
    return Plan(
        what, visit.commands.line("groups", "delete", group), carry_out, is_destructive=True, name=group
    )
