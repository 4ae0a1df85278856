"""Whose records come next: partitions that have some take turns, a batch each.

Only partitions with something to hand out stand in the line, so that a thousand silent ones cost nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from ottla.client.fetching.plan.partition_reader import PartitionReader
from ottla.client.fetching.plan.record_batch import ConsumerRecord, RecordBatch
from ottla.errors import KafkaError
from ottla.model import TopicPartition


class Turns:
    """The line.

    `readers` are those that count; one that is not among them any more leaves the line when its turn comes.

    `on_error(reader)` is called when an error of it is raised: from then on it can be fetched again.
    """

    def __init__(
        self,
        readers: Mapping[TopicPartition, PartitionReader],
        on_error: Callable[[PartitionReader], None],
    ) -> None:
        self._readers = readers
        self._on_error = on_error
        self._line: deque[PartitionReader] = deque()
        self._waiting: set[PartitionReader] = set()

    def join(self, reader: PartitionReader) -> None:
        """This one has something: records, or an error."""
        if reader not in self._waiting:
            self._waiting.add(reader)
            self._line.append(reader)

    def front(self) -> PartitionReader | None:
        """The reader whose turn it is, with a batch open; raises the error that stands at its position."""
        try:
            return self._front()
        except KafkaError:
            self._on_error(self._line[0])
            raise

    def _front(self) -> PartitionReader | None:
        while self._line:
            reader = self._line[0]
            is_current = self._readers.get(reader.partition) is reader
            if is_current and not reader.is_paused and reader.opened() is not None:
                return reader
            self._waiting.discard(self._line.popleft())
        return None

    def next_turn(self) -> None:
        """Move the reader at the front to the end of the line."""
        self._line.rotate(-1)

    def take(self, limit: int) -> dict[PartitionReader, list[ConsumerRecord]]:
        """Up to `limit` records; those of a partition are in order."""
        taken: dict[PartitionReader, list[ConsumerRecord]] = {}
        while limit > 0:
            try:
                reader = self._front() if taken else self.front()
            except KafkaError as error:
                if not taken:
                    raise
                self._line[0].fail(error)  # the records that were taken come first
                break
            if reader is None:
                break
            records = reader.take(limit)
            taken.setdefault(reader, []).extend(records)
            limit -= len(records)
            self.next_turn()
        return taken

    def take_batch(self, limit: int) -> tuple[PartitionReader, RecordBatch] | None:
        """Up to `limit` records of one partition."""
        reader = self.front()
        batch = None if reader is None else reader.take_batch(limit)
        if reader is None or batch is None:
            return None
        self.next_turn()
        return reader, batch
