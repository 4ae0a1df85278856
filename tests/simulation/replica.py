"""One partition on a simulated broker: the two real machines, the log under them, and those who wait.

`PartitionReplica` says what a leader may do, `Follower` what a follower does with its leader's answers; this carries it out. Where
a topic wants acknowledged writes on disk (`flushes`), a leader counts its own log only as far as it is flushed, and a follower
asks for more only when what it has is flushed: what the watermark passed survives a power loss everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tests.simulation.broker_log import Appended, ReplicaLog
from tests.simulation.site import Consume, Consumed, Produce, Produced, TopicPartition
from tests.simulation.wire import Answered

from ottla.controller.image import PartitionImage
from ottla.errors import ErrorCode, KafkaError
from ottla.model import ACKS_ALL
from ottla.replication import events as leading
from ottla.replication import follower as following
from ottla.replication.divergence import judge_fetch
from ottla.replication.follower import FetchAnswered, FetchFrom, Follower
from ottla.replication.isr import ProposeIsr
from ottla.replication.log_holes import AcceptHole, HoleFound, TruncateTo
from ottla.replication.partition import READ_UNCOMMITTED, PartitionReplica

if TYPE_CHECKING:
    from tests.simulation.broker import Broker

FETCH_BATCHES = 4
CONSUME_BATCHES = 8


class Waiter(NamedTuple):
    """A producer that waits for the watermark, in one leader epoch."""

    leader_epoch: int
    end_offset: int
    results: list[Produced]
    reply: Answered


class HostedPartition:
    """A replica of one life of its broker."""

    def __init__(
        self, broker: Broker, partition: TopicPartition, log: ReplicaLog, high_watermark: int
    ) -> None:
        self._broker = broker
        self.partition = partition
        self.log = log
        self.min_isr = 1
        self.replica = PartitionReplica(
            broker.node_id, high_watermark, replica_lag_time_max_ms=broker.timing.lag_time_max_ms
        )
        self.follower = Follower(broker.node_id)
        self._waiters: list[Waiter] = []
        self.is_flushing = False

    @property
    def durable_offset(self) -> int | None:
        """How far this replica counts, if only what is flushed does."""
        return self.log.flushed_offset if self._broker.flushes else None

    # ---- what the controller decided

    def assigned(self, image: PartitionImage, min_isr: int) -> None:
        replica = self.replica
        before = (replica.leader, replica.leader_epoch)
        self.min_isr = min(min_isr, len(image.replicas))  # more than all cannot be in sync
        replica.configure(min_isr)
        self._face_loss(image)
        self.step(
            leading.Assigned(
                leader=image.leader,
                leader_epoch=image.leader_epoch,
                isr=image.isr,
                replicas=image.replicas,
                partition_epoch=image.partition_epoch,
                log_end_offset=self.log.log_end_offset,
                durable_offset=self.durable_offset,
            )
        )
        if (replica.leader, replica.leader_epoch) == before:
            return
        if (replica.leader, replica.leader_epoch - 1) != before or not replica.is_leader:
            self._fail_waiters()  # somebody else may have led between, or does now
        self._broker.checks.assigned(self._broker.node_id, self)
        if not replica.is_leader:
            self.follower.follow(replica.leader, replica.leader_epoch)
        if self.has_to_flush:
            self.flush()

    def _face_loss(self, image: PartitionImage) -> None:
        """Cut the log where a crash has taken records: who follows fetches them again.

        A leader does so too, unless its log is the only one and nothing was ever flushed before it counted: behind the hole there
        are records that were never acknowledged, and other replicas may have what is in it.
        """
        lost = self.log.first_lost_offset
        if lost is None:
            return
        hole = HoleFound(lost, image.leader, image.replicas, acks_are_durable=self._broker.flushes)
        for effect in self.replica.step(hole, self._broker.now_ms):
            match effect:
                case AcceptHole():
                    self.log.accept_loss()
                case TruncateTo(offset):
                    self.log.truncate(offset)

    def retire(self) -> None:
        self._fail_waiters()

    # ---- what clients ask

    def produce(self, request: Produce, reply: Answered) -> None:
        results, ends = [], [0]
        for outgoing in request.batches:
            error = self.replica.append_error(request.acks)
            if error is ErrorCode.NONE:
                try:
                    appended = self._append(*outgoing)
                    results.append(Produced(ErrorCode.NONE, appended.base_offset))
                    ends.append(appended.end_offset)
                    continue
                except KafkaError as refusal:
                    error = refusal.code
            results.append(Produced(error))
        self._log_moved()
        if request.acks != ACKS_ALL or self._may_acknowledge(max(ends)):
            reply(results)
        else:
            self._waiters.append(Waiter(self.replica.leader_epoch, max(ends), results, reply))

    def _append(self, producer_id: int, base_sequence: int, values: tuple[int, ...]) -> Appended:
        log, previous_epoch = self.log, self.log.latest_epoch
        appended = log.append(producer_id, base_sequence, values, self.replica.leader_epoch)
        if not appended.is_duplicate:
            self._broker.checks.wrote(self.partition, log.batches[-1], previous_epoch)
        return appended

    def _may_acknowledge(self, end_offset: int) -> bool:
        return self.replica.high_watermark >= end_offset

    def consume(self, request: Consume) -> Consumed:
        replica, log = self.replica, self.log
        error = replica.fetch_error(request.leader_epoch)
        if error is not ErrorCode.NONE:
            return Consumed(error)
        if not log.log_start_offset <= request.offset <= log.log_end_offset:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
            return Consumed(error, replica.high_watermark, log.log_start_offset)
        upper = replica.readable_up_to(READ_UNCOMMITTED, None)
        batches = tuple(log.read(request.offset, upper, CONSUME_BATCHES))
        return Consumed(ErrorCode.NONE, replica.high_watermark, log.log_start_offset, batches)

    # ---- the leader of followers

    def replicate(
        self, replica_id: int, broker_epoch: int, asked: FetchFrom, *, is_first: bool
    ) -> FetchAnswered:
        """Answer a follower; `is_first` unless it asked before and was told to wait."""
        replica, log = self.replica, self.log
        error = replica.fetch_error(asked.current_leader_epoch)
        if error is ErrorCode.NONE:
            error = replica.follower_error(replica_id, broker_epoch)
        if error is not ErrorCode.NONE:
            return FetchAnswered(asked, error)
        verdict = judge_fetch(log, replica.leader_epoch, asked.fetch_offset, asked.last_fetched_epoch)
        if isinstance(verdict, ErrorCode):
            if verdict is ErrorCode.NONE and is_first:
                self.step(leading.FollowerFetched(replica_id, broker_epoch, asked.fetch_offset))
            records: Any = None
            if verdict is ErrorCode.NONE:
                records = log.read(asked.fetch_offset, log.log_end_offset, FETCH_BATCHES)
            return FetchAnswered(
                asked, verdict, replica.high_watermark, log.log_start_offset, records=records
            )
        return FetchAnswered(
            asked, ErrorCode.NONE, replica.high_watermark, log.log_start_offset, diverging=verdict
        )

    # ---- a follower

    @property
    def has_to_flush(self) -> bool:
        """Whether it may not speak of all that it holds, because it must not lose it."""
        return self._broker.flushes and self.log.flushed_offset < self.log.log_end_offset

    def next_fetch(self, now_ms: int) -> FetchFrom | None:
        return self.follower.next_fetch(self.log, now_ms)

    def fetched(self, answer: FetchAnswered) -> None:
        if self.replica.is_leader:
            return
        for effect in self.follower.step(answer, self.log, self._broker.now_ms):
            self._carry_out(effect)

    def _carry_out(self, effect: following.Effect) -> None:
        checks, log = self._broker.checks, self.log
        self._broker.trace_effect(self.partition, effect)
        match effect:
            case following.Append(records):
                batches: Any = records
                checks.replicated(self.partition, log, batches)
                log.append_replicated(batches)
                self._log_moved()
            case TruncateTo(offset):
                checks.truncates(self, offset)
                log.truncate(offset)
                self._log_moved()
            case following.BeginAt(offset):
                checks.begins(self, offset)
                log.begin_at(offset)
                self._log_moved()
            case following.HighWatermarkMoved(high_watermark):
                self.step(leading.LeaderHighWatermark(high_watermark))
            case following.LogStartMoved(offset):
                log.advance_start(min(offset, self.replica.high_watermark))
            case following.Failed(reason):
                checks.never(f"{self._broker.node_id} does not follow {self.partition} any more: {reason}")

    # ---- its machine

    def step(self, event: leading.Event) -> None:
        replica = self.replica
        before, epoch = replica.high_watermark, replica.leader_epoch
        effects = replica.step(event, self._broker.now_ms)
        if replica.high_watermark < before or replica.leader_epoch < epoch:
            self._broker.checks.never(f"{self._broker.node_id} goes back in {self.partition}: {event}")
        for effect in effects:
            self._broker.trace_effect(self.partition, effect)
            match effect:
                case leading.HighWatermarkAdvanced(high_watermark):
                    self._broker.checks.advanced(self._broker.node_id, self, before, high_watermark)
                    self._answer_waiters()
                case ProposeIsr():
                    self._broker.isr.propose(self, effect)

    def _log_moved(self) -> None:
        """The log's end is elsewhere: tell the machine, and those who wait for records."""
        if self.has_to_flush:
            self.flush()
        self.step(leading.LogEndOffsetMoved(self.log.log_end_offset, self.durable_offset))
        self._broker.log_moved(self)

    def flush(self) -> None:
        if not self.is_flushing:
            self.is_flushing = True
            self.log.begin_flush()
            self._broker.after_flush(self._flushed)

    def _flushed(self) -> None:
        self.is_flushing = False
        self.log.end_flush()
        if self.log.flushed_offset < self.log.log_end_offset:
            self.flush()
        self.step(leading.LogEndOffsetMoved(self.log.log_end_offset, self.durable_offset))
        self._broker.flushed(self)

    # ---- those who wait

    def _answer_waiters(self) -> None:
        done = [waiter for waiter in self._waiters if self._may_acknowledge(waiter.end_offset)]
        if done:
            self._waiters = [waiter for waiter in self._waiters if waiter not in done]
            for waiter in done:
                waiter.reply(self._acknowledged(waiter.results))

    def _acknowledged(self, results: list[Produced]) -> list[Produced]:
        if len(self.replica.isr) >= self.min_isr:
            return results
        return _with_error(results, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def _fail_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.reply(_with_error(waiter.results, ErrorCode.NOT_LEADER_OR_FOLLOWER))


def _with_error(results: list[Produced], error: ErrorCode) -> list[Produced]:
    return [Produced(error) if result.error is ErrorCode.NONE else result for result in results]
