"""The parts of a consumer between the application and the cluster, and the work of a poll.

    application ── poll ──> Reading ── turns ──> PartitionReader <── Fetcher ──> leaders
                               │
                               └── GroupMembership, Commits, Positions ──> coordinator, leaders

Rules
- Work in the background (fetches, heartbeats, metadata) runs in tasks and never calls the application. Work
  that concerns the application (rebalances, automatic commits, errors) waits until it polls: `wake` says that
  something waits.
- While the application iterates over the records of an open batch it is not in a poll. `is_woken` asks it to
  poll between two records; a tick sets it periodically, so that the group hears that the application is
  alive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

from ottla.client.calls.lifetime import Lifetime
from ottla.client.cluster.background_tasks import Background
from ottla.client.cluster.connections import Connections
from ottla.client.cluster.coordinator import Coordinator
from ottla.client.cluster.topology import Topology
from ottla.client.consumer.commits import Commits
from ottla.client.consumer.group_membership import GroupMembership, Topics
from ottla.client.consumer.plan.partition_turns import Turns
from ottla.client.consumer.plan.settings import ConsumerSettings
from ottla.client.consumer.poll_notices import PollNotices
from ottla.client.consumer.positions import Positions
from ottla.client.consumer.record_worker import Worker
from ottla.client.consumer.subscription import Listeners, Subscription
from ottla.client.fetching.fetcher import Fetcher
from ottla.client.fetching.plan.partition_reader import PartitionReader
from ottla.client.membership.plan.assignors import is_cooperative
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.member_events import PollBegan, PollEnded
from ottla.client.requests.membership import GroupMetadata, Membership
from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_GENERATION, TopicPartition

# A last commit that a broken cluster does not take should not delay closing for long.
CLOSE_TIMEOUT_MS: Final = 5_000
# An application that gets records without waiting must let the loop work too: fetches and heartbeats depend
# on it.
_LONGEST_TURN_SECONDS: Final = 0.005
_LONGEST_SILENCE_SECONDS: Final = 0.02
# How often an application in the middle of a batch comes by, at least.
_MOST_TICK_SECONDS: Final = 1.0


class Reading:
    """The parts of a consumer, and the work that a poll does with them."""

    def __init__(self, connections: Connections, settings: ConsumerSettings) -> None:
        self.settings = settings
        self.asking = connections
        self._fetching = self.asking.sibling()
        self.coordinator: Coordinator | None = None
        self.commits: Commits | None = None
        if settings.group_id is not None:
            self.coordinator = Coordinator(
                self.asking,
                settings.group_id,
                settings.group_instance_id,
                timeout_ms=settings.default_api_timeout_ms,
                request_timeout_ms=settings.request_timeout_ms,
            )
            self.commits = Commits(
                self.coordinator,
                interval_ms=settings.commit_interval_ms,
                timeout_ms=settings.default_api_timeout_ms,
                is_cooperative=is_cooperative(settings.partition_assignment_strategy),
            )
        self.topology = Topology(
            self.asking, max_age_ms=settings.metadata_max_age_ms, on_change=self._topology_changed
        )
        self.fetcher = Fetcher(
            self._fetching,
            self.topology,
            settings.fetch,
            self._ready,
            is_strict=settings.auto_offset_reset == "none",
        )
        self.readers = self.fetcher.readers
        self.turns = Turns(self.readers, self.fetcher.pump_one)
        self._positions = Positions(self.asking, self.coordinator, settings)
        self._background = Background(self.wake)
        self._lookup: asyncio.Task[None] | None = None
        self.membership: GroupMembership | None = None
        self.worker: Worker | None = None
        self._waiting = PollNotices(self.asking.notices, settings.session_timeout_ms)
        self._wakeup = asyncio.Event()
        self.is_polling = False
        self._is_waiting = False  # the group was told that the application waits for records
        self._told_seconds = 0.0
        self._rested_seconds = 0.0
        self.is_woken = False
        self.lifetime = Lifetime("consumer")

    @property
    def is_open(self) -> bool:
        return self.lifetime.is_open

    async def open(self) -> None:
        """Connect, and keep metadata fresh from now on."""
        self.lifetime.needs_new()
        await self.asking.reach()
        self.lifetime.begin()
        self._background.start(self.topology.run())
        self._background.start(self._tick())

    async def close(self) -> None:
        """Commit if commits are automatic, leave the group, end all tasks, close all connections."""
        self.lifetime.begin_end()
        try:
            await self.leave()
        finally:
            self.lifetime.end()
            self.wake()
            await self.fetcher.close()
            await self._background.close()
            await self._fetching.close()
            await self.asking.close()

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read exactly these partitions; those that were read before keep their position."""
        self.fetcher.drop([each for each in self.readers if each not in partitions])
        self.fetcher.add([each for each in partitions if each not in self.readers])
        self.topology.want(partition.topic for partition in partitions)
        self.wake()

    # ---- the group

    def subscribe(self, topics: Topics, listeners: Listeners) -> None:
        """Become a member of the group that reads these topics; a member changes its topics."""
        if self.membership is not None:
            self.membership.subscribe(topics, listeners)
            return
        assert self.coordinator is not None
        assert self.commits is not None
        strategy = self.settings.partition_assignment_strategy
        subscription = Subscription(self.topology, self.fetcher, self.commits, strategy)
        membership = GroupMembership(
            self.settings.member, self.coordinator, self.asking, subscription, self.wake
        )
        membership.employ(self.worker)
        self.membership = membership
        self.commits.join(membership.session)
        membership.begin(topics, listeners)

    async def leave(self) -> None:
        """Give up all partitions and leave the group.

        A consumer that is no member commits, if commits are automatic.
        """
        membership, commits = self.membership, self.commits
        try:
            if membership is not None:
                await membership.let_go(CLOSE_TIMEOUT_MS)
            elif commits is not None and commits.is_automatic:
                await commits.commit_done(self.readers.values(), CLOSE_TIMEOUT_MS)
        finally:
            if membership is not None and commits is not None:
                self.membership = None
                commits.leave()
                await membership.leave("the consumer was closed or unsubscribed")

    def employ(self, worker: Worker | None) -> None:
        """Let `worker` say which records are done; None: every record that was handed out is done.

        After a worker, reading continues with the first record of each partition that is not done.
        """
        before = self.worker
        if worker is not None and before is not None:
            raise RuntimeError("this consumer's records are being processed already")
        for partition, reader in self.readers.items():
            if before is not None and (unfinished := before.unfinished(partition)) is not None:
                reader.seek(unfinished)
                self.fetcher.pump_one(reader)
        self.worker = worker
        if self.commits is not None:
            self.commits.employ(worker)
        if self.membership is not None:
            self.membership.employ(worker)

    @property
    def group_metadata(self) -> GroupMetadata:
        """The group, and the present membership in it. Raises KafkaError while a subscriber has none."""
        group_id, instance_id = self.settings.group_id, self.settings.group_instance_id
        assert group_id is not None
        member = Membership() if self.membership is None else self.membership.session.membership
        if self.membership is not None and member.generation_id == NO_GENERATION:
            # A coordinator takes the offsets of a stranger: those would be offsets of other members' partitions.
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION, "the consumer is not a member of its group at the moment"
            )
        return GroupMetadata(group_id, member.member_id, member.generation_id, instance_id)

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit offsets of partitions that this consumer has. Raises KafkaError if the group moved one away."""
        assert self.commits is not None
        if self.membership is not None and (foreign := offsets.keys() - self.readers.keys()):
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION, f"{min(foreign)} is not assigned to this consumer any more"
            )
        if offsets:
            await self.commits.commit(offsets)
        for partition, place in offsets.items():
            if partition in self.readers:
                self.readers[partition].note_commit(place.offset)

    # ---- a poll

    def begin_poll(self) -> None:
        """The application asks for records. One at a time."""
        if self.is_polling:
            raise RuntimeError("another task is polling this consumer")
        self.is_polling = True

    def end_poll(self) -> None:
        """The application has its records, and works on them."""
        self.is_polling = False
        now_seconds = asyncio.get_running_loop().time()
        # The group need not hear of every poll that an application in a hurry makes.
        if self.membership is not None and (
            self._is_waiting or now_seconds - self._told_seconds > _LONGEST_SILENCE_SECONDS
        ):
            self._is_waiting, self._told_seconds = False, now_seconds
            self.membership.tell(PollEnded())

    async def attend(self) -> None:
        """Do what is due before records can be handed out."""
        self.is_woken = False
        self._wakeup.clear()
        self._raise_failure()
        await self._rest()
        if self.membership is not None and self.membership.has_pending:
            self._tell_that_it_waits()
            await self.membership.attend()
        if (self._lookup is None or self._lookup.done()) and self.fetcher.without_position():
            self._lookup = self._background.start(self._look_up(wait_for_topics=self.membership is not None))
        commits = self.commits
        if commits is not None and commits.is_due():
            # Taken now: when the task runs, more may have been handed out.
            self._background.start(commits.commit_quietly(commits.progress_of(self.readers.values())))

    async def woken(self, deadline: float | None) -> bool:
        """Wait for something new; False if the time is over before."""
        self._tell_that_it_waits()
        self._waiting.begins(self.membership, self.readers)
        try:
            async with asyncio.timeout_at(deadline):
                await self._wakeup.wait()
        except TimeoutError:
            return False
        return True

    def _tell_that_it_waits(self) -> None:
        if self.membership is not None and not self._is_waiting:
            self._is_waiting = True
            self.membership.tell(PollBegan())

    def wake(self) -> None:
        """Something waits for the application."""
        self.is_woken = True
        self._wakeup.set()

    def _raise_failure(self) -> None:
        error = self._positions.take_error()
        lost = self.membership.failure if self.membership else None
        failure = error or lost or self.fetcher.failure or self._background.failure
        if failure is not None:
            raise failure

    async def _rest(self) -> None:
        now_seconds = asyncio.get_running_loop().time
        if now_seconds() - self._rested_seconds > _LONGEST_TURN_SECONDS:
            await asyncio.sleep(0)
            self._rested_seconds = now_seconds()

    async def _look_up(self, *, wait_for_topics: bool) -> None:
        await self._positions.look_up(self.fetcher.without_position, wait_for_topics=wait_for_topics)
        self.fetcher.pump()
        self.wake()

    async def _tick(self) -> None:
        least_ms = min(self.settings.auto_commit_interval_ms, self.settings.max_poll_interval_ms / 10)
        while True:
            await asyncio.sleep(min(_MOST_TICK_SECONDS, least_ms / 1000))
            self._waiting.goes_on(self.membership)
            if self.membership is not None or self.commits is not None:
                self.wake()

    def _ready(self, reader: PartitionReader | None) -> None:
        if reader is not None:
            self.turns.join(reader)
        self.wake()

    def _topology_changed(self) -> None:
        self.fetcher.pump()
        if self.membership is not None:
            self.membership.topology_changed()
