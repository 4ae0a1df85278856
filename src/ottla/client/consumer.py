"""The consumer: records of topics, for one application or divided among a group of them.

    async with Consumer("localhost:9092", group_id="billing") as consumer:
        consumer.subscribe(["orders"])
        async for record in consumer:
            print(record.offset, record.value)

Rules
- Records of a partition come in order, each offset once until somebody seeks. Control records, and offsets that
  compaction took, are passed over.
- At least once: a record counts as done when the next one is asked for. Automatic commits happen only then, so a record
  whose processing was cut short, by a crash or by an exception, is read again.
- Rebalances happen inside `poll` and the loop: partitions never go while the application works on records. An
  application that does not come back within `max_poll_interval_ms` loses them. Heartbeats do not depend on it.
- A cluster that does not answer is waited for. What waiting does not cure is raised from `poll`.
- One task polls. `commit`, `seek` and the questions may come from others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from types import TracebackType
from typing import Final

from ottla.client.assignors import ASSIGNORS
from ottla.client.background import Background
from ottla.client.commits import Commits, progress_of
from ottla.client.connections import Connections
from ottla.client.coordinator import Coordinator
from ottla.client.fetch_plan import FetchSettings
from ottla.client.fetcher import Fetcher
from ottla.client.group_member import GroupMember
from ottla.client.group_offsets import CommittedOffset
from ottla.client.group_session import GroupSession
from ottla.client.member_events import PollBegan, PollEnded
from ottla.client.member_requests import MemberSettings
from ottla.client.metadata import TopicPartition
from ottla.client.offsets import OffsetSpec
from ottla.client.outcomes import succeeded
from ottla.client.partition_reader import ConsumerRecord, PartitionReader
from ottla.client.positions import OffsetReset, Positions, list_offsets, offsets_at
from ottla.client.retries import backoff_ms
from ottla.client.subscription import OnAssigned, OnRevoked, Subscription
from ottla.client.topology import Topology
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.address import parse_addresses

__all__ = ["Consumer", "ConsumerRecord", "OffsetReset", "OffsetSpec", "TopicPartition"]

MAX_POLL_RECORDS: Final = 500
# Who closes should not wait long for a last commit that a broken cluster does not take.
CLOSE_TIMEOUT_MS: Final = 5_000
# The loop over records need not tell the group about each of them that the application is alive.
_TOUCH_SECONDS: Final = 0.1


class Consumer:
    """Connects in `async with`, which raises CannotConnectError if no bootstrap address can be reached.

    With a `group_id`, `subscribe` shares topics with the other members of the group, and offsets are committed; with `assign`,
    it reads the partitions it is told to. Where a group has committed nothing, or without a group, `offset_reset` says where
    to begin. `auto_commit_interval_ms` may be None: then only `commit` commits.
    """

    def __init__(
        self,
        bootstrap: str = "localhost:9092",
        *,
        group_id: str | None = None,
        group_instance_id: str | None = None,
        client_id: str = "ottla-consumer",
        offset_reset: OffsetReset = "latest",
        auto_commit_interval_ms: int | None = 5_000,
        assignors: Sequence[str] = ("range", "roundrobin"),
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: int = 3_000,
        max_poll_interval_ms: int = 300_000,
        metadata_max_age_ms: int = 300_000,
        timeout_ms: int = 30_000,
        fetch: FetchSettings | None = None,
    ) -> None:
        if unknown := [name for name in assignors if name not in ASSIGNORS]:
            raise ValueError(f"there is no assignor {unknown[0]}: choose from {', '.join(ASSIGNORS)}")
        self._timeout_ms = timeout_ms
        self._assignors = assignors
        self._member_settings = MemberSettings(
            group_id=group_id or "",
            group_instance_id=group_instance_id,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            rebalance_timeout_ms=max_poll_interval_ms,
            request_timeout_ms=timeout_ms,
        )
        self._asking = Connections(parse_addresses(bootstrap), client_id=client_id, timeout_ms=timeout_ms)
        self._fetching = self._asking.sibling()
        self._coordinator = (
            Coordinator(self._asking, group_id, group_instance_id, timeout_ms) if group_id else None
        )
        self._commits = Commits(self._coordinator, auto_commit_interval_ms) if self._coordinator else None
        self._wakeup = asyncio.Event()
        self._topology = Topology(
            self._asking, max_age_ms=metadata_max_age_ms, on_change=self._topology_changed
        )
        self._fetcher = Fetcher(self._fetching, self._topology, fetch or FetchSettings(), self._wake)
        self._readers = self._fetcher.readers
        self._positions = Positions(self._asking, self._coordinator, offset_reset, timeout_ms=timeout_ms)
        self._background = Background(self._wake)
        self._lookup: asyncio.Task[None] | None = None
        self._subscription: Subscription | None = None
        self._session: GroupSession | None = None
        self._turns: deque[TopicPartition] = deque()
        self._last_handed_out: Sequence[ConsumerRecord] = ()
        self._touched_seconds = 0.0
        self._is_polling = self._is_open = False

    async def __aenter__(self) -> Consumer:
        await self._asking.any()
        self._background.start(self._topology.run())
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(is_done=kind is None)

    # ---- what to read

    def subscribe(
        self,
        topics: Iterable[str],
        *,
        on_assigned: OnAssigned | None = None,
        on_revoked: OnRevoked | None = None,
    ) -> None:
        """Read these topics together with the other members of the group; a topic that does not exist is waited for.

        `await on_assigned(partitions)` comes before the first record of new partitions, and may seek. `await on_revoked(partitions,
        is_lost)` comes before they go, and may commit, unless they are lost already.
        """
        self._needs_open()
        if self._coordinator is None or self._commits is None:
            raise ValueError("subscribe needs a group_id; to read without a group, use assign")
        if self._session is None and self._readers:
            raise ValueError("this consumer was assigned partitions: it cannot subscribe as well")
        if self._subscription is None:
            self._subscription = Subscription(self._topology, self._fetcher, self._commits, self._assignors)
        self._subscription.subscribe(topics, on_assigned, on_revoked)
        if self._session is None:
            member = GroupMember(self._member_settings, backoff_ms)
            self._session = self._commits.session = GroupSession(
                member, self._coordinator, self._asking, self._subscription.divide, self._wake
            )
            self._subscription.begin(self._session)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without a group's help; those that were read before keep their position."""
        if self._session is not None:
            raise ValueError("this consumer has subscribed: its group assigns partitions")
        readers = self._readers
        kept = {each: readers.get(each) or PartitionReader(each) for each in partitions}
        readers.clear()
        readers.update(kept)
        self._topology.want(partition.topic for partition in kept)
        self._wake()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read at the moment."""
        return frozenset(self._readers)

    # ---- records

    async def poll(
        self, *, max_records: int = MAX_POLL_RECORDS, timeout_ms: int | None = None
    ) -> list[ConsumerRecord]:
        """Records, as soon as there are any; an empty list if there are none within `timeout_ms` (None: wait on).

        The list is empty too if the consumer is closed meanwhile.
        """
        self._needs_open()
        deadline = None if timeout_ms is None else asyncio.get_running_loop().time() + timeout_ms / 1000
        self._last_handed_out = records = list[ConsumerRecord]()
        with self._polling():
            while self._is_open:
                self._wakeup.clear()
                await self._attend()
                self._last_handed_out = records = self._take(max_records)
                if records or not await self._woken(deadline):
                    break
        return records

    async def batches(self, *, max_records: int = MAX_POLL_RECORDS) -> AsyncIterator[list[ConsumerRecord]]:
        """Lists of records, as they come."""
        while self._is_open:
            if records := await self.poll(max_records=max_records):
                yield records

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        return self

    async def __anext__(self) -> ConsumerRecord:
        # Dense: most records are the next one of a batch that is open, with nothing else to be done.
        if self._is_open and not self._wakeup.is_set():
            reader = self._readers.get(self._turns[0]) if self._turns else None
            if reader is not None and monotonic() - self._touched_seconds < _TOUCH_SECONDS:
                record = reader.take_one()
                if record is not None:
                    self._last_handed_out = (record,)
                    return record
        records = await self.poll(max_records=1) if self._is_open else []
        if not records:  # closed
            raise StopAsyncIteration
        return records[0]

    # ---- positions

    def position(self, partition: TopicPartition) -> int | None:
        """The offset of the next record that will be handed out; None until it is known."""
        return self._reader(partition).position

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at this offset."""
        self._reader(partition).seek(offset)
        self._wake()

    async def seek_to(self, when: int, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Go on at `OffsetSpec.EARLIEST` or `LATEST`, or at the first record at or after a time in milliseconds.

        Where no record is as late as that, reading goes on at the end.
        """
        readers = [self._reader(each) for each in (self.assignment if partitions is None else partitions)]
        wanted = {reader.partition: int(when) for reader in readers}
        found = succeeded(await offsets_at(self._asking, wanted, self._timeout_ms))
        for reader in readers:
            reader.seek(found[reader.partition].offset, found[reader.partition].leader_epoch)
        self._wake()

    async def lag(self) -> dict[TopicPartition, int]:
        """How many offsets lie between the position and the end of each partition, as its leader says now."""
        wanted = dict.fromkeys(self.assignment, int(OffsetSpec.LATEST))
        ends = succeeded(await list_offsets(self._asking, wanted, self._timeout_ms))
        positions = {each: reader.position for each, reader in self._readers.items()}
        return {
            each: max(0, ends[each].offset - position)
            for each, position in positions.items()
            if position is not None and each in ends
        }

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit these offsets (each that of the next record to read), or, without any, everything that was handed out."""
        commits = self._needs_group()
        if offsets is None:
            readers = self._readers.values()
            wanted = {
                each.partition: CommittedOffset(each.position, each.leader_epoch)
                for each in readers
                if each.position is not None
            }
        else:
            wanted = {each: CommittedOffset(offset) for each, offset in offsets.items()}
        if self._session is not None and (foreign := wanted.keys() - self._readers.keys()):
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION, f"{min(foreign)} is not assigned to this consumer any more"
            )
        if wanted:
            await commits.commit(wanted)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """What the group has committed; partitions without a commit are left out."""
        self._needs_group()
        assert self._coordinator is not None
        return succeeded(await self._coordinator.committed(list(partitions)))

    async def close(self) -> None:
        """Commit (if commits are automatic), leave the group, close all connections."""
        await self._close(is_done=True)

    # ---- inside a poll

    async def _attend(self) -> None:
        """Whatever has to be done before records can be handed out."""
        self._raise_failure()
        if self._subscription is not None:
            await self._subscription.attend()
        if (self._lookup is None or self._lookup.done()) and self._without_position():
            waits = self._session is not None
            self._lookup = self._background.start(self._look_up(wait_for_topics=waits))
        if self._commits is not None and self._commits.is_due():
            # Taken now: when the task runs, more may have been handed out.
            progress = progress_of(self._readers.values())
            self._background.start(self._commits.commit_quietly(progress))
        self._fetcher.pump()

    def _raise_failure(self) -> None:
        error, self._positions.error = self._positions.error, None
        session_failure = self._session.failure if self._session else None
        failure = error or session_failure or self._fetcher.failure or self._background.failure
        if failure is not None:
            raise failure

    def _take(self, limit: int) -> list[ConsumerRecord]:
        """Up to `limit` records, partition by partition; each time another partition is first."""
        readers, taken = self._readers, list[ConsumerRecord]()
        if len(self._turns) != len(readers) or not readers.keys() >= set(self._turns):
            self._turns = deque(readers)
        for _ in range(len(self._turns)):
            reader = readers[self._turns[0]]
            try:
                taken += reader.take(limit - len(taken))
            except KafkaError as error:
                if not taken:
                    raise
                reader.error = error  # what was taken comes first
                break
            self._turns.rotate(-1)
            if len(taken) >= limit:
                break
        self._fetcher.pump()
        return taken

    async def _woken(self, deadline: float | None) -> bool:
        """Wait for something new; False if the time is over before."""
        try:
            async with asyncio.timeout_at(deadline):
                await self._wakeup.wait()
        except TimeoutError:
            return False
        return True

    async def _look_up(self, *, wait_for_topics: bool) -> None:
        await self._positions.look_up(self._without_position, wait_for_topics=wait_for_topics)
        self._wake()

    def _without_position(self) -> list[PartitionReader]:
        return [reader for reader in self._readers.values() if reader.needs_position]

    @contextmanager
    def _polling(self) -> Iterator[None]:
        if self._is_polling:
            raise RuntimeError("another task is polling this consumer")
        self._is_polling = True
        if self._session is not None:
            self._session.tell(PollBegan())
        try:
            yield
        finally:
            self._is_polling = False
            self._touched_seconds = monotonic()
            if self._session is not None:
                self._session.tell(PollEnded())

    # ---- the rest

    def _wake(self) -> None:
        self._wakeup.set()

    def _topology_changed(self) -> None:
        self._fetcher.pump()
        if self._subscription is not None:
            self._subscription.topology_changed()

    def _reader(self, partition: TopicPartition) -> PartitionReader:
        reader = self._readers.get(partition)
        if reader is None:
            raise ValueError(f"{partition} is not assigned to this consumer")
        return reader

    def _needs_open(self) -> None:
        if not self._is_open:
            raise RuntimeError("the consumer is not open: use it in `async with`")

    def _needs_group(self) -> Commits:
        if self._commits is None:
            raise ValueError("commits need a group_id")
        return self._commits

    async def _close(self, *, is_done: bool) -> None:
        if not self._is_open:
            return
        self._is_open = False
        try:
            if not is_done:
                self._take_back()
            await self._say_goodbye()
        finally:
            self._wake()
            await self._fetcher.close()
            await self._background.close()
            await self._fetching.close()
            await self._asking.close()

    def _take_back(self) -> None:
        """What was handed out last was not done: it must not be committed."""
        for record in reversed(self._last_handed_out):
            reader = self._readers.get(TopicPartition(record.topic, record.partition))
            if reader is not None:
                reader.seek(record.offset)

    async def _say_goodbye(self) -> None:
        try:
            if self._session is None:
                if self._commits is not None and self._commits.is_automatic:
                    progress = progress_of(self._readers.values())
                    await self._commits.commit_quietly(progress, CLOSE_TIMEOUT_MS)
            elif self._subscription is not None:
                is_lost = self._session.failure is not None
                await self._subscription.let_go(is_lost=is_lost, timeout_ms=CLOSE_TIMEOUT_MS)
        finally:
            if self._session is not None:
                await self._session.close("the consumer was closed")
