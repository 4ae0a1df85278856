"""Waiting until an append may be acknowledged: flushed and replicated where asked, within the deadline.

An acknowledgement belongs to the leadership under which its records were appended, and ends once:

    first of                                                      outcome
    flushed (FlushPolicy) and, with acks=all, committed           acknowledged
    the leadership ended, the broker is cut off, the partition    NOT_LEADER_OR_FOLLOWER: the next leader may or
      was deleted, or the log truncated                             may not have the records
    fewer in-sync replicas than min.insync.replicas (acks=all)    NOT_ENOUGH_REPLICAS_AFTER_APPEND
    the flush failed                                              KAFKA_STORAGE_ERROR
    the deadline                                                  REQUEST_TIMED_OUT

An acknowledgement is completed by callbacks of the partition's watermarks: a task for each would cost more
than the append. The callback runs in the middle of whatever moved a watermark, so it must not do much.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from ottla.errors import ErrorCode, KafkaError
from ottla.model import ACKS_ALL
from ottla.server.answers.deferred import Deferred
from ottla.server.answers.send_queue import Part
from ottla.server.partitions.flushing import Flusher
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.wire.deadlines import Deadlines

# A partition, and the end offset of what was appended to it.
Append = tuple[HostedPartition, int]
Failures = dict[HostedPartition, KafkaError]
Done = Callable[[HostedPartition, KafkaError | None], None]


class Acknowledgement:
    """One append that is not acknowledged yet; `done` hears the outcome, perhaps at once."""

    __slots__ = ("_deadlines", "_done", "_leadership", "_left", "partition")

    def __init__(
        self,
        partition: HostedPartition,
        end_offset: int,
        acks: int,
        deadline: float,
        done: Done,
        *,
        flusher: Flusher,
        deadlines: "Deadlines[Acknowledgement]",
    ) -> None:
        self.partition = partition
        # The watermark object stands for the leadership: another leadership has another one.
        self._leadership = partition.high_watermark
        self._done = done
        self._deadlines = deadlines
        is_replicated = acks == ACKS_ALL
        must_flush = partition.flush_policy.must_flush(is_replicated)
        # The number of events to come, with the end of this constructor as one of them; 0 once the outcome is
        # known.
        self._left = 1 + is_replicated + must_flush
        deadlines.add(self, deadline)
        if is_replicated:
            if partition.replica.is_under_min_isr:
                # Nothing more is committed here for now.
                self._committed(None)
            else:
                self._leadership.when_reached(end_offset, self._committed)
        if must_flush and self._left:
            flusher.when_flushed(partition, end_offset, self._flushed)
        self._settle(None)

    def expire(self) -> None:
        """The deadline is over: the records may be replicated later."""
        self._end(KafkaError(ErrorCode.REQUEST_TIMED_OUT))

    def cancel(self) -> None:
        """Nobody waits any more: `done` is not called."""
        self._left = 0
        self._deadlines.discard(self)

    def _committed(self, failure: KafkaError | None) -> None:
        if failure is None and self.partition.replica.is_under_min_isr:
            failure = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        self._settle(failure)

    def _flushed(self, failure: KafkaError | None) -> None:
        if failure is None and self.partition.high_watermark is not self._leadership:
            failure = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._settle(failure)

    def _settle(self, failure: KafkaError | None) -> None:
        if failure is None and self._left > 1:
            self._left -= 1
        else:
            self._end(failure)

    def _end(self, failure: KafkaError | None) -> None:
        if self._left:
            self._left = 0
            self._deadlines.discard(self)
            self._done(self.partition, failure)


class Acknowledgements:
    """The acknowledgements that one connection, or one coordinator, waits for; one timer for all of them."""

    __slots__ = ("_flusher", "_loop", "_timers")

    def __init__(self, flusher: Flusher) -> None:
        self._flusher = flusher
        # Both made with the first wait: nearly all connections never wait.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timers: Deadlines[Acknowledgement] | None = None

    def missing(self, partitions: Iterable[HostedPartition], acks: int) -> list[Append]:
        """The partitions whose last append may not be acknowledged yet. Flushes that are due begin."""
        missing: list[Append] = []
        acks_all = acks == ACKS_ALL
        for partition in partitions:
            end_offset = partition.log.log_end_offset
            if not partition.is_acknowledged(end_offset, acks_all):
                missing.append((partition, end_offset))
            if partition.flush_policy.is_due:
                self._flusher.flush(partition)
        return missing

    def wait(self, append: Append, acks: int, timeout_s: float, done: Done) -> Acknowledgement:
        """Have `done` called with the outcome of an append."""
        loop, deadlines = self._loop, self._timers
        if loop is None or deadlines is None:
            loop = self._loop = asyncio.get_running_loop()
            deadlines = self._timers = Deadlines(loop, Acknowledgement.expire)
        return Acknowledgement(
            *append, acks, loop.time() + timeout_s, done, flusher=self._flusher, deadlines=deadlines
        )

    def answer(
        self,
        appends: Sequence[Append],
        acks: int,
        timeout_s: float,
        answers: Callable[[Failures], list[Part]],
    ) -> Deferred:
        """The answers to requests that made several appends, once all of these have an outcome."""
        return _AnswerOnceAcknowledged(self, appends, acks, timeout_s, answers).deferred


class _AnswerOnceAcknowledged:
    """`answers(failures)` makes the answers at the end; what it raises closes the connection."""

    __slots__ = ("_acknowledgements", "_answers", "_failures", "_left", "deferred")

    def __init__(
        self,
        owner: Acknowledgements,
        appends: Sequence[Append],
        acks: int,
        timeout_s: float,
        answers: Callable[[Failures], list[Part]],
    ) -> None:
        self._answers = answers
        self._failures: Failures = {}
        self._left = len(appends)
        self.deferred = Deferred(self._abandoned)
        self._acknowledgements = [owner.wait(append, acks, timeout_s, self._ended) for append in appends]

    def _ended(self, partition: HostedPartition, failure: KafkaError | None) -> None:
        if failure is not None:
            self._failures[partition] = failure
        self._left -= 1
        if not self._left:
            self._acknowledgements = []
            try:
                self.deferred.settle_soon(self._answers(self._failures))
            except Exception as problem:
                self.deferred.settle_soon(problem)

    def _abandoned(self) -> None:
        for acknowledgement in self._acknowledgements:
            acknowledgement.cancel()
