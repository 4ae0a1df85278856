"""Whose offsets a transaction commits, and which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias, runtime_checkable

from ottla.client.calls import arguments
from ottla.client.requests.group_offsets import CommittedOffset, committable
from ottla.client.requests.membership import GroupMetadata
from ottla.model import NO_GENERATION, TopicPartition


@runtime_checkable
class OffsetSource(Protocol):
    """A consumer whose offsets are committed by a producer."""

    @property
    def group_metadata(self) -> GroupMetadata:
        """The group, and the consumer's membership in it."""

    def offsets_done(self) -> Mapping[TopicPartition, CommittedOffset]:
        """The offsets that are to be committed: those after the records that the consumer has returned."""


Group: TypeAlias = OffsetSource | GroupMetadata


def check_offsets(
    group: OffsetSource | GroupMetadata | str,
    offsets: Mapping[TopicPartition, int | CommittedOffset] | None,
) -> tuple[Group, Mapping[TopicPartition, CommittedOffset] | None]:
    """The arguments of `Producer.send_offsets`; offsets may be left out where the group is a consumer."""
    if isinstance(group, OffsetSource) and offsets is None:
        return group, None
    wanted = arguments.by_partition("offsets", offsets, committable)
    return (group if isinstance(group, OffsetSource) else _checked(group)), wanted


def resolved(
    group: Group, offsets: Mapping[TopicPartition, CommittedOffset] | None
) -> tuple[GroupMetadata, Mapping[TopicPartition, CommittedOffset]]:
    """The membership of a consumer, and its offsets if none are given. Raises KafkaError if it has none."""
    if isinstance(group, GroupMetadata):
        return group, offsets or {}
    return group.group_metadata, group.offsets_done() if offsets is None else offsets


def _checked(group: GroupMetadata | str) -> GroupMetadata:
    if not isinstance(group, GroupMetadata):
        return GroupMetadata(arguments.name_of("group", group))
    arguments.name_of("group.group_id", group.group_id)
    arguments.text("group.member_id", group.member_id)
    arguments.whole_number("group.generation_id", group.generation_id, NO_GENERATION, arguments.MOST_INT32)
    if group.group_instance_id is not None:
        arguments.text("group.group_instance_id", group.group_instance_id)
    return group
