"""Sticky assignment: as even as possible first, then as few changes as possible.

Two assignors share it:

- `sticky` is eager. A member gives up all partitions before it joins, so its last assignment goes into its
  user data.
- `cooperative-sticky` lets members keep their partitions (KIP-429). A partition that moves is left out of the
  new owner's assignment for now: the old owner gives it up first, and the group rebalances once more.

The result is that of Java's assignors, also where several results are equally good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from ottla.client.membership.plan.java_order import in_hash_order, string_hash
from ottla.client.membership.plan.plain_assignors import Assignment, GroupedMember, subscribed_topics
from ottla.client.membership.plan.uneven_subscriptions import assign_uneven
from ottla.client.requests.consumer_protocol import decode_generation, decode_previous
from ottla.model import NO_GENERATION, TopicPartition


@dataclass(frozen=True, slots=True)
class Claim:
    """The partitions that a member says it had, and in which generation of the group."""

    partitions: tuple[TopicPartition, ...]
    generation_id: int


@dataclass(slots=True)
class Ownership:
    """The former owners of partitions, as far as they can be believed."""

    owned: dict[str, list[TopicPartition]]
    disputed: set[TopicPartition] = field(
        default_factory=set
    )  # claimed by two members of the same generation


def assign_sticky(members: Sequence[GroupedMember], partition_counts: Mapping[str, int]) -> Assignment:
    """The eager assignor: the members' last assignments are in their user data."""
    claims = {member.member_id: _previous_claim(member) for member in members}
    return _assign(members, partition_counts, claims)[0]


def assign_cooperative(members: Sequence[GroupedMember], partition_counts: Mapping[str, int]) -> Assignment:
    """The cooperative assignor: a partition that would move between members is given to none for now."""
    claims = {member.member_id: _current_claim(member) for member in members}
    assignment, moving = _assign(members, partition_counts, claims)
    return {
        member_id: [each for each in partitions if moving.get(each) != member_id]
        for member_id, partitions in assignment.items()
    }


def _previous_claim(member: GroupedMember) -> Claim:
    return Claim(*decode_previous(member.subscription.user_data))


def _current_claim(member: GroupedMember) -> Claim:
    subscription = member.subscription
    generation_id = subscription.generation_id
    if generation_id == NO_GENERATION:  # a client from before generations had a field of their own
        generation_id = decode_generation(subscription.user_data)
    return Claim(subscription.owned, generation_id)


def _assign(
    members: Sequence[GroupedMember], partition_counts: Mapping[str, int], claims: Mapping[str, Claim]
) -> tuple[Assignment, Mapping[TopicPartition, str]]:
    """The division, and which partitions move to whom from another member that is still there."""
    if not members:
        return {}, {}
    counts = {topic: partition_counts.get(topic, 0) for topic in subscribed_topics(members)}
    counts = {topic: count for topic, count in counts.items() if count > 0}
    by_id = {member.member_id: member for member in members}
    order = in_hash_order(by_id, string_hash)
    ownership = _believed({member_id: claims[member_id] for member_id in order}, counts)
    topics = {member_id: by_id[member_id].subscription.topics for member_id in order}
    if len({frozenset(each) for each in topics.values()}) == 1:
        return _assign_even(ownership, counts)
    assignment = assign_uneven(topics, counts, ownership.owned, _older(claims))
    return assignment, _moving(assignment, claims)


def _believed(claims: Mapping[str, Claim], counts: Mapping[str, int]) -> Ownership:
    """Each partition belongs to the member that claims it in the newest generation; to none if two do."""
    ownership = Ownership({member_id: [] for member_id in claims})
    owners: dict[TopicPartition, str] = {}
    for member_id, claim in claims.items():
        for partition in claim.partitions:
            if partition.partition >= counts.get(partition.topic, 0):
                continue  # it is gone
            other = owners.get(partition)
            if other is None:
                ownership.owned[member_id].append(partition)
                owners[partition] = member_id
            elif claim.generation_id == claims[other].generation_id:
                ownership.disputed.add(partition)
                _discard(ownership.owned[other], partition)
                owners[partition] = member_id
            elif claim.generation_id > claims[other].generation_id:
                ownership.owned[member_id].append(partition)
                _discard(ownership.owned[other], partition)
                owners[partition] = member_id
    return ownership


def _older(claims: Mapping[str, Claim]) -> dict[TopicPartition, str]:
    """The owners of partitions before the newest generation."""
    newest = max(claim.generation_id for claim in claims.values())
    found: dict[TopicPartition, tuple[int, str]] = {}
    for member_id in in_hash_order(claims, string_hash):
        claim = claims[member_id]
        if claim.generation_id < newest:
            for partition in claim.partitions:
                if partition not in found or claim.generation_id > found[partition][0]:
                    found[partition] = (claim.generation_id, member_id)
    return {partition: member_id for partition, (_, member_id) in found.items()}


def _moving(assignment: Assignment, claims: Mapping[str, Claim]) -> dict[TopicPartition, str]:
    given_up = {
        partition
        for member_id, claim in claims.items()
        for partition in set(claim.partitions) - set(assignment[member_id])
    }
    return {
        partition: member_id
        for member_id, partitions in assignment.items()
        for partition in partitions
        if partition in given_up and partition not in claims[member_id].partitions
    }


def _discard(partitions: list[TopicPartition], partition: TopicPartition) -> None:
    if partition in partitions:
        partitions.remove(partition)


# ---- when all members want the same topics


@dataclass(slots=True)
class _Quotas:
    """How many partitions each member gets: `least`, and one more for `extra` of the members."""

    least: int
    extra: int
    filled: int = 0  # members that have one more already

    def fill(self) -> None:
        """One member has one more than `least`."""
        self.filled += 1

    @property
    def most(self) -> int:
        return self.least + (self.extra > 0)

    @property
    def has_extra(self) -> bool:
        return self.filled < self.extra


def _assign_even(
    ownership: Ownership, counts: Mapping[str, int]
) -> tuple[Assignment, Mapping[TopicPartition, str]]:
    quotas = _Quotas(*divmod(sum(counts.values()), len(ownership.owned)))
    assignment: Assignment = {}
    given_up: dict[TopicPartition, str] = {}
    hungry: list[str] = []  # have less than the least
    ready: list[str] = []  # have the least, and could take one more
    for member_id, partitions in ownership.owned.items():
        owned = sorted(set(partitions) - ownership.disputed, key=lambda each: (each.partition, each.topic))
        keep = len(owned) if len(owned) < quotas.least else quotas.least
        if len(owned) < quotas.least:
            hungry.append(member_id)
        elif len(owned) >= quotas.most and quotas.has_extra:
            keep = quotas.most
            quotas.fill()
            if not quotas.has_extra:
                ready.clear()
        elif quotas.has_extra:
            ready.append(member_id)
        assignment[member_id] = owned[:keep]
        given_up |= dict.fromkeys(owned[keep:], member_id)
    taken = set(chain.from_iterable(assignment.values()))
    free = [
        partition
        for topic in sorted(counts)
        for partition in map(TopicPartition, [topic] * counts[topic], range(counts[topic]))
        if partition not in taken
    ]
    receivers = _deal(assignment, free, sorted(hungry), sorted(ready), quotas)
    moving = {
        partition: member_id
        for partition, member_id in receivers.items()
        if given_up.get(partition, member_id) != member_id or partition in ownership.disputed
    }
    return assignment, moving


def _deal(
    assignment: Assignment,
    free: Sequence[TopicPartition],
    hungry: list[str],
    ready: list[str],
    quotas: _Quotas,
) -> dict[TopicPartition, str]:
    """Deal out round by round: first to members below `least`, then one more to others."""
    receivers: dict[TopicPartition, str] = {}
    turn = 0
    for partition in free:
        if hungry:
            turn %= len(hungry)
            member_id = hungry[turn]
        else:
            member_id = ready.pop(0)
        assignment[member_id].append(partition)
        receivers[partition] = member_id
        if hungry:
            if len(assignment[member_id]) == quotas.least:
                ready.append(hungry.pop(turn))
            else:
                turn += 1
    return receivers
