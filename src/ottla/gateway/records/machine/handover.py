"""The records that a consumer has read, those that a caller got, and those that it is done with.

An answer may get lost, so records count as done only when the caller asks for more, or says so. What was read ahead
of the caller waits here, so that a small `max_bytes` costs no second fetch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from ottla.client.fetching.plan.record_batch import ConsumerRecord
from ottla.model import TopicPartition


class Handover:
    """The offsets of one consumer instance. Offsets are those of the next record, as they are committed."""

    def __init__(self) -> None:
        self._waiting: deque[ConsumerRecord] = deque()
        self._handed: dict[TopicPartition, int] = {}
        self._done: dict[TopicPartition, int] = {}

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    @property
    def handed(self) -> Mapping[TopicPartition, int]:
        """After all records that the caller got."""
        return dict(self._handed)

    @property
    def done(self) -> Mapping[TopicPartition, int]:
        """After the records that the caller is done with."""
        return dict(self._done)

    def confirm(self) -> None:
        """The caller asks for more: it is done with what it got."""
        self._done.update(self._handed)

    def read(self, records: Iterable[ConsumerRecord]) -> None:
        """The consumer has read records."""
        self._waiting.extend(records)

    def hand_out(self, max_bytes: int) -> list[ConsumerRecord]:
        """The next records for the caller: one at least if any waits, else as many as fit."""
        taken: list[ConsumerRecord] = []
        size_bytes = 0
        while self._waiting:
            record = self._waiting[0]
            size_bytes += len(record.key or b"") + len(record.value or b"")
            if taken and size_bytes > max_bytes:
                break
            taken.append(self._waiting.popleft())
        for record in taken:
            self._handed[TopicPartition(record.topic, record.partition)] = record.offset + 1
        return taken

    def take_back(self, records: list[ConsumerRecord], before: Mapping[TopicPartition, int]) -> None:
        """Records were not sent after all: they wait again, and `before` were the offsets handed out before them."""
        self._waiting.extendleft(reversed(records))
        self._handed = dict(before)

    def move(self, partition: TopicPartition) -> None:
        """The caller reads a partition from another place on."""
        self.drop([partition])

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions are read here no more."""
        gone = set(partitions)
        self._waiting = deque(each for each in self._waiting if (each.topic, each.partition) not in gone)
        for partition in gone:
            self._handed.pop(partition, None)
            self._done.pop(partition, None)
