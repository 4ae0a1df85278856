"""Plans of where a group goes, against an administrator who knows three partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, cast

import pytest

from ottla.client.admin.admin import Admin
from ottla.client.admin.offset_resets import Move, Target, parse_topics, partitions_of, plan_moves
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.metadata import PartitionInfo, TopicInfo
from ottla.client.requests.offsets import ListedOffset, OffsetSpec
from ottla.model import TopicPartition
from ottla.protocol.codec import ZERO_UUID

T0, T1, T2 = (TopicPartition("t", index) for index in range(3))


class Oracle:
    """The log of every partition is 10..100; partition n has a record of time 5000 at offset 50 + n, except
    the last.
    """

    async def list_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        known = {T0: CommittedOffset(40), T1: CommittedOffset(95)}
        return known if partitions is None else {each: known[each] for each in partitions if each in known}

    async def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        def offset(partition: TopicPartition, when: int) -> int:
            if when == OffsetSpec.EARLIEST:
                return 10
            if when == OffsetSpec.LATEST:
                return 100
            return -1 if partition == T2 else 50 + partition.partition

        return {each: ListedOffset(offset(each, when), -1, 0) for each, when in wanted.items()}

    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicInfo]:
        partitions = tuple(PartitionInfo(index, 1, 0, (1,), (1,)) for index in range(3))
        return {name: TopicInfo(name, ZERO_UUID, False, partitions) for name in names}


ADMIN = cast(Admin, Oracle())


def planned(target: Target, value: int = 0, partitions: tuple[TopicPartition, ...] = (T0, T1, T2)) -> Any:
    return asyncio.run(plan_moves(ADMIN, "g", partitions, target, value))


@pytest.mark.parametrize(
    ("target", "value", "expected"),
    [
        (Target.EARLIEST, 0, [10, 10, 10]),
        (Target.LATEST, 0, [100, 100, 100]),
        (Target.OFFSET, 42, [42, 42, 42]),
        (Target.TIME, 5_000, [50, 51, 100]),
        (Target.SHIFT, -20, [20, 75, None]),
        (Target.CURRENT, 0, [40, 95, None]),
    ],
)
def test_every_target_has_its_offsets(target: Target, value: int, expected: list[int | None]) -> None:
    moves = planned(target, value)
    assert [move.new for move in moves] == expected
    assert [move.old for move in moves] == [40, 95, None]


def test_what_would_lie_outside_the_log_is_moved_to_its_end_and_told() -> None:
    assert planned(Target.SHIFT, 20, (T1,)) == [Move(T1, 95, 100, "115 lies behind the log")]
    assert planned(Target.OFFSET, 3, (T0,)) == [Move(T0, 40, 10, "3 lies before the log")]


def test_a_partition_without_a_commit_cannot_be_shifted() -> None:
    (move,) = planned(Target.SHIFT, 1, (T2,))
    assert move.note == "nothing is committed: there is nothing to start from"


def test_topics_are_read_with_and_without_partitions() -> None:
    assert parse_topics(["a", "b:0,2", "b: 3"]) == {"a": None, "b": [0, 2, 3]}
    assert parse_topics(["b:1", "b"]) == {"b": None}
    for wrong in ("", ":1", "a:", "a:x", "a:-1"):
        with pytest.raises(ValueError, match="is not a topic: write NAME, or NAME:0,2"):
            parse_topics([wrong])


def test_partitions_are_those_named_those_of_the_topic_or_those_committed() -> None:
    assert asyncio.run(partitions_of(ADMIN, "g", None)) == [T0, T1]
    assert asyncio.run(partitions_of(ADMIN, "g", {"t": None})) == [T0, T1, T2]
    assert asyncio.run(partitions_of(ADMIN, "g", {"t": [1]})) == [T1]
