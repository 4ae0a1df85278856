"""Moving a group: which partitions, to which offsets. Plans only; nothing is changed here.

An offset that lies outside the log is moved to its nearest end, and the plan says so: a group with an offset
before the log start, or after the log end, would be reset by its consumers to an offset that the user did not
choose.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from ottla.client.admin.admin import Admin
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.offsets import ListedOffset, OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.model import TopicPartition


class Target(Enum):
    """Where to move a group to."""

    EARLIEST = "to-earliest"
    LATEST = "to-latest"
    OFFSET = "to-offset"
    TIME = "to-time"
    SHIFT = "shift"
    CURRENT = "to-current"


@dataclass(frozen=True, slots=True)
class Move:
    """One partition of a plan. Without a new offset it stays as it is, for the reason in `note`."""

    partition: TopicPartition
    old: int | None
    new: int | None
    note: str = ""


def parse_topics(texts: Iterable[str]) -> dict[str, list[int] | None]:
    """`orders`, all its partitions (None), or `orders:0,2`. Raises ValueError with a sentence."""
    topics: dict[str, list[int] | None] = {}
    for text in texts:
        name, colon, numbers = text.partition(":")
        parts = [part.strip() for part in numbers.split(",")]
        if not name or (colon and not all(part.isascii() and part.isdigit() for part in parts)):
            raise ValueError(f'"{text}" is not a topic: write NAME, or NAME:0,2 for some of its partitions')
        known = topics.get(name, [])
        topics[name] = None if not colon or known is None else [*known, *map(int, parts)]
    return topics


async def partitions_of(
    admin: Admin, group_id: str, topics: Mapping[str, Sequence[int] | None] | None
) -> list[TopicPartition]:
    """The partitions that are meant: of the named topics, or (None) all that the group has committed."""
    if topics is None:
        return sorted(await admin.list_group_offsets(group_id))
    described = succeeded(await admin.describe_topics(topics))
    return [
        TopicPartition(name, index)
        for name, wanted in topics.items()
        for index in ([each.index for each in described[name].partitions] if wanted is None else wanted)
    ]


async def plan_moves(
    admin: Admin, group_id: str, partitions: Sequence[TopicPartition], target: Target, value: int
) -> list[Move]:
    """The planned offset of each partition. `value` is the offset, the time or the shift of the target."""
    committed = await admin.list_group_offsets(group_id, partitions)
    old = {each: found.offset for each, found in committed.items() if isinstance(found, CommittedOffset)}
    first = await _listed(admin, partitions, OffsetSpec.EARLIEST)
    last = await _listed(admin, partitions, OffsetSpec.LATEST)
    at_time = await _listed(admin, partitions, value) if target is Target.TIME else {}
    moves: list[Move] = []
    for each in partitions:
        wanted = _wanted(target, value, old.get(each), first[each], last[each], at_time.get(each))
        moves.append(_move(each, old.get(each), wanted, first[each], last[each]))
    return moves


async def _listed(admin: Admin, partitions: Iterable[TopicPartition], when: int) -> dict[TopicPartition, int]:
    listed: dict[TopicPartition, ListedOffset] = succeeded(
        await admin.list_offsets(dict.fromkeys(partitions, int(when)))
    )
    return {each: found.offset for each, found in listed.items()}


def _wanted(
    target: Target, value: int, old: int | None, first: int, last: int, at_time: int | None
) -> int | None:
    if target is Target.SHIFT:
        return None if old is None else old + value
    return {
        Target.EARLIEST: first,
        Target.LATEST: last,
        Target.OFFSET: value,
        Target.TIME: last if at_time in (None, -1) else at_time,  # nothing is that late: what comes next
        Target.CURRENT: old,
    }[target]


def _move(partition: TopicPartition, old: int | None, wanted: int | None, first: int, last: int) -> Move:
    if wanted is None:
        return Move(partition, old, None, "nothing is committed: there is nothing to start from")
    new = min(max(wanted, first), last)
    if new != wanted:
        return Move(partition, old, new, f"{wanted} lies {'before' if wanted < first else 'behind'} the log")
    return Move(partition, old, new)
