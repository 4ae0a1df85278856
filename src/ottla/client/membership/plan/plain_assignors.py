"""Range and round robin: assignment by the order of members and partitions alone.

Rules
- Members stand in Java's order: static ones first, by instance id, then the others by member id. So a static
  member that comes back under a new member id gets the same partitions.
- A topic that does not exist has no partitions, and a member without partitions is in the answer all the
  same.
- Members may subscribe to different topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ottla.client.requests.consumer_protocol import MemberSubscription
from ottla.model import TopicPartition

Assignment: TypeAlias = dict[str, list[TopicPartition]]


@dataclass(frozen=True, slots=True)
class GroupedMember:
    """A member of the group as its leader sees it."""

    member_id: str
    subscription: MemberSubscription
    group_instance_id: str | None = None


def assign_range(members: Sequence[GroupedMember], partition_counts: Mapping[str, int]) -> Assignment:
    """Topic by topic, each member gets a run of neighbouring partitions; the first ones get the remainder."""
    assignment: Assignment = {member.member_id: [] for member in members}
    for topic in subscribed_topics(members):
        readers = [member for member in in_order(members) if topic in member.subscription.topics]
        share, extra = divmod(partition_counts.get(topic, 0), len(readers))
        first = 0
        for index, member in enumerate(readers):
            last = first + share + (index < extra)
            assignment[member.member_id] += [TopicPartition(topic, each) for each in range(first, last)]
            first = last
    return assignment


def assign_round_robin(members: Sequence[GroupedMember], partition_counts: Mapping[str, int]) -> Assignment:
    """All partitions of all topics in order, dealt out in turn to the members that subscribe to the topic."""
    assignment: Assignment = {member.member_id: [] for member in members}
    order, turn = in_order(members), 0
    for topic in subscribed_topics(members):
        for partition in range(partition_counts.get(topic, 0)):
            # A member subscribes to it: the topics are those of the members.
            while topic not in order[turn % len(order)].subscription.topics:
                turn += 1
            assignment[order[turn % len(order)].member_id].append(TopicPartition(topic, partition))
            turn += 1
    return assignment


def in_order(members: Iterable[GroupedMember]) -> list[GroupedMember]:
    """Static members by instance id, then the others by member id."""

    def place(member: GroupedMember) -> tuple[bool, str]:
        instance_id = member.group_instance_id
        return (True, member.member_id) if instance_id is None else (False, instance_id)

    return sorted(members, key=place)


def subscribed_topics(members: Iterable[GroupedMember]) -> list[str]:
    """All topics that a member of the group subscribes to, by name."""
    return sorted({topic for member in members for topic in member.subscription.topics})
