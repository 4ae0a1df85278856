"""Produce requests that wait until the in-sync replicas hold what they brought (acks=all).

The requests of one socket read wait together, for the high watermark of each partition that they appended to. It is the watermark of the
leadership under which they were appended (partitions.py). The wait ends when all have an outcome: reached, failed because
the leadership or the in-sync replicas are gone, or timed out.
"""

from collections.abc import Callable, Sequence
from functools import partial

from ottla.errors import ErrorCode, KafkaError
from ottla.server.answers.deferred import Deferred
from ottla.server.answers.send_queue import Part
from ottla.server.answers.watermark import Watermark
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.wire.deadlines import Deadlines

# A partition, the offset behind what was appended to it, and the watermark that must get there.
Wait = tuple[HostedPartition, int, Watermark]
Failures = dict[HostedPartition, KafkaError]


class CommitWait:
    """`answers(failures)` makes the answers at the end; it may raise, which closes the connection."""

    __slots__ = ("_answers", "_deadlines", "_failures", "_left", "deferred")

    def __init__(
        self,
        waits: Sequence[Wait],
        answers: Callable[[Failures], list[Part]],
        deadlines: "Deadlines[CommitWait]",
        deadline: float,
    ) -> None:
        self._answers = answers
        self._failures: Failures = {}
        self._left = {partition for partition, _, _ in waits}
        self._deadlines = deadlines
        self.deferred = Deferred(self._abandoned)
        deadlines.add(self, deadline)
        for partition, end, committed in waits:
            if partition.is_under_min_isr:
                # Nothing more is committed there: it would be a wait for nothing.
                self._reached(partition, None)
            else:
                committed.when_reached(end, partial(self._reached, partition))

    def expire(self) -> None:
        """It took too long: the replicas may have the records later."""
        for partition in self._left:
            self._failures[partition] = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        self._left.clear()
        self._finish()

    def _reached(self, partition: HostedPartition, failure: Exception | None) -> None:
        if partition not in self._left:
            return
        self._left.discard(partition)
        if isinstance(failure, KafkaError):
            self._failures[partition] = failure
        elif partition.is_under_min_isr:
            self._failures[partition] = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        if not self._left:
            self._deadlines.discard(self)
            self._finish()

    def _finish(self) -> None:
        try:
            self.deferred.settle_soon(self._answers(self._failures))
        except Exception as problem:
            self.deferred.settle_soon(problem)

    def _abandoned(self) -> None:
        self._left.clear()
        self._deadlines.discard(self)
