"""A consumer's part in its group: what it subscribes to, what it holds, and how that changes hands.

The application's side of a rebalance happens here, inside its poll: positions are committed (if commits are automatic), the
application is told what it loses, the partitions are dropped, the group goes on, new partitions are taken over and the
application is told which. Two ways, by the assignors that are offered:
- eager: all partitions are given up before the member joins again.
- cooperative: the member joins with what it holds, at once, while the application goes on. It gives up what the new
  assignment lacks, and then asks for another rebalance, in which others get it.

The leader's side is `divide`, and the watch over the number of partitions: when a topic of the group grows or comes into
being, the leader asks for a rebalance. Whoever subscribed to a pattern asks for one when other topics match.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import TypeAlias

from ottla.client.cluster.backoff import waits_ms
from ottla.client.cluster.topology import Topology
from ottla.client.consumer.commits import Commits
from ottla.client.consumer.record_worker import Worker
from ottla.client.fetching.fetcher import Fetcher
from ottla.client.membership.group_session import GroupSession
from ottla.client.membership.plan.assignors import ASSIGNORS, GroupedMember, is_cooperative, subscribed_topics
from ottla.client.requests.consumer_protocol import (
    MemberSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignments,
    encode_subscription,
)
from ottla.client.requests.member_events import Adopt, Assign, JoinedMember, Prepare, Prepared, Rejoin, Start
from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_GENERATION, TopicPartition
from ottla.protocol.codec import DecodeError

Listener: TypeAlias = Callable[[frozenset[TopicPartition]], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class Listeners:
    """What the application wants to hear of. Partitions that are lost are told as revoked if nobody listens for that."""

    on_assigned: Listener | None = None
    on_revoked: Listener | None = None
    on_lost: Listener | None = None


class Subscription:
    """What a member of a group reads. `begin` joins the group; `attend` does what a rebalance asks of the application."""

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
        self._session: GroupSession | None = None
        self._claimed: frozenset[TopicPartition] = frozenset()  # what it held when it joined last
        self._previous: tuple[TopicPartition, ...] = ()  # the last assignment, and its generation
        self._generation_id = NO_GENERATION
        self.worker: Worker | None = None

    @property
    def topics(self) -> frozenset[str]:
        """What is subscribed to; of a pattern, what matches now."""
        return frozenset(self._topics)

    @property
    def is_cooperative(self) -> bool:
        return is_cooperative(self._assignors)

    def subscribe(self, topics: Iterable[str] | re.Pattern[str], listeners: Listeners) -> None:
        """Read these topics from now on, instead of those before."""
        self._listeners = listeners
        if isinstance(topics, re.Pattern):
            self._pattern = topics
            self._want_topics()
            self._topology.request_refresh()  # what matches will be known then
            return
        self._pattern, self._topics = None, tuple(dict.fromkeys(topics))
        self._want_topics()
        if self._session is not None:
            self._session.tell(Rejoin("other topics were subscribed to"))

    def begin(self, session: GroupSession) -> None:
        """Join the group; with a pattern, as soon as it is known which topics match."""
        self._session = session
        if self._pattern is None:
            session.tell(Start(self._protocols()))

    def prepare(self, effect: Prepare) -> Mapping[str, bytes] | None:
        """What to join again with, if the application need not do anything before; None if it has to."""
        return self._protocols() if self.is_cooperative and not effect.is_lost else None

    async def attend(self) -> None:
        """Do what waits for the application."""
        session = self._session
        if session is None or session.pending is None:
            return
        # Taken first: what comes while the application is told is newer.
        pending, session.pending = session.pending, None
        if isinstance(pending, Prepare):
            try:
                await self.let_go(is_lost=pending.is_lost)
            finally:
                session.tell(Prepared(self._protocols()))
        else:
            await self._adopt(session, pending)

    async def let_go(self, *, is_lost: bool, timeout_ms: int | None = None) -> None:
        """Give up all partitions."""
        self._group_topics = None
        await self._give_up(frozenset(self._fetcher.readers), is_lost=is_lost, timeout_ms=timeout_ms)

    async def _give_up(
        self, partitions: frozenset[TopicPartition], *, is_lost: bool, timeout_ms: int | None = None
    ) -> None:
        """Commit, tell the application, drop them."""
        if not partitions:
            return
        readers = self._fetcher.readers
        listeners = self._listeners
        try:
            if self.worker is not None:
                await self.worker.release(partitions, is_lost)
            if self._commits.is_automatic and not is_lost:
                await self._commits.commit_done([readers[each] for each in partitions], timeout_ms)
            await _tell(
                listeners.on_lost if is_lost and listeners.on_lost else listeners.on_revoked, partitions
            )
        finally:
            self._fetcher.drop(partitions)
            if self.worker is not None:
                self.worker.forget(partitions)

    async def _adopt(self, session: GroupSession, adopted: Adopt) -> None:
        try:
            assigned = decode_assignment(adopted.assignment)
        except DecodeError as error:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the group's leader sent no assignment: {error}"
            ) from error
        self._previous, self._generation_id = assigned, adopted.generation_id
        held, given = frozenset(self._fetcher.readers), frozenset(assigned)
        is_another_needed = not self._claimed <= given
        try:
            await self._give_up(held - given, is_lost=False)
        finally:
            self._fetcher.add(given - held)
            self._want_topics()
            if is_another_needed:
                session.tell(Rejoin("partitions that move were given up"))
        await _tell(self._listeners.on_assigned, given - held)

    # ---- the leader's part

    async def divide(self, effect: Assign) -> Mapping[str, bytes]:
        """Who gets what, by the assignor that the group agreed on and by metadata of this moment."""
        members = [_grouped(member) for member in effect.members]
        topics = subscribed_topics(members)
        self._group_topics = dict.fromkeys(topics, 0)
        self._want_topics()
        await self._refresh_topology()
        self._group_topics = self._topology.partition_counts(topics)
        assignment = ASSIGNORS[effect.protocol_name].assign(members, self._group_topics)
        return encode_assignments(assignment)

    def topology_changed(self) -> None:
        """Notice when there is more, or less, to divide, or when other topics match."""
        session = self._session
        if session is None:
            return
        if self._pattern is not None and (session.is_new or self._matching() != self._topics):
            self._topics = self._matching()
            session.tell(Start(self._protocols()) if session.is_new else Rejoin("other topics match"))
        elif session.is_stable and self._has_other_partitions():
            session.tell(Rejoin("the number of partitions changed"))

    def _has_other_partitions(self) -> bool:
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

    def _protocols(self) -> dict[str, bytes]:
        self._claimed = frozenset(self._fetcher.readers if self.is_cooperative else ())
        return {name: encode_subscription(self._told_by(name)) for name in self._assignors}

    def _told_by(self, assignor: str) -> MemberSubscription:
        """What this member tells the leader for one of its assignors."""
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
    """A member as an assignor sees it. One whose subscription makes no sense gets nothing; the others must not suffer."""
    try:
        subscription = decode_subscription(member.metadata)
    except DecodeError:
        subscription = MemberSubscription(())
    return GroupedMember(member.member_id, subscription, member.group_instance_id)
