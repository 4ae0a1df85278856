"""The consumer: records of topics, for one application or divided among a group of them.

    async with Consumer("localhost:9092", group_id="billing") as consumer:
        consumer.subscribe(["orders"])
        async for record in consumer:
            print(record.offset, record.value)

Rules
- Records of a partition come in order, each offset once until the application seeks. Control records, aborted
  transactions (with isolation_level="read_committed"), and offsets that compaction removed are skipped.
- At least once: a record counts as done when the next one is asked for. Automatic commits happen only then,
  so a record whose processing was interrupted, by a crash or by an exception, is read again.
- Rebalances happen between records, when the next one is asked for: a partition is never taken away while the
  application works on one of its records. An application that does not ask within `max_poll_interval_ms`
  loses its partitions. Heartbeats do not depend on the application, as long as it does not block the event
  loop.
- A cluster that does not answer is waited for. An error that does not pass is raised where the application
  asks for records.
- One task polls. `commit`, `seek`, `pause` and queries may come from other tasks.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType

from ottla.client.calls import arguments
from ottla.client.cluster.connections import connections_to
from ottla.client.consumer.batch_iteration import Batches
from ottla.client.consumer.commits import Commits
from ottla.client.consumer.plan.settings import (
    DEFAULT_ASSIGNORS,
    ConsumerSettings,
    IsolationLevel,
    OffsetReset,
)
from ottla.client.consumer.positions import lags, offsets_at
from ottla.client.consumer.reading import Reading
from ottla.client.consumer.record_worker import Worker
from ottla.client.consumer.subscription import Listener, Listeners
from ottla.client.fetching.plan.partition_reader import PartitionReader
from ottla.client.fetching.plan.record_batch import ConsumerRecord, RecordBatch
from ottla.client.requests.group_offsets import CommittedOffset, committable
from ottla.client.requests.membership import GroupMetadata
from ottla.client.requests.offsets import OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.model import TopicPartition
from ottla.security.settings import Security

__all__ = [
    "CommittedOffset",
    "Consumer",
    "ConsumerRecord",
    "IsolationLevel",
    "OffsetReset",
    "OffsetSpec",
    "RecordBatch",
]


class Consumer:
    """Reads records of topics, for one application or as a member of a group.

    It connects in `async with`, which raises CannotConnectError if no bootstrap address can be reached. With
    a `group_id`, `subscribe` shares topics with the other members of the group, and offsets are committed;
    with `assign`, the consumer reads the given partitions. Settings have Kafka's names and, where nothing
    else is said, Kafka's meanings:

    - `auto_offset_reset`: where to begin without a committed offset: "earliest", "latest", "none" (an error).
    - `enable_auto_commit`, `auto_commit_interval_ms`: commit finished records periodically, on rebalances,
      and on closing.
    - `partition_assignment_strategy`: "range", "roundrobin", "sticky", "cooperative-sticky"; one in common.
    - `group_instance_id`: a static member; it may come back within the session timeout without a rebalance.
    - `isolation_level`: "read_committed" leaves out records of aborted and of open transactions.
    - `max_poll_records`: the most records that `poll` returns; `max_poll_interval_ms`: the longest time
      between two polls.
    - `max_partition_fetch_bytes`, `fetch_max_bytes`, `max_buffered_bytes`: limits for records that are
      fetched ahead.
    - `client_rack`: the rack or zone of this process. Where the brokers have a `replica.selector.class`,
      records are read from a replica in the same rack.
    - `security`: how to reach a secured cluster (`ottla.Security`).
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] = "localhost:9092",
        *,
        group_id: str | None = None,
        group_instance_id: str | None = None,
        client_id: str = "ottla-consumer",
        auto_offset_reset: OffsetReset = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        partition_assignment_strategy: Sequence[str] = DEFAULT_ASSIGNORS,
        isolation_level: IsolationLevel = "read_uncommitted",
        max_poll_records: int = 500,
        max_poll_interval_ms: int = 300_000,
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: int = 3_000,
        fetch_min_bytes: int = 1,
        fetch_max_bytes: int = 50 << 20,
        fetch_max_wait_ms: int = 500,
        max_partition_fetch_bytes: int = 1 << 20,
        max_buffered_bytes: int = 64 << 20,
        check_crcs: bool = True,
        metadata_max_age_ms: int = 300_000,
        request_timeout_ms: int = 30_000,
        default_api_timeout_ms: int = 60_000,
        client_rack: str = "",
        security: Security | None = None,
    ) -> None:
        settings = ConsumerSettings(
            group_id=group_id,
            group_instance_id=group_instance_id,
            auto_offset_reset=auto_offset_reset,
            enable_auto_commit=enable_auto_commit,
            auto_commit_interval_ms=auto_commit_interval_ms,
            partition_assignment_strategy=partition_assignment_strategy,
            isolation_level=isolation_level,
            max_poll_records=max_poll_records,
            max_poll_interval_ms=max_poll_interval_ms,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            fetch_min_bytes=fetch_min_bytes,
            fetch_max_bytes=fetch_max_bytes,
            fetch_max_wait_ms=fetch_max_wait_ms,
            max_partition_fetch_bytes=max_partition_fetch_bytes,
            max_buffered_bytes=max_buffered_bytes,
            check_crcs=check_crcs,
            metadata_max_age_ms=metadata_max_age_ms,
            request_timeout_ms=request_timeout_ms,
            default_api_timeout_ms=default_api_timeout_ms,
            client_rack=client_rack,
        )
        self._settings = settings
        connections = connections_to(bootstrap_servers, client_id, security, request_timeout_ms)
        self._reading = Reading(connections, settings)
        self._readers = self._reading.readers
        # The positions of the readers before the records that were handed out last and are not done.
        self._last: dict[PartitionReader, int] = {}
        self._iterated: PartitionReader | None = None
        self._iterator: AsyncGenerator[ConsumerRecord, None] | None = None

    async def __aenter__(self) -> Consumer:
        await self._reading.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._take_back()
        await self.close()

    async def close(self) -> None:
        """Commit finished records (if commits are automatic), leave the group, close all connections."""
        self._reading.lifetime.needs_own_loop()
        if self._reading.is_open:
            await self._reading.close()
        iterator, self._iterator = self._iterator, None
        if iterator is not None and not self._reading.is_polling:
            await iterator.aclose()

    # ---- topics and partitions

    def subscribe(
        self,
        topics: Iterable[str] | re.Pattern[str],
        *,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Read these topics, or all whose whole name matches a pattern, as a member of the group.

        A topic that does not exist is waited for. The listeners, plain or async, are called with a set of
        partitions while the application asks for records:

        - `on_assigned`: before the first record of new partitions; it may seek.
        - `on_revoked`: before partitions are given up; it may commit.
        - `on_lost`: other members have the partitions already. Without it, `on_revoked` is called.
        """
        reading = self._needs_open()
        wanted = topics if isinstance(topics, re.Pattern) else arguments.names("topics", topics)
        if not wanted:
            raise ValueError("topics must name one topic at least; to give up all topics, use unsubscribe")
        listeners = Listeners(
            arguments.function("on_assigned", on_assigned),
            arguments.function("on_revoked", on_revoked),
            arguments.function("on_lost", on_lost),
        )
        if reading.commits is None:
            raise ValueError("subscribe needs a group_id; to read without a group, use assign")
        if reading.membership is None and self._readers:
            raise ValueError("this consumer was assigned partitions: it cannot subscribe as well")
        reading.subscribe(wanted, listeners)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without a group.

        Partitions that were read before keep their position.
        """
        reading = self._needs_open()
        wanted = dict.fromkeys(arguments.partitions("partitions", partitions))
        if reading.membership is not None:
            raise ValueError("this consumer has subscribed: its group assigns partitions")
        reading.assign(wanted)

    async def unsubscribe(self) -> None:
        """Commit finished records (if commits are automatic), leave the group, and give up all partitions."""
        reading = self._needs_open()
        await reading.leave()
        reading.assign(())

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read at the moment."""
        return frozenset(self._readers)

    @property
    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed to; of a pattern, those that match at the moment."""
        membership = self._reading.membership
        return frozenset() if membership is None else membership.topics

    # ---- records

    async def poll(
        self, *, max_records: int | None = None, timeout_ms: float | None = None
    ) -> list[ConsumerRecord]:
        """Records, as soon as there are any; an empty list if none came within `timeout_ms`.

        Without `timeout_ms` it waits until there are records. The list is empty, too, if the consumer is
        closed meanwhile. The records of the last call count as done from now on.
        """
        reading = self._needs_open()
        limit = self._settings.max_poll_records
        if max_records is not None:
            # None at all, with a time limit: the application says only that its records are done.
            limit = arguments.whole_number("max_records", max_records, 1 if timeout_ms is None else 0)
        deadline = None
        if timeout_ms is not None:
            wait_ms = arguments.duration_ms("timeout_ms", timeout_ms)
            deadline = asyncio.get_running_loop().time() + wait_ms / 1000
        self._begin_poll()
        try:
            while reading.is_open:
                await reading.attend()
                if taken := reading.turns.take(limit):
                    return self._handed_out(taken)
                if not await reading.woken(deadline):
                    break
        finally:
            self._end_poll()
        return []

    def batches(self, *, max_records: int = 1 << 20) -> AsyncIterator[RecordBatch]:
        """Batches of one partition each, as they come: the fastest way to read (see `RecordBatch`)."""
        self._needs_open()
        return Batches(self._next_batch, arguments.whole_number("max_records", max_records, 1))

    async def _next_batch(self, limit: int) -> RecordBatch | None:
        """The next batch; None if the consumer is closed."""
        reading = self._reading
        reading.lifetime.needs_own_loop()
        self._begin_poll()
        try:
            while reading.is_open:
                await reading.attend()
                if taken := reading.turns.take_batch(limit):
                    reader, batch = taken
                    self._last[reader] = batch.offsets[0]
                    reading.fetcher.pump_one(reader)
                    return batch
                await reading.woken(None)
        finally:
            self._end_poll()
        return None

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        self._needs_open()
        # One for all loops: after a `break`, the next loop continues where the last one was.
        if self._iterator is None:
            self._iterator = self._iterate()
        return self._iterator

    async def _iterate(self) -> AsyncGenerator[ConsumerRecord, None]:
        reading = self._reading
        try:
            while (reader := await self._next_reader()) is not None:
                opened = reader.opened()
                self._iterated = reader
                # Nothing but this happens for most records; all other work waits for `is_woken`.
                for record in opened.records if opened is not None else ():
                    yield record
                    if reading.is_woken:
                        break
                else:
                    reading.turns.next_turn()
        finally:
            self._iterator = None

    async def _next_reader(self) -> PartitionReader | None:
        """A reader that has records; None if the consumer is closed."""
        reading = self._reading
        reading.lifetime.needs_own_loop()
        self._begin_poll()
        try:
            while reading.is_open:
                await reading.attend()
                reader = reading.turns.front()
                if reader is not None:
                    reading.fetcher.pump_one(reader)
                    return reader
                await reading.woken(None)
        finally:
            reading.end_poll()
        return None

    def _handed_out(self, taken: Mapping[PartitionReader, list[ConsumerRecord]]) -> list[ConsumerRecord]:
        records: list[ConsumerRecord] = []
        for reader, part in taken.items():
            self._last[reader] = part[0].offset
            self._reading.fetcher.pump_one(reader)
            records += part
        return records

    def _begin_poll(self) -> None:
        self._reading.begin_poll()
        # The application asks for more: the records it got are done.
        self._last.clear()
        self._iterated = None

    def _end_poll(self) -> None:
        self._reading.end_poll()
        if self._iterator is not None:
            self._reading.wake()  # a loop that was left must not continue with its records

    def _take_back(self) -> None:
        """Take back the records that were handed out last: they were not done, and must not be committed."""
        if self._iterated is not None:
            self._iterated.take_back_last()
        for reader, offset in self._last.items():
            reader.seek(offset)

    # ---- positions

    def position(self, partition: TopicPartition) -> int | None:
        """The offset of the next record that will be handed out; None until it is known."""
        return self._reader(partition).position

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at this offset."""
        place = arguments.offset("offset", offset)
        reader = self._reader(partition)
        reader.seek(place)
        self._reading.fetcher.pump_one(reader)
        self._reading.wake()

    async def seek_to(
        self, when: int | datetime | OffsetSpec, partitions: Iterable[TopicPartition] | None = None
    ) -> None:
        """Continue at `OffsetSpec.EARLIEST` or `LATEST`, or at the first record at or after a time.

        A time is a datetime, or milliseconds since 1970. Where no record is as late as that, reading
        continues at the end. Without partitions: all that are assigned.
        """
        if isinstance(when, datetime):
            when = round(when.timestamp() * 1000)
        moment = int(when) if isinstance(when, OffsetSpec) else arguments.timestamp_ms("when", when)
        readers = self._chosen_readers(self.assignment if partitions is None else partitions)
        wanted = {reader.partition: moment for reader in readers}
        found = succeeded(await offsets_at(self._reading.asking, wanted, self._settings))
        for reader in readers:
            if self._readers.get(reader.partition) is reader:
                reader.seek(found[reader.partition].offset, found[reader.partition].leader_epoch)
                self._reading.fetcher.pump_one(reader)
        self._reading.wake()

    async def lag(self) -> dict[TopicPartition, int]:
        """How many offsets lie between the position and the end of each partition, as its leader says now."""
        self._reading.lifetime.needs_connections()
        return await lags(self._reading.asking, self._readers, self._settings)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out no records of these until they are resumed, or until a rebalance takes them."""
        for reader in self._chosen_readers(partitions):
            reader.pause()
        self._reading.wake()

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Continue with partitions that were paused."""
        for reader in self._chosen_readers(partitions):
            reader.resume()
            self._reading.turns.join(reader)
            self._reading.fetcher.pump_one(reader)
        self._reading.wake()

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        return frozenset(each for each, reader in self._readers.items() if reader.is_paused)

    # ---- commits

    async def commit(self, offsets: Mapping[TopicPartition, int | CommittedOffset] | None = None) -> None:
        """Commit these offsets, each that of the next record to read.

        Without `offsets`, all records that were handed out are committed.
        """
        self._needs_group()
        if offsets is None:
            await self._reading.commit(self.offsets_done())
        else:
            await self._reading.commit(arguments.by_partition("offsets", offsets, committable))

    def offsets_done(self) -> dict[TopicPartition, CommittedOffset]:
        """The offsets that `commit` would commit: those after the records that were handed out.

        A producer commits them in a transaction with `send_offsets`.
        """
        commits = self._needs_group()
        return {reader.partition: at for reader, at in commits.progress_of(self._readers.values()).items()}

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """The group's committed offsets; partitions without a committed offset are left out.

        Waits while an open transaction may change one of them.
        """
        self._needs_group()
        coordinator = self._reading.coordinator
        assert coordinator is not None
        wanted = arguments.partitions("partitions", partitions)
        return succeeded(await coordinator.committed(wanted, waits_for_stable=True))

    # ---- the rest

    @property
    def group_id(self) -> str | None:
        return self._settings.group_id

    @property
    def group_metadata(self) -> GroupMetadata:
        """The group, and this consumer's membership in it, for a producer that commits for this consumer.

        Raises ValueError if the consumer commits by itself, KafkaError while it is not in its group.
        """
        self._needs_group()
        if self._settings.enable_auto_commit:
            raise ValueError(
                "offsets that a transaction commits must not be committed without it: set enable_auto_commit=False"
            )
        return self._reading.group_metadata

    @property
    def isolation_level(self) -> IsolationLevel:
        return self._settings.isolation_level

    @property
    def member_id(self) -> str:
        """The name that the group's coordinator gave this member; empty while it is none."""
        membership = self._reading.membership
        return "" if membership is None else membership.session.membership.member_id

    @property
    def is_open(self) -> bool:
        """Whether it is connected, and not closed."""
        return self._reading.is_open

    def attach(self, worker: Worker | None) -> None:
        """Let `worker`, which processes several records at once, say which records are done; None ends that.

        Reading then continues with the first record of each partition that is not done. See `processing`.
        """
        self._reading.employ(worker)
        self._last.clear()

    def _reader(self, partition: TopicPartition) -> PartitionReader:
        self._reading.lifetime.needs_connections()
        reader = self._readers.get(arguments.partition("partition", partition))
        if reader is None:
            raise ValueError(f"{TopicPartition(*partition)} is not assigned to this consumer")
        return reader

    def _chosen_readers(self, partitions: Iterable[TopicPartition]) -> list[PartitionReader]:
        self._reading.lifetime.needs_connections()
        return [self._reader(each) for each in arguments.partitions("partitions", partitions)]

    def _needs_open(self) -> Reading:
        self._reading.lifetime.needs_open()
        return self._reading

    def _needs_group(self) -> Commits:
        self._reading.lifetime.needs_connections()
        if self._reading.commits is None:
            raise ValueError("commits need a group_id")
        return self._reading.commits
