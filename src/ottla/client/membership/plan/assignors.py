"""The assignors, by which the leader of a group divides the partitions among the members.

An assignor is a name that all members of a group must share, and a function from the members' subscriptions
and the number of partitions of each topic to the partitions of each member. All are pure, and give the same
result as Java's assignor of the same name, so that it does not matter which client leads a mixed group.

    range               neighbouring partitions of each topic; equal numbers of several topics come together
    roundrobin          all partitions dealt out in turn
    sticky              even, and with few changes; all members stop while the group rebalances
    cooperative-sticky  even, and with few changes; only partitions that move stop, in two rebalances
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from ottla.client.membership.plan.plain_assignors import (
    Assignment,
    GroupedMember,
    assign_range,
    assign_round_robin,
    in_order,
    subscribed_topics,
)
from ottla.client.membership.plan.sticky_assignor import assign_cooperative, assign_sticky
from ottla.client.requests.consumer_protocol import encode_generation, encode_previous
from ottla.model import TopicPartition

__all__ = [
    "ASSIGNORS",
    "Assignment",
    "Assignor",
    "GroupedMember",
    "in_order",
    "is_cooperative",
    "subscribed_topics",
]

Assign: TypeAlias = Callable[[Sequence[GroupedMember], Mapping[str, int]], Assignment]
UserData: TypeAlias = Callable[[Iterable[TopicPartition], int], bytes | None]


def _no_user_data(previous: Iterable[TopicPartition], generation_id: int) -> bytes | None:
    return None


def _only_generation(previous: Iterable[TopicPartition], generation_id: int) -> bytes | None:
    return encode_generation(generation_id)


@dataclass(frozen=True, slots=True)
class Assignor:
    """`assign(members, partition counts by topic)` returns the partitions of each member.

    `user_data(previous partitions, their generation)` is the member's data for the assignor.
    """

    name: str
    assign: Assign
    user_data: UserData = _no_user_data
    is_cooperative: bool = False


# By the names that Kafka's clients know.
ASSIGNORS: Final[Mapping[str, Assignor]] = {
    each.name: each
    for each in (
        Assignor("range", assign_range),
        Assignor("roundrobin", assign_round_robin),
        Assignor("sticky", assign_sticky, encode_previous),
        Assignor("cooperative-sticky", assign_cooperative, _only_generation, is_cooperative=True),
    )
}


def is_cooperative(names: Sequence[str]) -> bool:
    """Whether a member with these assignors may keep its partitions while it joins: if all allow it."""
    return all(ASSIGNORS[name].is_cooperative for name in names)
