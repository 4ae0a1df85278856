"""The batches of a producer that are not done, and the bytes of all of them.

A batch is entered when it begins, and leaves when its records are done in any way. Finished batches are
handed out once, so that their senders can be informed.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.client.producer.machine.batch import ProducerBatch, record_bytes
from ottla.client.producer.machine.delivery_report import Failure


class Ledger:
    """Batches are entered in order, and `incomplete` keeps that order."""

    __slots__ = ("_done", "buffered_bytes", "incomplete")

    def __init__(self) -> None:
        self.buffered_bytes = 0
        self.incomplete: dict[ProducerBatch, None] = {}
        self._done: list[ProducerBatch] = []

    def enter(self, batch: ProducerBatch) -> None:
        """Enter a new batch, with the bytes that it holds already."""
        self.incomplete[batch] = None
        self.hold(batch, batch.size_bytes)

    def hold(self, batch: ProducerBatch, size_bytes: int) -> None:
        """Reserve room in the buffer for a batch."""
        self.buffered_bytes += size_bytes - batch.held_bytes
        batch.held_bytes = size_bytes

    def deliver(self, batch: ProducerBatch, base_offset: int, log_append_time_ms: int) -> None:
        """The batch is in the log."""
        self._leave(batch, batch.succeed(base_offset, log_append_time_ms))

    def fail(self, batch: ProducerBatch, failure: Failure) -> None:
        """The batch will not be delivered."""
        self._leave(batch, batch.fail(failure))

    def move(self, batch: ProducerBatch, places: list[tuple[ProducerBatch, int]]) -> None:
        """The records of a batch are in others now, which have been entered."""
        batch.move(places)
        self.hold(batch, 0)

    def divide(self, batch: ProducerBatch, groups: Sequence[Sequence[int]]) -> list[ProducerBatch]:
        """Closed batches with these records each, instead of the one that had all."""
        places: dict[int, tuple[ProducerBatch, int]] = {}
        parts: list[ProducerBatch] = []
        for number, group in enumerate(groups):
            part = batch.part(number)
            for index in group:
                value, key, headers, timestamp_ms = batch.fields(index)
                size = record_bytes(value, key, headers)
                places[index] = part, part.append(value, key, headers, timestamp_ms, size)
            self.enter(part)
            parts.append(part)
        self.move(batch, [places[index] for index in range(len(batch))])
        return parts

    @property
    def has_done(self) -> bool:
        """Whether batches have left since `take_done` was called."""
        return bool(self._done)

    def take_done(self) -> list[ProducerBatch]:
        """The batches that have left since the last call."""
        done, self._done = self._done, []
        return done

    def _leave(self, batch: ProducerBatch, ended: list[ProducerBatch]) -> None:
        self.hold(batch, 0)
        for each in ended:
            self.incomplete.pop(each, None)
        self._done += ended
