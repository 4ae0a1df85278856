"""The batches of one partition that wait or are on their way, in order.

Order is kept by one rule: only the oldest batch that is not done may be sent again, and alone. With idempotence, new batches
follow while others are on their way, for the broker sees to it that a batch is not written before the one it follows.
Without it, one batch is on its way at a time.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from ottla.client.idempotence import MOST_IN_FLIGHT, PartitionSequence, ProducerIdentity
from ottla.client.metadata import TopicPartition
from ottla.client.producer_batch import NO_SEQUENCE, ProducerBatch

NEVER: Final = float("inf")


class PartitionQueue:
    """`open` is the batch that takes records, if there is one; it is the last that waits."""

    __slots__ = ("_last_order", "in_flight", "must_reset", "open", "partition", "sequence", "waiting")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.open: ProducerBatch | None = None
        self.waiting: deque[ProducerBatch] = deque()
        self.in_flight: list[ProducerBatch] = []
        self.sequence = PartitionSequence()
        self.must_reset = False
        self._last_order = 0

    @property
    def is_idle(self) -> bool:
        return not self.waiting and not self.in_flight

    def begin(self, batch: ProducerBatch) -> None:
        """A new batch takes records from now on; the one before is closed."""
        self.close_open()
        self._last_order += 1
        batch.order = self._last_order
        self.open = batch
        self.waiting.append(batch)

    def close_open(self) -> None:
        """No more records into the open batch."""
        if self.open is not None:
            self.open.close()
            self.open = None

    def due_ms(self, linger_ms: float) -> float:
        """When the first batch that waits may be sent, as far as time decides; NEVER while something else must happen first."""
        if not self.waiting:
            return NEVER
        batch = self.waiting[0]
        if batch.is_closed or batch.attempts:
            return batch.not_before_ms
        return max(batch.not_before_ms, batch.created_ms + linger_ms)

    def may_send(self, *, is_idempotent: bool, is_acknowledged: bool) -> bool:
        """Whether the order of things allows the first batch that waits to be sent."""
        if not self.in_flight:
            return True
        if not is_idempotent:
            return not is_acknowledged
        is_again = self.waiting[0].first_sequence != NO_SEQUENCE
        return not is_again and not self.must_reset and len(self.in_flight) < MOST_IN_FLIGHT

    def take(self) -> ProducerBatch:
        """The first batch goes on its way."""
        batch = self.waiting.popleft()
        if batch is self.open:
            self.close_open()
        self.in_flight.append(batch)
        return batch

    def is_first(self, batch: ProducerBatch) -> bool:
        """Whether no earlier batch is still to be answered, or to be sent again."""
        return not any(
            each.order < batch.order and each.first_sequence != NO_SEQUENCE
            for each in (*self.in_flight, *self.waiting)
        )

    def put_back(self, *batches: ProducerBatch) -> None:
        """Batches will be sent again (or their parts, which have their order), in their place among those that wait."""
        order = batches[0].order
        place = next((i for i, each in enumerate(self.waiting) if each.order > order), len(self.waiting))
        for batch in reversed(batches):
            self.waiting.insert(place, batch)

    def settle(self, identity: ProducerIdentity | None) -> bool:
        """Begin anew if that is due and nothing is on its way; False if a new producer id is needed first."""
        if not self.in_flight:
            if self.must_reset:
                self.must_reset = False
                self.sequence.reset()
                for batch in self.waiting:
                    batch.first_sequence = NO_SEQUENCE
            if not self.sequence.has_identity and identity is not None:
                self.sequence.adopt(identity)
        return self.sequence.has_identity
