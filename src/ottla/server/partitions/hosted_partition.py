"""A partition that this broker hosts: a log, a replica that decides, and watermarks to wait for.

`high_watermark` belongs to one leadership. When the leadership ends, all waits for it fail with
NOT_LEADER_OR_FOLLOWER and another watermark takes its place, so that no producer hears of records that other
brokers wrote. A leadership goes on when the same broker is elected again in the very next epoch
(`PartitionReplica.leadership_epoch`).

`flushed` belongs to the log as it is: a truncation fails all waits and begins another watermark.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from ottla.config import TopicConfig
from ottla.controller.remote_log import RemoteLog
from ottla.errors import ErrorCode, KafkaError
from ottla.log.log import Log
from ottla.log.producers.verification import Verification
from ottla.log.reading.reader import FileRange
from ottla.log.writing.append import Appended
from ottla.model import ACKS_ALL
from ottla.records.control import TransactionMarker
from ottla.replication.events import (
    Assigned,
    CommitsRefused,
    Effect,
    Event,
    HighWatermarkAdvanced,
    HighWatermarkLowered,
    LogEndOffsetMoved,
    Tick,
)
from ottla.replication.isolation import StepDown
from ottla.replication.isr import ProposeIsr
from ottla.replication.partition import READ_COMMITTED, PartitionReplica
from ottla.server.answers.watermark import Watermark
from ottla.server.partitions.flush_policy import FlushPolicy
from ottla.server.partitions.partition_counts import PartitionCounts
from ottla.server.partitions.tiered_part import TieredPart
from ottla.server.partitions.waiters import Waiters

logger = logging.getLogger(__name__)


_MARKER_BYTES: Final = 78  # the control batch that ends a transaction

Propose = Callable[["HostedPartition", ProposeIsr | StepDown], None]


def propose_nothing(_: "HostedPartition", __: ProposeIsr | StepDown) -> None:
    """For a partition without a cluster around it."""


class HostedPartition:
    """One partition on this broker: the log stores, the replica decides, this object joins them.

    While another broker leads, `followed_log` changes the log; `waiters` has the requests that wait for news.
    """

    __slots__ = (
        "_propose",
        "adding_replicas",
        "checks_schemas",
        "config",
        "counts",
        "flush_policy",
        "flushed",
        "high_watermark",
        "index",
        "is_closed",
        "lag_records",
        "log",
        "replica",
        "tier",
        "topic",
        "topic_id",
        "waiters",
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
        self.config = log.tail.config  # the topic's settings in force
        self.checks_schemas = bool(self.config.checked_parts)
        self.flush_policy = FlushPolicy(log)
        self.high_watermark = Watermark(replica.high_watermark)
        self.flushed = Watermark(log.durability.flushed_offset)
        self.waiters = Waiters()
        # Replicas that the partition is being moved to: their fetches may be throttled.
        self.adding_replicas: frozenset[int] = frozenset()
        # How far this follower was behind the leader's high watermark when it last heard of it.
        self.lag_records = 0
        self.is_closed = False
        # The part of the log in an object store; None for a topic without tiered storage.
        self.tier: TieredPart | None = None
        self.counts = PartitionCounts()
        self._propose = propose
        log.producers.transactions.replicated_to(replica.high_watermark)

    @property
    def name(self) -> str:
        """As in directory names and log lines."""
        return f"{self.topic}-{self.index}"

    @property
    def log_fields(self) -> dict[str, Any]:
        """The fields of a structured log line about this partition."""
        return {
            "topic": self.topic,
            "partition": self.index,
            "offset": self.log.log_end_offset,
            "epoch": self.replica.leader_epoch,
        }

    @property
    def last_stable_offset(self) -> int:
        """Where a reader of committed records must stop."""
        return self.replica.readable_up_to(READ_COMMITTED, self.log.first_unstable_offset)

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read, here or in the object store."""
        return self.log.log_start_offset if self.tier is None else self.tier.log_start_offset

    def tier_is(self, remote: RemoteLog | None) -> None:
        """Take over what the metadata says of the remote part; None: the topic has no tiered storage."""
        if remote is None:
            self.tier = None
        elif self.tier is None:
            self.tier = TieredPart(self.log, remote)
        else:
            self.tier.apply(remote)

    @property
    def deletable_up_to(self) -> int:
        """The offset up to which retention may delete records."""
        return self.config.deletable_up_to(self.index, self.high_watermark.value)

    def configure(self, config: TopicConfig) -> None:
        """Take changed settings over."""
        self.config = config
        self.checks_schemas = bool(config.checked_parts)
        self.log.tail.configure(config)
        self._take_policy(len(self.replica.replicas))
        if self.replica.is_leader:
            self._log_end_offset_moved(self.log.log_end_offset, 0, 0)

    def moves_to(self, adding_replicas: Collection[int]) -> None:
        """These replicas are being added by a reassignment."""
        self.adding_replicas = frozenset(adding_replicas)

    def assign(self, assigned: Assigned, now_ms: int) -> None:
        """Take the controller's decision over, and end the waits of a leadership that is over."""
        replica = self.replica
        before = replica.leader, replica.leader_epoch, replica.leadership_epoch
        self._take_policy(len(assigned.replicas))
        end, durable = self.log.log_end_offset, self.flush_policy.counted_offset
        effects = replica.step(replace(assigned, log_end_offset=end, durable_offset=durable), now_ms)
        if (replica.leader, replica.leader_epoch) != before[:2]:
            self.counts.leader_changed()
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

    def append(
        self,
        record_sets: Sequence[memoryview],
        now_ms: int,
        verified: Collection[Verification] | None = None,
    ) -> list[Appended | KafkaError]:
        """Append a producer's record sets in order, with one write. `verified` as for `Log.append`."""
        log, leader_epoch = self.log, self.replica.leader_epoch
        end_before = log.log_end_offset
        outcomes = log.append(record_sets, leader_epoch=leader_epoch, now_ms=now_ms, verified=verified)
        end = log.log_end_offset
        if end != end_before:
            size_bytes = sum(map(len, record_sets))
            self.counts.produced(end - end_before, size_bytes)
            self._log_end_offset_moved(end, size_bytes, now_ms)
        return outcomes

    def append_own(self, batch: memoryview, now_ms: int) -> Appended:
        """Append a batch of the broker's own; KafkaError when it cannot be written."""
        error = self.append_error(ACKS_ALL)
        if error:
            raise KafkaError(error)
        appended = self.log.append_records(batch, leader_epoch=self.replica.leader_epoch, now_ms=now_ms)
        self._log_end_offset_moved(self.log.log_end_offset, len(batch), now_ms)
        return appended

    def append_marker(self, marker: TransactionMarker, now_ms: int) -> int:
        """Append the marker that ends a transaction, unless the log has it.

        The marker is replicated when the high watermark reaches the returned offset. KafkaError when it is
        refused, or cannot be written.
        """
        error = self.append_error(ACKS_ALL)
        if error:
            raise KafkaError(error)
        end_before = self.log.log_end_offset
        end = self.log.append_marker(marker, leader_epoch=self.replica.leader_epoch, now_ms=now_ms)
        if end != end_before:
            self._log_end_offset_moved(end, _MARKER_BYTES, now_ms)
        return end

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Truncate the log. The caller has lowered the recovery point (log/writing/truncation.py)."""
        self.log.truncate_to(offset)
        self.log_was_truncated(now_ms)

    def log_was_truncated(self, now_ms: int) -> None:
        """The log lost its tail: waits for a flush end, for other records will have these offsets."""
        reason = f"{self.name} was truncated before it was flushed"
        self.flushed.fail(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, reason))
        self.flushed = Watermark(self.log.durability.flushed_offset)
        self.step(LogEndOffsetMoved(self.log.log_end_offset), now_ms)
        # The transactions were read from the log again, ended ones among them.
        self.log.producers.transactions.replicated_to(self.replica.high_watermark)

    def note_lag(self, records: int) -> None:
        """The number of records that this follower lacks, as of the leader's latest answer."""
        self.lag_records = records

    def read(self, offset: int, max_bytes: int, isolation_level: int, at_least_one: bool) -> FileRange | None:
        """Whole batches from `offset` on that this reader may see."""
        upper = self.replica.readable_up_to(isolation_level, self.log.first_unstable_offset)
        return self.log.read(offset, max_bytes, upper_offset=upper, at_least_one=at_least_one)

    def advance_log_start_offset(self, offset: int) -> None:
        """Records before `offset` are gone; followers hear of it at once."""
        self.log.advance_log_start_offset(offset)
        self.waiters.log_start_moved()

    def is_acknowledged(self, end_offset: int, acks_all: bool) -> bool:
        """Whether what was appended before `end_offset` is flushed and replicated as far as it has to be."""
        if acks_all and self.high_watermark.value < end_offset:
            return False
        return self.flushed.value >= end_offset or not self.flush_policy.must_flush(acks_all)

    def note_flushed(self, now_ms: int) -> None:
        """A flush is complete.

        Waits end, and where only flushed records count, the high watermark may move.
        """
        self.flushed.advance(self.log.durability.flushed_offset)
        counted = self.flush_policy.counted_offset
        if counted is not None and self.replica.is_leader:
            self.step(LogEndOffsetMoved(self.log.log_end_offset, counted), now_ms)

    def close(self) -> None:
        """Refuse appends and end all waits; the log is closed or deleted by the caller."""
        self.is_closed = True
        gone = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.name} is no longer served here")
        self.high_watermark.fail(gone)
        self.flushed.fail(gone)
        self.waiters.wake()

    def _leader_changed(self, goes_on: bool) -> None:
        if not goes_on:
            over = KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"the leader of {self.name} changed before all replicas had it",
            )
            self.high_watermark.fail(over)
            self.high_watermark = Watermark(self.replica.high_watermark)
            self.waiters.leadership_ended()
            self.lag_records = 0
        self.waiters.wake()

    def _take_policy(self, replicas: int) -> None:
        self.flush_policy.configure(self.config, replicas)
        self.replica.configure(self.config.min_insync_replicas)

    def _log_end_offset_moved(self, end_offset: int, size_bytes: int, now_ms: int) -> None:
        waiters = self.waiters
        if waiters.cursors:
            self._hear_followers()
        waiters.appended(size_bytes)
        moved = LogEndOffsetMoved(end_offset, self.flush_policy.counted_offset)
        effects = self.replica.step(moved, now_ms)
        if effects:
            self._carry_out(effects)

    def _hear_followers(self) -> None:
        """Let the replica hear of followers that fetched without naming this partition."""
        leader_epoch = self.replica.leader_epoch
        for cursor in self.waiters.cursors:
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
                logger.warning("%s: committed records are truncated", self.name, extra=self.log_fields)
                self.high_watermark = Watermark(effect.high_watermark)

    def _refuse_commits(self, error: ErrorCode) -> None:
        if self.high_watermark.is_awaited:
            reason = None
            if error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                reason = f"{self.name} has lost its followers and the controller"
            self.high_watermark.refuse(KafkaError(error, reason))

    def _high_watermark_advanced(self, high_watermark: int) -> None:
        self.high_watermark.advance(high_watermark)
        transactions = self.log.producers.transactions
        ends_transaction = bool(transactions) and transactions.replicated_to(high_watermark)
        is_all = high_watermark == self.log.log_end_offset
        self.waiters.committed(is_all=is_all, ends_transaction=ends_transaction)
