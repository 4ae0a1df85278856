"""A consumer's part in its group: what it subscribes to, what it holds, and how that changes hands.

The application's side of a rebalance happens here, inside its poll: positions are committed (if commits are automatic), the
application is told what it loses, the partitions are dropped, and the group is told that it may go on; later the new
partitions are taken over and the application is told which. The leader's side is `divide`, and the watch over the number of
partitions: when a topic of the group grows or comes into being, the leader asks for a rebalance.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from ottla.client.assignors import ASSIGNORS, GroupedMember, subscribed_topics
from ottla.client.commits import Commits, progress_of
from ottla.client.consumer_protocol import (
    MemberSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignments,
    encode_subscription,
)
from ottla.client.fetcher import Fetcher
from ottla.client.group_session import GroupSession
from ottla.client.member_events import Adopt, Assign, JoinedMember, Prepare, Prepared, Rejoin, Start
from ottla.client.metadata import TopicPartition
from ottla.client.partition_reader import PartitionReader
from ottla.client.retries import waits_ms
from ottla.client.topology import Topology
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.codec import DecodeError

OnAssigned: TypeAlias = Callable[[frozenset[TopicPartition]], Awaitable[None]]
OnRevoked: TypeAlias = Callable[[frozenset[TopicPartition], bool], Awaitable[None]]


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
        self._group_topics: Mapping[str, int] | None = None  # with their partitions, while this member leads
        self._on_assigned: OnAssigned | None = None
        self._on_revoked: OnRevoked | None = None
        self._session: GroupSession | None = None

    def subscribe(
        self, topics: Iterable[str], on_assigned: OnAssigned | None, on_revoked: OnRevoked | None
    ) -> None:
        """Read these topics from now on, instead of those before."""
        self._topics = tuple(dict.fromkeys(topics))
        self._on_assigned, self._on_revoked = on_assigned, on_revoked
        self._want_topics()
        if self._session is not None:
            self._session.tell(Rejoin("other topics were subscribed to"))

    def begin(self, session: GroupSession) -> None:
        """Join the group."""
        self._session = session
        session.tell(Start(self._protocols()))

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
            await self._take_over(pending)

    async def let_go(self, *, is_lost: bool, timeout_ms: int | None = None) -> None:
        """Give up all partitions: commit, tell the application, drop them."""
        readers = self._fetcher.readers
        self._group_topics = None
        try:
            if readers and self._commits.is_automatic and not is_lost:
                await self._commits.commit_quietly(progress_of(readers.values()), timeout_ms)
            if readers and self._on_revoked is not None:
                await self._on_revoked(frozenset(readers), is_lost)
        finally:
            readers.clear()

    async def _take_over(self, adopted: Adopt) -> None:
        try:
            partitions = decode_assignment(adopted.assignment)
        except DecodeError as error:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the group's leader sent no assignment: {error}"
            ) from error
        self._fetcher.readers.update({each: PartitionReader(each) for each in partitions})
        self._want_topics()
        if self._on_assigned is not None:
            await self._on_assigned(frozenset(partitions))

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
        """The leader notices when there is more, or less, to divide."""
        if self._session is None or self._group_topics is None or not self._session.is_stable:
            return
        if self._topology.partition_counts(self._group_topics) != self._group_topics:
            self._session.tell(Rejoin("the number of partitions changed"))

    async def _refresh_topology(self) -> None:
        for wait_ms in waits_ms():
            try:
                await self._topology.refresh()
                break
            except (ConnectionError, TimeoutError, KafkaError):
                await asyncio.sleep(wait_ms / 1000)

    def _want_topics(self) -> None:
        held = {partition.topic for partition in self._fetcher.readers}
        self._topology.want({*self._topics, *(self._group_topics or ()), *held})

    def _protocols(self) -> dict[str, bytes]:
        subscription = encode_subscription(MemberSubscription(self._topics))
        return dict.fromkeys(self._assignors, subscription)


def _grouped(member: JoinedMember) -> GroupedMember:
    """A member as an assignor sees it. One whose subscription makes no sense gets nothing; the others must not suffer."""
    try:
        subscription = decode_subscription(member.metadata)
    except DecodeError:
        subscription = MemberSubscription(())
    return GroupedMember(member.member_id, subscription, member.group_instance_id)
