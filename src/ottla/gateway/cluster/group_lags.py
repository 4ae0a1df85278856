"""The lag of a group's partitions, each with the member that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.admin.admin import Admin
from ottla.client.requests.groups import GroupDescription, MemberDescription
from ottla.client.requests.offsets import OffsetSpec
from ottla.errors import KafkaError
from ottla.model import TopicPartition

NOBODY = MemberDescription("", None, "", "", ())


class PartitionLag(NamedTuple):
    """Of a partition that the group has a committed offset of."""

    place: TopicPartition
    current_offset: int
    log_end_offset: int
    member: MemberDescription

    @property
    def lag(self) -> int:
        return max(0, self.log_end_offset - self.current_offset)


async def group_lags(admin: Admin, group: GroupDescription) -> list[PartitionLag]:
    """Of all partitions that a group has committed an offset of, as far as their ends are known."""
    committed = await admin.list_group_offsets(group.group_id)
    offsets = {each: found.offset for each, found in committed.items() if not isinstance(found, KafkaError)}
    ends = await admin.list_offsets(dict.fromkeys(offsets, OffsetSpec.LATEST)) if offsets else {}
    known = {each: found.offset for each, found in ends.items() if not isinstance(found, KafkaError)}
    return partition_lags(group.members, offsets, known)


def partition_lags(
    members: tuple[MemberDescription, ...],
    committed: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> list[PartitionLag]:
    """By topic and partition; partitions whose end is not known are left out."""
    readers = {place: member for member in members for place in member.assignment}
    return [
        PartitionLag(place, offset, ends[place], readers.get(place, NOBODY))
        for place, offset in sorted(committed.items())
        if place in ends
    ]
