"""Which record may be processed next, and up to which offset a partition is done. Pure.

Records wait in lanes: those of one lane are processed one after the other, in the order of their offsets;
lanes are processed at the same time. The order that the application wants defines a lane:

    "partition"   all records of a partition: first in, first out
    "key"         the records of a partition that have the same key; records without a key have a lane each
    "none"        each record has a lane of its own

Rules
- A partition is done up to its first record that is not finished, however many later ones are finished.
- Waiting records can be dropped, when a partition goes to another member; they then count as not finished.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ottla.client.fetching.plan.record_batch import ConsumerRecord
from ottla.model import TopicPartition

Order: TypeAlias = Literal["partition", "key", "none"]


@dataclass(slots=True)
class _Progress:
    """The records of one partition that were taken on, in order, from the first that is not finished."""

    offsets: deque[int] = field(default_factory=deque)
    finished: set[int] = field(default_factory=set)

    def finish(self, offset: int) -> None:
        self.finished.add(offset)
        while self.offsets and self.offsets[0] in self.finished:
            self.finished.discard(self.offsets.popleft())


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A record that may be, or is being, worked on."""

    record: ConsumerRecord
    lane: Hashable
    progress: _Progress

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition(self.record.topic, self.record.partition)


class ProcessingPlan:
    """The records that wait, that are processed, and that are done."""

    def __init__(self, order: Order, *, most_running: int) -> None:
        self._order = order
        self._most_running = most_running
        self._ready: deque[Work] = deque()  # whose lane is free
        self._lanes: dict[Hashable, deque[Work]] = {}  # of busy lanes: the records that wait
        self._running: set[Work] = set()
        self._progress: dict[TopicPartition, _Progress] = {}
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """How many records were taken on and not begun."""
        return self._waiting

    @property
    def running(self) -> int:
        return len(self._running)

    def add(self, records: Iterable[ConsumerRecord]) -> None:
        """Take records on; those of a partition in order."""
        for record in records:
            progress = self._progress.setdefault(TopicPartition(record.topic, record.partition), _Progress())
            progress.offsets.append(record.offset)
            work = Work(record, self._lane_of(record), progress)
            line = self._lanes.get(work.lane)
            if line is None:
                self._lanes[work.lane] = deque()
                self._ready.append(work)
            else:
                line.append(work)
            self._waiting += 1

    def begin(self) -> Iterator[Work]:
        """The records that are worked on from now on, as many as may be."""
        while self._ready and len(self._running) < self._most_running:
            work = self._ready.popleft()
            self._running.add(work)
            self._waiting -= 1
            yield work

    def finish(self, work: Work, *, is_done: bool = True) -> None:
        """A record is not processed any more; if it is not done, no later record of the partition counts."""
        self._running.discard(work)
        if is_done:
            work.progress.finish(work.record.offset)
        line = self._lanes[work.lane]
        if line:
            self._ready.append(line.popleft())
        else:
            del self._lanes[work.lane]

    def unfinished(self, partition: TopicPartition) -> int | None:
        """The first offset that is not done; None if all that was taken on is done."""
        progress = self._progress.get(partition)
        return progress.offsets[0] if progress is not None and progress.offsets else None

    def running_of(self, partitions: frozenset[TopicPartition]) -> list[Work]:
        return [work for work in self._running if work.partition in partitions]

    def waiting_of(self, partitions: frozenset[TopicPartition]) -> int:
        """How many records of these partitions wait."""
        behind = (work for line in self._lanes.values() for work in line)
        return sum(work.partition in partitions for line in (self._ready, behind) for work in line)

    def drop_waiting(self, partitions: frozenset[TopicPartition]) -> None:
        """Do not begin the waiting records of these partitions."""
        for line in (self._ready, *self._lanes.values()):
            kept = [work for work in line if work.partition not in partitions]
            self._waiting -= len(line) - len(kept)
            line.clear()
            line.extend(kept)
        occupied = {work.lane for work in (*self._ready, *self._running)}
        self._lanes = {lane: line for lane, line in self._lanes.items() if lane in occupied}

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Other members have these partitions: records that are finished later do not count."""
        for partition in partitions:
            self._progress.pop(partition, None)

    def _lane_of(self, record: ConsumerRecord) -> Hashable:
        if self._order == "partition":
            return record.topic, record.partition
        if self._order == "key" and record.key is not None:
            return record.topic, record.partition, record.key
        return record.topic, record.partition, record.offset
