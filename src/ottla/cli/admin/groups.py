"""`ottla groups`: list, describe, reset-offsets, delete, delete-offsets, remove-members."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from ottla.cli.broker_command import ask, broker_options, print_json, print_table, raise_errors
from ottla.cli.time_text import parse_moment
from ottla.client.admin.admin import Admin
from ottla.client.admin.checks.durations import duration
from ottla.client.admin.group_details import (
    GroupDetails,
    PartitionProgress,
    details_as_json,
    gather_group,
    member_as_json,
)
from ottla.client.admin.offset_resets import Move, Target, parse_topics, partitions_of, plan_moves
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.groups import GroupDescription, MemberDescription
from ottla.client.requests.outcomes import succeeded
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition

# The names that Kafka's brokers use; a classic group is never in the last two states.
STATES = ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Assigning", "Reconciling"]
OFFSET = click.IntRange(min=0)


@click.group()
def groups() -> None:
    """List, describe, move and delete consumer groups."""


@groups.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    help="Only groups in this state; repeatable.",
)
@broker_options
def list_(states: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """List all groups."""
    found = ask(bootstrap, lambda admin: admin.list_groups(states=states))
    if as_json:
        print_json(
            [
                {
                    "group_id": each.group_id,
                    "state": each.state,
                    "type": each.type,
                    "protocol_type": each.protocol_type,
                }
                for each in found
            ]
        )
    elif not found:
        click.echo("There are no groups." if not states else "There are no groups in that state.")
    else:
        rows = [(each.group_id, each.state, each.type, each.protocol_type or None) for each in found]
        print_table(["group", "state", "type", "protocol"], rows)


@groups.command()
@click.argument("name")
@click.option("--members", is_flag=True, help="Show the members and what each of them was given.")
@broker_options
def describe(name: str, members: bool, bootstrap: str, as_json: bool) -> None:
    """Describe the group NAME: its state, where it is, how far behind, and how far from losing records.

    LAG is the number of records between the committed offset and the end of the log, LAG S how many seconds
    the first of them has been waiting. TO DELETION is how many older records will go before one that the
    group has not read, and how long that takes at the least where the topic is deleted by age.
    """
    details = ask(bootstrap, lambda admin: gather_group(admin, name, int(time.time() * 1000)))
    if as_json:
        print_json(details_as_json(details))
        return
    _print_heading(details)
    if members:
        _print_members(details.group.members)
    else:
        _print_progress(details.partitions)


@groups.command("reset-offsets")
@click.argument("name")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:P,P...]",
    help="A topic, or some of its partitions; repeatable.",
)
@click.option("--all-topics", is_flag=True, help="All topics that the group has committed offsets of.")
@click.option("--to-earliest", is_flag=True, help="The first record there is.")
@click.option("--to-latest", is_flag=True, help="The end: only what comes from now on.")
@click.option("--to-offset", type=OFFSET, metavar="N", help="This offset, in every partition.")
@click.option(
    "--to-time", metavar="ISO8601", help="The first record at or after a moment (2025-01-31T08:30)."
)
@click.option("--shift", type=int, metavar="N", help="This many records forward, or back if negative.")
@click.option(
    "--to-current",
    is_flag=True,
    help="The offsets that are committed now; committing them again postpones their expiry.",
)
@click.option("--execute", is_flag=True, help="Do it. Without this, nothing is changed.")
@broker_options
def reset_offsets(
    name: str,
    topics: tuple[str, ...],
    all_topics: bool,
    execute: bool,
    bootstrap: str,
    as_json: bool,
    **targets: Any,
) -> None:
    """Move the group NAME to other offsets. Shows what would change; --execute changes it.

    The group must have no members: stop its consumers first.

    \b
    ottla groups reset-offsets billing --topic orders --to-earliest
    ottla groups reset-offsets billing --topic orders:0,2 --shift -100 --execute
    ottla groups reset-offsets billing --all-topics --to-time 2025-01-31T08:30 --execute
    """
    target, value = _target(targets)
    wanted = _topics(topics, all_topics)

    async def question(admin: Admin) -> tuple[list[Move], GroupDescription | None]:
        group = await _described(admin, name)
        partitions = await partitions_of(admin, name, wanted)
        moves = await plan_moves(admin, name, partitions, target, value)
        if execute:
            _refuse_members(name, group)
            await _carry_out(admin, name, moves)
        return moves, group

    moves, group = ask(bootstrap, question)
    if as_json:
        print_json({"group_id": name, "executed": execute, "partitions": [_move_as_json(m) for m in moves]})
    else:
        _print_moves(name, moves, execute)
    if not execute and group is not None and group.members:
        click.echo(f"Note: {_has_members(name, group)}: --execute would be refused.", err=True)


@groups.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@broker_options
def delete(names: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Delete groups, with their committed offsets. They must have no members."""
    outcomes = ask(bootstrap, lambda admin: admin.delete_groups(names))
    deleted = [name for name, error in outcomes.items() if error is None]
    if as_json:
        print_json({"deleted": deleted})
    else:
        for name in deleted:
            click.echo(f"Deleted group {name}.")
    raise_errors(outcomes, "delete")


@groups.command("delete-offsets")
@click.argument("name")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    required=True,
    metavar="TOPIC[:P,P...]",
    help="A topic, or some of its partitions; repeatable.",
)
@broker_options
def delete_offsets(name: str, topics: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Forget where the group NAME was in a topic. Nobody in the group may be reading the topic."""
    wanted = _topics(topics, False)
    assert wanted is not None

    async def question(admin: Admin) -> Mapping[TopicPartition, KafkaError | None]:
        committed = await admin.list_group_offsets(name)
        chosen = [
            each
            for each in sorted(committed)
            if each.topic in wanted and each.partition in (wanted[each.topic] or [each.partition])
        ]
        return await admin.delete_group_offsets(name, chosen) if chosen else {}

    outcomes = ask(bootstrap, question)
    deleted = [each for each, error in outcomes.items() if error is None]
    if as_json:
        print_json({"deleted": [{"topic": each.topic, "partition": each.partition} for each in deleted]})
    elif not outcomes:
        click.echo(f"The group {name} has no committed offsets there.")
    else:
        for each in deleted:
            click.echo(f"Deleted the offset of {each}.")
    raise_errors({str(each): error for each, error in outcomes.items()}, "delete the offset of")


@groups.command("remove-members")
@click.argument("name")
@click.option(
    "--instance",
    "instances",
    multiple=True,
    metavar="ID",
    help="A static member, by its instance; repeatable.",
)
@click.option(
    "--member",
    "members",
    multiple=True,
    metavar="ID",
    help="A member, as `describe --members` names it; repeatable.",
)
@click.option("--all-members", is_flag=True, help="Everybody in the group.")
@click.option("--reason", default="", metavar="TEXT", help="Why, for the broker's log.")
@broker_options
def remove_members(
    name: str,
    instances: tuple[str, ...],
    members: tuple[str, ...],
    all_members: bool,
    reason: str,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Take members out of the group NAME; the others get their partitions at once.

    For static members that are gone for good: without this, their partitions wait until their session ends. A
    member that still runs joins again.

    \b
    ottla groups remove-members billing --instance worker-3
    """
    if bool(instances or members) == all_members:
        raise click.UsageError("say whom: give --instance or --member, or --all-members")

    async def question(admin: Admin) -> Mapping[str, KafkaError | None]:
        if all_members:
            return await admin.remove_members(name, reason=reason)
        succeeded(await admin.describe_groups([name]))  # "no such group" says more than "no such member"
        return await admin.remove_members(name, members=members, instances=instances, reason=reason)

    outcomes = ask(bootstrap, question)
    removed = [each for each, error in outcomes.items() if error is None]
    if as_json:
        print_json({"removed": removed})
    elif not outcomes:
        click.echo(f"The group {name} has no members.")
    else:
        for each in removed:
            click.echo(f"Removed {each} from the group {name}.")
    raise_errors(outcomes, "remove")


# ---- what was asked for


def _target(given: Mapping[str, Any]) -> tuple[Target, int]:
    """The one target that was given, and its number."""
    chosen = [
        target
        for target in Target
        if (value := given[target.value.replace("-", "_")]) is not None and value is not False
    ]
    if len(chosen) != 1:
        options = ", ".join(f"--{target.value}" for target in Target)
        raise click.UsageError(f"say where to: give one of {options}")
    value = given[chosen[0].value.replace("-", "_")]
    if chosen[0] is not Target.TIME:
        return chosen[0], int(value)
    try:
        return Target.TIME, parse_moment(value)
    except ValueError as error:
        raise click.UsageError(f"--to-time: {error}") from error


def _topics(texts: Iterable[str], all_topics: bool) -> dict[str, list[int] | None] | None:
    """The named topics; None for all of them."""
    try:
        topics = parse_topics(texts)
    except ValueError as error:
        raise click.UsageError(f"--topic: {error}") from error
    if bool(topics) == all_topics:
        raise click.UsageError("say of what: give --topic, or --all-topics")
    return None if all_topics else topics


async def _described(admin: Admin, name: str) -> GroupDescription | None:
    """The group, or None if it is not there: then the first commit makes it."""
    group = (await admin.describe_groups([name]))[name]
    if isinstance(group, GroupDescription):
        return group
    if group.code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    raise group


def _refuse_members(name: str, group: GroupDescription | None) -> None:
    if group is not None and group.members:
        raise KafkaError(
            ErrorCode.NON_EMPTY_GROUP, f"{_has_members(name, group)}: stop its consumers, then try again"
        )


def _has_members(name: str, group: GroupDescription) -> str:
    count = len(group.members)
    return f"the group {name} has {count} member{'s' if count != 1 else ''} ({group.state})"


async def _carry_out(admin: Admin, name: str, moves: Sequence[Move]) -> None:
    offsets = {move.partition: CommittedOffset(move.new) for move in moves if move.new is not None}
    outcomes = await admin.alter_group_offsets(name, offsets) if offsets else {}
    raise_errors({str(each): error for each, error in outcomes.items()}, "move")


# ---- what is shown


def _print_heading(details: GroupDetails) -> None:
    group = details.group
    where = f" at {details.coordinator_address}" if details.coordinator_address else ""
    click.echo(f"Group {group.group_id}, {group.state}, coordinated by broker {group.coordinator}{where}")
    protocol = f"{group.protocol_type or 'no protocol'}{f', {group.protocol}' if group.protocol else ''}"
    count = len(group.members)
    click.echo(f"  {protocol}; {count} member{'s' if count != 1 else ''}")


def _print_members(members: Sequence[MemberDescription]) -> None:
    if not members:
        click.echo("  It has no members.")
        return
    rows = [
        (
            member.client_id,
            member.client_host,
            member.group_instance_id,
            len(member.assignment),
            "; ".join(
                f"{topic} {','.join(map(str, indexes))}"
                for topic, indexes in member_as_json(member)["assignment"].items()
            )
            or None,
            member.member_id,
        )
        for member in members
    ]
    print_table(["client", "host", "instance", "partitions", "assignment", "member"], rows)


def _print_progress(partitions: Sequence[PartitionProgress]) -> None:
    if not partitions:
        click.echo("  It has committed no offsets.")
        return
    columns = ["topic", "partition", "current", "log end", "lag", "lag s", "log start", "to deletion"]
    rows = [
        (
            each.topic,
            each.partition,
            each.committed_offset,
            each.log_end_offset,
            each.lag_records,
            None if each.waiting_ms is None else f"{each.waiting_ms / 1000:.1f}",
            each.log_start_offset,
            _to_deletion(each),
            each.member.client_id if each.member else None,
            each.member.client_host if each.member else None,
        )
        for each in partitions
    ]
    print_table([*columns, "member", "host"], rows)
    lost = sum(each.lost_records for each in partitions)
    lag = sum(each.lag_records or 0 for each in partitions)
    click.echo(f"Lag {lag} in all{f'; {lost} were deleted before the group read them' if lost else ''}.")


def _to_deletion(progress: PartitionProgress) -> str | None:
    if progress.lost_records:
        return f"lost {progress.lost_records}"
    if progress.records_to_deletion is None:
        return None
    records = str(progress.records_to_deletion)
    return records if progress.deletable_in_ms is None else f"{records}, {duration(progress.deletable_in_ms)}"


def _print_moves(name: str, moves: Sequence[Move], executed: bool) -> None:
    if not moves:
        click.echo(f"The group {name} has committed no offsets.")
        return
    rows = [
        (move.partition.topic, move.partition.partition, move.old, move.new, move.note or None)
        for move in moves
    ]
    print_table(["topic", "partition", "old", "new", "note"], rows)
    if executed:
        click.echo(f"The group {name} was moved.")
    else:
        click.echo("Nothing was changed. Add --execute to do it.")


def _move_as_json(move: Move) -> dict[str, Any]:
    topic, partition = move.partition
    return {
        "topic": topic,
        "partition": partition,
        "old": move.old,
        "new": move.new,
        "note": move.note or None,
    }
