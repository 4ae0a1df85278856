"""The topics and partitions of a group member, and how partitions change hands.

The application's side of a rebalance happens inside its poll: positions are committed (if commits are
automatic), `on_revoked` hears which partitions go, they are dropped, the group continues, new partitions are
taken over, and `on_assigned` hears which. There are two ways, depending on the assignors that are offered:
- eager: all partitions are given up before the member joins again.
- cooperative: the member joins at once with the partitions it holds, while the application continues. It
  gives up those that the new assignment lacks, and then asks for another rebalance, in which other members
  get them.

The leader's side is `divide`, and the watch over the number of partitions: when a topic of the group grows or
is created, the leader asks for a rebalance. A member that subscribed to a pattern asks for one when other
topics match.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import TypeAlias

from ottla.client.cluster.backoff import waits_ms
from ottla.client.cluster.topology import Topology
from ottla.client.consumer.commits import Commits
from ottla.client.consumer.record_worker import Worker
from ottla.client.fetching.fetcher import Fetcher
from ottla.client.membership.plan.assignors import ASSIGNORS, GroupedMember, is_cooperative, subscribed_topics
from ottla.client.requests.consumer_protocol import (
    MemberSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignments,
    encode_subscription,
)
from ottla.client.requests.member_events import Adopt, Assign, JoinedMember
from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_GENERATION, TopicPartition
from ottla.protocol.codec import DecodeError

Listener: TypeAlias = Callable[[frozenset[TopicPartition]], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class Listeners:
    """The application's listeners. Without `on_lost`, `on_revoked` hears of lost partitions too."""

    on_assigned: Listener | None = None
    on_revoked: Listener | None = None
    on_lost: Listener | None = None


@dataclass(frozen=True, slots=True)
class AssignmentChange:
    """The difference between the partitions held and a new assignment.

    `needs_another`: partitions that this member claimed go to other members, who get them in another
    rebalance.
    """

    revoked: frozenset[TopicPartition]
    added: frozenset[TopicPartition]
    needs_another: bool


class Subscription:
    """The topics and partitions of one member. Its owner, `GroupMembership`, informs the group of changes."""

    def __init__(
        self, topology: Topology, fetcher: Fetcher, commits: Commits, assignors: Sequence[str]
    ) -> None:
        self._topology = topology
        self._fetcher = fetcher
        self._commits = commits
        self._assignors = tuple(assignors)
        self._topics: tuple[str, ...] = ()
        self._pattern: re.Pattern[str] | None = None
        self._group_topics: Mapping[str, int] | None = None  # with their partitions, while this member leads
        self._listeners = Listeners()
        self._claimed: frozenset[TopicPartition] = frozenset()  # the partitions it held when it joined last
        self._previous: tuple[TopicPartition, ...] = ()  # the last assignment, and its generation
        self._generation_id = NO_GENERATION
        self._worker: Worker | None = None

    @property
    def topics(self) -> frozenset[str]:
        """The topics that are subscribed to; of a pattern, those that match now."""
        return frozenset(self._topics)

    @property
    def has_pattern(self) -> bool:
        """Whether topics are subscribed to by a pattern instead of by name."""
        return self._pattern is not None

    @property
    def may_keep_partitions(self) -> bool:
        """Whether the member keeps its partitions while it joins again: all its assignors are cooperative."""
        return is_cooperative(self._assignors)

    def subscribe(self, topics: Iterable[str] | re.Pattern[str], listeners: Listeners) -> None:
        """Read these topics from now on, instead of those before."""
        self._listeners = listeners
        if isinstance(topics, re.Pattern):
            self._pattern = topics
            self._want_topics()
            self._topology.request_refresh()  # the matching topics will be known then
            return
        self._pattern, self._topics = None, tuple(dict.fromkeys(topics))
        self._want_topics()

    def employ(self, worker: Worker | None) -> None:
        """Let `worker` release partitions before they are given up; None: no worker has records in hand."""
        self._worker = worker

    def protocols(self) -> dict[str, bytes]:
        """The member's subscription, encoded for each of its assignors, as JoinGroup sends it."""
        self._claimed = frozenset(self._fetcher.readers if self.may_keep_partitions else ())
        return {name: encode_subscription(self._told_by(name)) for name in self._assignors}

    # ---- partitions change hands

    async def let_go(self, *, is_lost: bool, timeout_ms: int | None = None) -> None:
        """Give up all partitions."""
        self._group_topics = None
        await self.give_up(frozenset(self._fetcher.readers), is_lost=is_lost, timeout_ms=timeout_ms)

    async def give_up(
        self, partitions: frozenset[TopicPartition], *, is_lost: bool, timeout_ms: int | None = None
    ) -> None:
        """Commit, call the application's listener, drop the partitions. Lost partitions are not committed."""
        if not partitions:
            return
        readers = self._fetcher.readers
        listeners = self._listeners
        try:
            if self._worker is not None:
                await self._worker.release(partitions, is_lost)
            if self._commits.is_automatic and not is_lost:
                await self._commits.commit_done([readers[each] for each in partitions], timeout_ms)
            await _tell(
                listeners.on_lost if is_lost and listeners.on_lost else listeners.on_revoked, partitions
            )
        finally:
            self._fetcher.drop(partitions)
            if self._worker is not None:
                self._worker.forget(partitions)

    def change_to(self, adopted: Adopt) -> AssignmentChange:
        """Adopt a new assignment, and return the change.

        Raises KafkaError if the leader's bytes are no assignment.
        """
        try:
            assigned = decode_assignment(adopted.assignment)
        except DecodeError as error:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the group's leader sent no assignment: {error}"
            ) from error
        self._previous, self._generation_id = assigned, adopted.generation_id
        held, given = frozenset(self._fetcher.readers), frozenset(assigned)
        return AssignmentChange(held - given, given - held, needs_another=not self._claimed <= given)

    def take_over(self, partitions: frozenset[TopicPartition]) -> None:
        """Begin to read partitions."""
        self._fetcher.add(sorted(partitions))
        self._want_topics()

    async def announce(self, partitions: frozenset[TopicPartition]) -> None:
        """Call `on_assigned` with new partitions."""
        await _tell(self._listeners.on_assigned, partitions)

    # ---- the leader's part

    async def divide(self, effect: Assign) -> Mapping[str, bytes]:
        """Each member's assignment, by the assignor that the group agreed on and by present metadata."""
        members = [_grouped(member) for member in effect.members]
        topics = subscribed_topics(members)
        self._group_topics = dict.fromkeys(topics, 0)
        self._want_topics()
        await self._refresh_topology()
        self._group_topics = self._topology.partition_counts(topics)
        assignment = ASSIGNORS[effect.protocol_name].assign(members, self._group_topics)
        return encode_assignments(assignment)

    def watch(self, effect: Assign, assigned: frozenset[TopicPartition]) -> None:
        """Watch the topics whose partitions an earlier leader has divided: more may have been added since."""
        given = Counter(partition.topic for partition in assigned)
        topics = subscribed_topics([_grouped(member) for member in effect.members])
        self._group_topics = {topic: given[topic] for topic in topics}
        self._want_topics()

    def follow_pattern(self, *, is_new: bool) -> bool:
        """Subscribe to the topics that match now; returns whether the group should be informed.

        A new member always informs the group: it joins.
        """
        matching = self._matching()
        if not is_new and matching == self._topics:
            return False
        self._topics = matching
        return True

    def has_other_partitions(self) -> bool:
        """Whether the topics that this member has divided have another number of partitions by now."""
        divided = self._group_topics
        return divided is not None and self._topology.partition_counts(divided) != divided

    async def _refresh_topology(self) -> None:
        for wait_ms in waits_ms():
            try:
                await self._topology.refresh()
                break
            except (ConnectionError, TimeoutError, KafkaError):
                await asyncio.sleep(wait_ms / 1000)

    def _want_topics(self) -> None:
        held = {partition.topic for partition in self._fetcher.readers}
        named = () if self._pattern is not None else self._topics
        matches = None if self._pattern is None else self._matches
        self._topology.want({*named, *(self._group_topics or ()), *held}, matches)

    def _matches(self, topic: str) -> bool:
        return self._pattern is not None and self._pattern.fullmatch(topic) is not None

    def _matching(self) -> tuple[str, ...]:
        return tuple(sorted(filter(self._matches, self._topology.matching_topics)))

    def _told_by(self, assignor: str) -> MemberSubscription:
        """This member's subscription for one of its assignors."""
        return MemberSubscription(
            self._topics,
            owned=tuple(self._claimed),
            generation_id=self._generation_id,
            user_data=ASSIGNORS[assignor].user_data(self._previous, self._generation_id),
        )


async def _tell(listener: Listener | None, partitions: frozenset[TopicPartition]) -> None:
    if listener is not None and isawaitable(told := listener(partitions)):
        await told


def _grouped(member: JoinedMember) -> GroupedMember:
    """A member as an assignor sees it. A member with an invalid subscription gets no partitions."""
    try:
        subscription = decode_subscription(member.metadata)
    except DecodeError:
        subscription = MemberSubscription(())
    return GroupedMember(member.member_id, subscription, member.group_instance_id)
