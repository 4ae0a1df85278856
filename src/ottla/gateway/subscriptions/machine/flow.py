"""How many records may be sent to a caller, which wait to be sent, and what can be committed.

Three ways hold a caller's records back:
- credits, if the caller gave any: each record takes one, and only a `credit` message brings more.
- else the window of a group: so many records may wait for their acknowledgement.
- else, without a group, nothing but the connection: what the caller does not take is not read.
In a group, the number of records without an acknowledgement has a limit in any case.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from ottla.client.fetching.plan.record_batch import ConsumerRecord
from ottla.gateway.subscriptions.machine.acknowledgements import Acknowledgements
from ottla.model import TopicPartition

WINDOW: Final = 500
# Of records that a caller with credits has not acknowledged: they are remembered here.
MOST_OPEN: Final = 10_000
BATCH: Final = 500


class Flow:
    """The records of one subscription."""

    def __init__(self, *, has_group: bool, credit: int | None) -> None:
        self._has_group = has_group
        self._credit = credit
        self._is_paused = False
        self._open = 0
        self._waiting: deque[ConsumerRecord] = deque()
        self._partitions: dict[TopicPartition, Acknowledgements] = {}
        self._committed: dict[TopicPartition, int] = {}

    @property
    def room(self) -> int:
        """How many records may be read for the caller now."""
        if self._is_paused:
            return 0
        limits = [BATCH]
        if self._has_group:
            limits.append((WINDOW if self._credit is None else MOST_OPEN) - self._open)
        if self._credit is not None:
            limits.append(self._credit)
        return max(0, min(limits) - len(self._waiting))

    def read(self, records: Iterable[ConsumerRecord]) -> None:
        """Records were read, and wait to be sent."""
        self._waiting.extend(records)

    def next(self) -> ConsumerRecord | None:
        """The next record to send; it counts as sent."""
        if not self._waiting or self._is_paused:
            return None
        record = self._waiting.popleft()
        if self._credit is not None:
            self._credit -= 1
        if self._has_group:
            place = TopicPartition(record.topic, record.partition)
            self._partitions.setdefault(place, Acknowledgements()).sent(record.offset)
            self._open += 1
        return record

    def take(self, most: int) -> list[ConsumerRecord]:
        """The next records to send; they count as sent."""
        taken: list[ConsumerRecord] = []
        while len(taken) < most and (record := self.next()) is not None:
            taken.append(record)
        return taken

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False

    def add_credit(self, count: int) -> None:
        """Raises ValueError if the subscription has no credits."""
        if self._credit is None:
            raise ValueError("this subscription has no credits: give some in the subscribe message")
        self._credit += count

    def acknowledge(self, partition: TopicPartition, offset: int, *, up_to: bool) -> None:
        """A record is done. Without a group there is nothing to remember. Raises ValueError."""
        if not self._has_group:
            return
        known = self._partitions.get(partition)
        if known is None:
            raise ValueError(f"no record of {partition} is waiting for an acknowledgement")
        self._open -= known.acknowledge(offset, up_to=up_to)

    def to_commit(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """The offsets that have moved since they were committed last: of these partitions, or of all."""
        wanted = set(self._partitions if partitions is None else partitions)
        return {
            place: known.done
            for place, known in self._partitions.items()
            if place in wanted and known.done is not None and self._committed.get(place) != known.done
        }

    def committed(self, offsets: dict[TopicPartition, int]) -> None:
        self._committed.update(offsets)

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions are not read here any more, or from another place on."""
        gone = set(partitions)
        self._waiting = deque(each for each in self._waiting if (each.topic, each.partition) not in gone)
        for place in gone:
            self._committed.pop(place, None)
            known = self._partitions.pop(place, None)
            self._open -= 0 if known is None else known.unacknowledged
