"""The partitions this broker hosts: each a log, a replica that decides, and those who wait for it.

Who waits for what:
- Producers (acks=all) await `high_watermark`. It belongs to one leadership: when that ends, everybody who waits hears
  NOT_LEADER_OR_FOLLOWER and another watermark takes its place, so that nobody is told of records that others wrote. (A leader
  that is elected again in the very next epoch goes on: nobody else can have led in between.)
- Consumers in a long poll are `readers`, woken when the high watermark moves.
- Followers in a long poll stand behind their `cursors`, woken when the log grows.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Protocol
from uuid import UUID

from ottla.config import LONG_MAX, TopicConfig
from ottla.controller.image import ClusterImage, TopicImage
from ottla.errors import ErrorCode, KafkaError
from ottla.log.log import Log
from ottla.log.reading.reader import FileRange
from ottla.log.segments.truncation_job import CutJob
from ottla.log.writing.append import Appended
from ottla.model import ACKS_ALL, NO_OFFSET, EpochEnd
from ottla.replication.divergence import end_of_epoch
from ottla.replication.events import (
    Assigned,
    CommitsRefused,
    Effect,
    Event,
    FollowerFetched,
    HighWatermarkAdvanced,
    HighWatermarkLowered,
    LeaderHighWatermark,
    LogEndOffsetMoved,
    Tick,
)
from ottla.replication.isolation import StepDown
from ottla.replication.isr import ProposeIsr
from ottla.replication.partition import READ_COMMITTED, PartitionReplica
from ottla.runtime.ordered_set import OrderedSet
from ottla.server.answers.watermark import Watermark

logger = logging.getLogger(__name__)


class Reader(Protocol):
    """Somebody who waits for new records in a long poll."""

    def on_append(self, size_bytes: int) -> None:
        """More can be read now."""

    def wake(self) -> None:
        """Do not wait any longer."""


class Cursor(Protocol):
    """Where a follower stands that fetches this partition in a session."""

    replica_id: int
    log_start_offset: int

    @property
    def last_fetch_ms(self) -> int:
        """When the follower last fetched in its session, whatever it named."""

    def repeat(self, leader_epoch: int) -> FollowerFetched | None:
        """What the replica should hear of fetches that did not name this partition; None if that is no news."""

    def on_append(self, size_bytes: int) -> None:
        """The log grew."""

    def on_news(self) -> None:
        """Something is to be told with the next answer."""

    def on_change(self) -> None:
        """Something is to be told now: another leader, another log start, the end."""


Propose = Callable[["HostedPartition", ProposeIsr | StepDown], None]


def propose_nothing(_: "HostedPartition", __: ProposeIsr | StepDown) -> None:
    """For who hosts partitions without a cluster around them."""


class HostedPartition:
    """One partition on this broker. Thin: the log stores, the replica decides, this joins them."""

    __slots__ = (
        "_config",
        "_counts_flushed",
        "_propose",
        "_start_waiters",
        "_unseen_bytes",
        "adding_replicas",
        "cursors",
        "flushed",
        "flushes_by_time",
        "high_watermark",
        "index",
        "is_closed",
        "lag_records",
        "log",
        "readers",
        "replica",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        topic_id: UUID,
        index: int,
        log: Log,
        replica: PartitionReplica,
        propose: Propose = propose_nothing,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.replica = replica
        self._config = log.config
        self.flushes_by_time = log.config.flush_ms < LONG_MAX
        self.high_watermark = Watermark(replica.high_watermark)
        self.flushed = Watermark(log.flushed_offset)
        self.readers: OrderedSet[Reader] = OrderedSet()
        self.cursors: list[Cursor] = []
        # Replicas that the partition is being moved to: their fetches may be throttled.
        self.adding_replicas: frozenset[int] = frozenset()
        # How far this follower was behind the leader's high watermark when it last heard of it.
        self.lag_records = 0
        self.is_closed = False
        self._propose = propose
        self._start_waiters: list[asyncio.Future[None]] = []
        # Appended and not yet below the high watermark: what waiting consumers have not been told of.
        self._unseen_bytes = 0
        self._counts_flushed = False

    @property
    def name(self) -> str:
        """As in directory names and log lines."""
        return f"{self.topic}-{self.index}"

    @property
    def config(self) -> TopicConfig:
        """The topic's settings in force."""
        return self._config

    @property
    def last_stable_offset(self) -> int:
        """Where a reader of committed records must stop."""
        return self.replica.readable_up_to(READ_COMMITTED, self.log.first_unstable_offset)

    def configure(self, config: TopicConfig) -> None:
        """Take changed settings over."""
        self._config = config
        self.flushes_by_time = config.flush_ms < LONG_MAX
        self.log.configure(config)
        self._take_policy(len(self.replica.replicas))
        if self.replica.is_leader:
            self._log_end_offset_moved(0, 0)

    def assign(self, assigned: Assigned, now_ms: int) -> None:
        """Take the controller's decision over. Those who waited under another leadership are told that it is over."""
        replica = self.replica
        before = replica.leader, replica.leader_epoch, replica.leadership_epoch
        self._take_policy(len(assigned.replicas))
        end, durable = self.log.log_end_offset, self._durable_offset
        effects = replica.step(replace(assigned, log_end_offset=end, durable_offset=durable), now_ms)
        if (replica.leader, replica.leader_epoch) != before[:2]:
            self._leader_changed(goes_on=replica.leadership_epoch == before[2])
        self._carry_out(effects)

    def step(self, event: Event, now_ms: int) -> None:
        """Let the replica know of something, and do what follows."""
        effects = self.replica.step(event, now_ms)
        if effects:
            self._carry_out(effects)

    def tick(self, now_ms: int) -> None:
        """Let the replica count the time, with the fetches that it has not heard of before."""
        self._hear_followers()
        self.step(Tick(), now_ms)

    def append_error(self, acks: int) -> ErrorCode:
        """Why an append must be refused now, or NONE."""
        if self.is_closed:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return self.replica.append_error(acks)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether fewer replicas are in sync than the topic asks for."""
        return self.replica.is_under_min_isr

    def append(self, record_sets: Sequence[memoryview], now_ms: int) -> list[Appended | KafkaError]:
        """Append a producer's record sets in order, with one write."""
        log = self.log
        end_before = log.log_end_offset
        outcomes = log.append(record_sets, leader_epoch=self.replica.leader_epoch, now_ms=now_ms)
        if log.log_end_offset != end_before:
            self._log_end_offset_moved(sum(map(len, record_sets)), now_ms)
        return outcomes

    def append_own(self, batch: memoryview, now_ms: int) -> Appended:
        """Append a batch of the broker's own; KafkaError when it cannot be written."""
        error = self.append_error(ACKS_ALL)
        if error:
            raise KafkaError(error)
        appended = self.log.append_records(batch, leader_epoch=self.replica.leader_epoch, now_ms=now_ms)
        self._log_end_offset_moved(len(batch), now_ms)
        return appended

    def append_replicated(self, records: memoryview, now_ms: int) -> None:
        """Append what the leader sent; KafkaError when it cannot be, and nothing has changed then."""
        self.log.append_replicated(records, now_ms)
        self.replica.step(LogEndOffsetMoved(self.log.log_end_offset), now_ms)

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Cut off what the leader does not have. The caller has seen to the recovery point (log/writing/truncation.py)."""
        self.log.truncate_to(offset)
        self._log_was_cut(now_ms)

    def begin_truncate(self, offset: int, now_ms: int) -> CutJob | None:
        """The same, and the caller makes it durable in a thread; the log waits for that before its next append."""
        job = self.log.begin_truncate(offset)
        self._log_was_cut(now_ms)
        return job

    def begin_at(self, offset: int, now_ms: int) -> None:
        """Throw all records away: the leader's log begins later."""
        self.log.truncate_fully(offset)
        self._log_was_cut(now_ms)

    def leader_high_watermark(self, high_watermark: int, now_ms: int) -> None:
        """The leader told its high watermark, and what came with it is in the log."""
        self.lag_records = max(0, high_watermark - self.log.log_end_offset)
        if high_watermark > self.replica.high_watermark:
            self.step(LeaderHighWatermark(high_watermark), now_ms)

    def leader_log_start(self, offset: int) -> None:
        """The leader deleted what comes before `offset`."""
        self.log.advance_log_start_offset(offset)

    def read(self, offset: int, max_bytes: int, isolation_level: int, at_least_one: bool) -> FileRange | None:
        """Whole batches from `offset` on that this reader may see."""
        upper = self.replica.readable_up_to(isolation_level, self.log.first_unstable_offset)
        return self.log.read(offset, max_bytes, upper_offset=upper, at_least_one=at_least_one)

    def read_for_follower(self, offset: int, max_bytes: int, at_least_one: bool) -> FileRange | None:
        """Whole batches from `offset` on, whether they are committed or not."""
        log = self.log
        return log.read(offset, max_bytes, upper_offset=log.log_end_offset, at_least_one=at_least_one)

    def advance_log_start_offset(self, offset: int) -> None:
        """Records before `offset` are gone; followers hear of it at once."""
        self.log.advance_log_start_offset(offset)
        for cursor in self.cursors:
            cursor.on_change()

    def low_watermark(self, live: Collection[int]) -> int:
        """Where the log starts on every live replica; -1 while one of them has not told."""
        starts = {cursor.replica_id: cursor.log_start_offset for cursor in self.cursors}
        others = [starts.get(other, NO_OFFSET) for other in self.replica.followers if other in live]
        return min([self.log.log_start_offset, *others])

    def follower_start_moved(self) -> None:
        """A follower told that its log starts later than before."""
        waiting, self._start_waiters = self._start_waiters, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def next_follower_start(self) -> None:
        """Return when a follower's log start has moved, or when that will not happen here."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._start_waiters.append(future)
        await future

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """The largest leader epoch that is at most `epoch`, and where it ends; (-1, -1) if that is unknown."""
        return end_of_epoch(self.log, self.replica.leader_epoch, epoch)

    def must_flush(self, acks_all: bool) -> bool:
        """Whether an append may be answered only after an fsync."""
        config = self._config
        return config.flush_messages == 1 or (acks_all and config.ottla_flush_on_acks_all)

    @property
    def is_flush_due(self) -> bool:
        """Whether so much is unflushed that the policy asks for an fsync.

        A segment that is full is always flushed: after a crash only the last one then has to be scanned. Where only
        flushed records count as committed, none may wait for another reason to be flushed.
        """
        log, config = self.log, self._config
        return (
            log.unflushed_messages >= config.flush_messages
            or log.flushed_offset < log.segments.active.base_offset
            or (self._counts_flushed and log.flushed_offset < log.log_end_offset)
            or 0 < config.ottla_flush_bytes <= log.unflushed_bytes
        )

    def is_flush_overdue(self, now_ms: int) -> bool:
        """Whether the oldest unflushed record has waited for flush.ms."""
        log = self.log
        return (
            not self.is_closed
            and log.unflushed_messages > 0
            and now_ms - log.last_flush_ms >= self._config.flush_ms
        )

    def note_flushed(self, now_ms: int) -> None:
        """A flush is complete. Where acks=all means fsync on all replicas, the leader's share counts from here."""
        self.flushed.advance(self.log.flushed_offset)
        if self._counts_flushed and self.replica.is_leader:
            self.step(LogEndOffsetMoved(self.log.log_end_offset, self._durable_offset), now_ms)

    def close(self) -> None:
        """Refuse appends and let go of everybody who waits; the log is closed or deleted by the caller."""
        self.is_closed = True
        gone = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.name} is no longer served here")
        self.high_watermark.fail(gone)
        self.flushed.fail(gone)
        self.wake_readers()

    def wake_readers(self) -> None:
        """Let long polls answer with what there is."""
        for reader in tuple(self.readers):
            reader.wake()
        for cursor in self.cursors:
            cursor.on_change()
        self.follower_start_moved()

    def _leader_changed(self, goes_on: bool) -> None:
        if not goes_on:
            over = KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"the leader of {self.name} changed before all replicas had it",
            )
            self.high_watermark.fail(over)
            self.high_watermark = Watermark(self.replica.high_watermark)
            self._unseen_bytes = 0
            self.lag_records = 0
        self.wake_readers()

    def _log_was_cut(self, now_ms: int) -> None:
        # What was durable above the cut is gone; nobody waits for it on a follower.
        self.flushed = Watermark(self.log.flushed_offset)
        self.step(LogEndOffsetMoved(self.log.log_end_offset), now_ms)

    def _take_policy(self, replicas: int) -> None:
        config = self._config
        self._counts_flushed = self.must_flush(acks_all=True) and replicas > 1
        self.replica.configure(config.min_insync_replicas)

    @property
    def _durable_offset(self) -> int | None:
        """This replica's share in the high watermark, where only what is flushed may count: where all replicas flush."""
        return self.log.flushed_offset if self._counts_flushed else None

    def _log_end_offset_moved(self, size_bytes: int, now_ms: int) -> None:
        if self.cursors:
            self._hear_followers()
            for cursor in self.cursors:
                cursor.on_append(size_bytes)
        self._unseen_bytes += size_bytes
        durable = self._durable_offset if self._counts_flushed else None
        effects = self.replica.step(LogEndOffsetMoved(self.log.log_end_offset, durable), now_ms)
        if effects:
            self._carry_out(effects)

    def _hear_followers(self) -> None:
        """Let the replica hear of followers that fetched without naming this partition."""
        leader_epoch = self.replica.leader_epoch
        for cursor in self.cursors:
            fetched = cursor.repeat(leader_epoch)
            if fetched is not None:
                self.step(fetched, cursor.last_fetch_ms)

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if type(effect) is HighWatermarkAdvanced:
                self._high_watermark_advanced(effect.high_watermark)
            elif type(effect) is ProposeIsr or type(effect) is StepDown:
                self._propose(self, effect)
            elif type(effect) is CommitsRefused:
                self._refuse_commits(effect.error)
            elif type(effect) is HighWatermarkLowered:
                logger.warning("%s: records that were committed are cut off", self.name)
                self.high_watermark = Watermark(effect.high_watermark)

    def _refuse_commits(self, error: ErrorCode) -> None:
        if self.high_watermark.is_awaited:
            reason = None
            if error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                reason = f"{self.name} has lost its followers and the controller"
            self.high_watermark.refuse(KafkaError(error, reason))

    def _high_watermark_advanced(self, high_watermark: int) -> None:
        self.high_watermark.advance(high_watermark)
        for cursor in self.cursors:
            cursor.on_news()
        size_bytes = self._unseen_bytes
        if high_watermark == self.log.log_end_offset:
            self._unseen_bytes = 0
        if self.readers:
            # Where a part is still to come this is too much: whoever finds less than it waits for waits on.
            for reader in tuple(self.readers):
                reader.on_append(size_bytes)


class Partitions:
    """Finds a hosted partition by name or by topic id; tells the two ways of not finding one apart."""

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image
        self._by_name: dict[tuple[str, int], HostedPartition] = {}
        self._by_id: dict[tuple[UUID, int], HostedPartition] = {}
        # The topics that have a log which could not be opened.
        self.unopened: OrderedSet[str] = OrderedSet()
        self._version = 0

    @property
    def version(self) -> int:
        """Changes with every partition that is added or removed; for decisions that are remembered (gate/basis.py)."""
        return self._version

    def __iter__(self) -> Iterator[HostedPartition]:
        return iter(tuple(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def by_name(self, topic: str, index: int) -> HostedPartition:
        """Raises UNKNOWN_TOPIC_OR_PARTITION, or another error for a partition that exists and is not open."""
        partition = self._by_name.get((topic, index))
        if partition is not None:
            return partition
        known = self._image().topics_by_name.get(topic)
        if known is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic}")
        raise self._absence(known, index)

    def by_id(self, topic_id: UUID, index: int) -> HostedPartition:
        """Raises UNKNOWN_TOPIC_ID; where only the partition is unknown, as `by_name` does."""
        partition = self._by_id.get((topic_id, index))
        if partition is not None:
            return partition
        topic = self._image().topics_by_id.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        raise self._absence(topic, index)

    def find(self, topic: str, index: int) -> HostedPartition | None:
        """The partition if it is hosted here."""
        return self._by_name.get((topic, index))

    def add(self, partition: HostedPartition) -> None:
        """Serve a partition from now on."""
        self._by_name[partition.topic, partition.index] = partition
        self._by_id[partition.topic_id, partition.index] = partition
        self._version += 1

    def remove(self, partition: HostedPartition) -> None:
        """Stop serving it."""
        del self._by_name[partition.topic, partition.index]
        del self._by_id[partition.topic_id, partition.index]
        self._version += 1
        partition.close()

    def _absence(self, topic: TopicImage, index: int) -> KafkaError:
        """Why a partition of a known topic is not here."""
        if topic.partition(index) is None:
            return KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the topic {topic.name} has no partition {index}"
            )
        name = f"{topic.name}-{index}"
        if topic.name in self.unopened:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {name} cannot be opened now")
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{name} is not served by this broker now")
