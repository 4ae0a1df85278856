"""The batches of one partition that wait or are on their way, in order.

Order is kept by these rules:
- Only the oldest batch that is not done may be sent again, and alone.
- With idempotence, new batches follow while others are on their way: the broker does not write a batch before
  the one it follows. But it must know the producer for that. One that it does not know it takes with any
  sequence, so the first batch of an epoch, and the first after a long silence (brokers forget), goes alone.
  And it must know a batch again that is sent again: no more batches follow one that is not done than the
  broker remembers.
- Without idempotence, one batch is on its way at a time.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from ottla.client.producer.machine.batch import ProducerBatch
from ottla.client.producer.machine.idempotence import BATCHES_REMEMBERED, PartitionSequence, ProducerIdentity
from ottla.model import NO_SEQUENCE, TopicPartition

NEVER: Final = float("inf")
# Brokers keep the state of a producer for a day by default; an administrator may set less.
SILENCE_MS: Final = 60_000


class PartitionQueue:
    """`open` is the batch that takes records, if there is one; it is the last that waits."""

    __slots__ = (
        "_goes_alone",
        "_heard_ms",
        "_last_order",
        "_must_renew",
        "_reset_order",
        "in_flight",
        "most_bytes",
        "open",
        "partition",
        "sequence",
        "waiting",
    )

    def __init__(self, partition: TopicPartition, most_bytes: int) -> None:
        self.partition = partition
        self.most_bytes = most_bytes  # in a batch
        self.open: ProducerBatch | None = None
        self.waiting: deque[ProducerBatch] = deque()
        self.in_flight: list[ProducerBatch] = []
        self.sequence = PartitionSequence()
        self._reset_order: tuple[int, ...] | None = None
        self._must_renew = False
        self._last_order = 0
        self._heard_ms = -NEVER  # when the broker last took a batch of this epoch
        self._goes_alone = True

    @property
    def is_idle(self) -> bool:
        return not self.waiting and not self.in_flight

    @property
    def has_gap(self) -> bool:
        """Whether a batch was refused, and later ones cannot be written with the numbers of this epoch."""
        return self._reset_order is not None

    def begin(self, batch: ProducerBatch) -> None:
        """A new batch takes records from now on; the one before is closed."""
        self.close_open()
        self._last_order += 1
        batch.order = (self._last_order,)
        self.open = batch
        self.waiting.append(batch)

    def close_open(self) -> None:
        """No more records into the open batch."""
        if self.open is not None:
            self.open.close()
            self.open = None

    def due_ms(self, linger_ms: float) -> float:
        """When the first waiting batch may be sent; NEVER while that does not depend on time."""
        if not self.waiting:
            return NEVER
        batch = self.waiting[0]
        if batch.is_closed or batch.attempts or (batch.is_urgent and not self.in_flight):
            return batch.not_before_ms
        return max(batch.not_before_ms, batch.created_ms + linger_ms)

    def may_send(self, *, is_idempotent: bool, is_acknowledged: bool) -> bool:
        """Whether the order of things allows the first batch that waits to be sent."""
        if not self.in_flight:
            return True
        if not is_idempotent:
            return not is_acknowledged
        is_again = self.waiting[0].first_sequence != NO_SEQUENCE
        if is_again or self._goes_alone or self._reset_order is not None:
            return False
        oldest = min(batch.place for batch in self.in_flight)
        return self.sequence.batches_count - oldest < BATCHES_REMEMBERED

    def take(self, now_ms: float) -> ProducerBatch:
        """Move the first waiting batch to those under way."""
        if not self.in_flight:
            self._goes_alone = now_ms - self._heard_ms > SILENCE_MS
        batch = self.waiting.popleft()
        if batch is self.open:
            self.close_open()
        self.in_flight.append(batch)
        return batch

    def heard(self, now_ms: float) -> None:
        """The broker took a batch: it knows the producer now."""
        self._heard_ms, self._goes_alone = now_ms, False

    def is_first(self, batch: ProducerBatch) -> bool:
        """Whether no earlier batch is still to be answered, or to be sent again."""
        return not any(
            each.order < batch.order and each.first_sequence != NO_SEQUENCE
            for each in (*self.in_flight, *self.waiting)
        )

    def put_back(self, *batches: ProducerBatch) -> None:
        """Put batches that will be sent again (or their parts) back in their place among the waiting ones."""
        order = batches[0].order
        place = next((i for i, each in enumerate(self.waiting) if each.order > order), len(self.waiting))
        for batch in reversed(batches):
            self.waiting.insert(place, batch)

    def reset_from(self, batch: ProducerBatch, *, with_new_id: bool = False) -> None:
        """This batch was not written, and later ones cannot be: all of them need new sequence numbers."""
        if self._reset_order is None or batch.order < self._reset_order:
            self._reset_order = batch.order
        self._must_renew = self._must_renew or with_new_id

    def settle(self, identity: ProducerIdentity | None) -> bool:
        """Reset the sequence if that is due; False if a new producer id is needed first.

        A reset is due when no batch is under way, and when the batches before the gap are done: those may
        have been written, and the broker recognizes them only by their old numbers.
        """
        if self.in_flight or self._has_numbered_before(self._reset_order):
            return self.sequence.has_identity
        if self._reset_order is not None:
            self._begin_anew()
        if identity is not None and not (self.sequence.has_identity or self.sequence.has_spent(identity)):
            self.sequence.adopt(identity)
            self._heard_ms = -NEVER
        return self.sequence.has_identity

    def restart(self, heard_ms: float) -> None:
        """Count from 0 with the next identity; every batch of the one before is done.

        `heard_ms` is the present time if brokers refuse the second batch of a producer that they do not know,
        so that batches may follow each other at once; otherwise it lies far back.
        """
        self.sequence = PartitionSequence()
        self._reset_order, self._must_renew, self._heard_ms = None, False, heard_ms

    def _has_numbered_before(self, order: tuple[int, ...] | None) -> bool:
        """Whether a batch that comes before this place is to be sent again."""
        if order is None:
            return False
        return any(each.first_sequence != NO_SEQUENCE and each.order < order for each in self.waiting)

    def _begin_anew(self) -> None:
        if self._must_renew:
            self.sequence.forget()
        else:
            self.sequence.reset()
        self._reset_order, self._must_renew, self._heard_ms = None, False, -NEVER
        for batch in self.waiting:
            batch.first_sequence = NO_SEQUENCE
