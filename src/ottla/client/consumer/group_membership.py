"""A consumer's membership in its group, from `subscribe` to `unsubscribe`.

    GroupSession ── effects ──> GroupMembership ──> Subscription ──> Fetcher, Commits
         ^                             │
         └───────── events ────────────┘

The session runs the machine of the member, the subscription knows the topics and partitions. Neither knows
the other: this object owns both, and carries the machine's effects to the subscription. The application's
side of a rebalance waits here until the application polls (`attend`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from ottla.client.cluster.backoff import backoff_ms
from ottla.client.cluster.connections import Connections
from ottla.client.cluster.coordinator import Coordinator
from ottla.client.consumer.record_worker import Worker
from ottla.client.consumer.subscription import Listeners, Subscription
from ottla.client.membership.group_session import GroupSession
from ottla.client.membership.machine.group_member import GroupMember
from ottla.client.requests.member_events import (
    Adopt,
    Assign,
    Assigned,
    Event,
    Prepare,
    Prepared,
    Rejoin,
    Start,
)
from ottla.client.requests.member_requests import MemberSettings
from ottla.errors import KafkaError
from ottla.model import TopicPartition

Topics: TypeAlias = Iterable[str] | re.Pattern[str]


class GroupMembership:
    """Owns the session and the subscription of one member.

    `wake()` is called when the application should poll.
    """

    def __init__(
        self,
        settings: MemberSettings,
        coordinator: Coordinator,
        connections: Connections,
        subscription: Subscription,
        wake: Callable[[], None],
    ) -> None:
        self._subscription = subscription
        self._coordinator = coordinator
        self._wake = wake
        self._pending: Prepare | Adopt | None = None
        member = GroupMember(settings, backoff_ms)
        self.session = GroupSession(member, coordinator, connections, self._rebalance, wake)

    @property
    def topics(self) -> frozenset[str]:
        """The topics that are subscribed to; of a pattern, those that match now."""
        return self._subscription.topics

    @property
    def failure(self) -> BaseException | None:
        """Why the membership is over, if it did not end by `leave`."""
        return self.session.failure

    @property
    def has_pending(self) -> bool:
        """Whether a rebalance waits for the application."""
        return self._pending is not None

    def begin(self, topics: Topics, listeners: Listeners) -> None:
        """Subscribe and join the group; with a pattern, as soon as the matching topics are known."""
        self._subscription.subscribe(topics, listeners)
        if not self._subscription.has_pattern:
            self.session.tell(Start(self._subscription.protocols()))

    def subscribe(self, topics: Topics, listeners: Listeners) -> None:
        """Read these topics from now on, instead of those before."""
        self._subscription.subscribe(topics, listeners)
        if not self._subscription.has_pattern:
            self.session.tell(Rejoin("other topics were subscribed to"))

    def tell(self, event: Event) -> None:
        """Let the machine hear of an event."""
        self.session.tell(event)

    def employ(self, worker: Worker | None) -> None:
        """Let `worker` release partitions before they are given up; None: no worker has records in hand."""
        self._subscription.employ(worker)

    def topology_changed(self) -> None:
        """Start, or ask for a rebalance, if other topics match or the number of partitions changed."""
        session, subscription = self.session, self._subscription
        if subscription.has_pattern and subscription.follow_pattern(is_new=session.is_new):
            event = Start(subscription.protocols()) if session.is_new else Rejoin("other topics match")
            session.tell(event)
        elif session.is_stable and subscription.has_other_partitions():
            session.tell(Rejoin("the number of partitions changed"))

    async def attend(self) -> None:
        """Do the application's part of a rebalance, if one waits."""
        # Cleared first: an effect that comes while the listeners run is newer.
        pending, self._pending = self._pending, None
        if isinstance(pending, Prepare):
            try:
                await self._subscription.let_go(is_lost=pending.is_lost)
            finally:
                self.session.tell(Prepared(self._subscription.protocols()))
        elif isinstance(pending, Adopt):
            await self._adopt(pending)

    async def let_go(self, timeout_ms: int) -> None:
        """Give up all partitions, as lost if the membership has failed."""
        await self._subscription.let_go(is_lost=self.failure is not None, timeout_ms=timeout_ms)

    async def leave(self, reason: str) -> None:
        """Leave the group, and end everything that is under way."""
        await self.session.close(reason)

    def _rebalance(self, effect: Assign | Prepare | Adopt) -> None:
        match effect:
            case Assign():
                self.session.start(self._divide(effect))
            case Prepare() if self._subscription.may_keep_partitions and not effect.is_lost:
                # An assignment that the application has not taken over is out of date from now on.
                self._pending = None
                self.session.tell(Prepared(self._subscription.protocols()))
            case Prepare() | Adopt():
                self._pending = effect
                self._wake()

    async def _divide(self, effect: Assign) -> None:
        assignments: Mapping[str, bytes] = {}
        if effect.is_divided:
            self._subscription.watch(effect, await self._given_out())
        else:
            assignments = await self._subscription.divide(effect)
        self.session.tell(Assigned(effect.generation_id, assignments))

    async def _given_out(self) -> frozenset[TopicPartition]:
        """The partitions that an earlier leader gave out; none if that cannot be learned, so that all are divided
        anew.
        """
        try:
            return await self._coordinator.assigned()
        except (ConnectionError, TimeoutError, KafkaError):
            return frozenset()

    async def _adopt(self, adopted: Adopt) -> None:
        subscription = self._subscription
        change = subscription.change_to(adopted)
        try:
            await subscription.give_up(change.revoked, is_lost=False)
        finally:
            subscription.take_over(change.added)
            if change.needs_another:
                self.session.tell(Rejoin("partitions that move were given up"))
        await subscription.announce(change.added)
