"""The committed offsets of one group, as its log has them.

An offset that was committed within a transaction is pending until the transaction's marker: a commit marker
puts the offset in force, an abort marker forgets it.

    later in the log than a pending offset     until the marker      after a commit marker
    a commit without transaction               in force              stays in force
    an offset of another transaction           both are pending      of those committed, the later in the log
    an offset of the same transaction          replaces the former   in force
    a tombstone                                nothing is pending    nothing is in force

The order of the records decides, not the order of the markers: compaction keeps the last record of a key, and a
coordinator that loads a compacted log must find the same offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.group.records import OffsetCommitValue

Offsets = dict[str, dict[int, OffsetCommitValue]]


class PendingOffset(NamedTuple):
    """An offset of an open transaction: its place among the group's commits in the log, and its value.

    The value is None where an offset with a later place is in force.
    """

    place: int
    value: OffsetCommitValue | None


class CommittedOffsets:
    """By topic and partition."""

    __slots__ = ("_committed", "_pending", "_places")

    def __init__(self) -> None:
        self._committed: Offsets = {}
        self._pending: dict[int, dict[tuple[str, int], PendingOffset]] = {}  # by producer
        self._places = 0

    @property
    def is_empty(self) -> bool:
        return not self._committed and not self._pending

    @property
    def has_pending(self) -> bool:
        """Whether a transaction with offsets of this group is open."""
        return bool(self._pending)

    @property
    def count(self) -> int:
        """How many partitions have an offset in force."""
        return sum(map(len, self._committed.values()))

    def get(self, topic: str, partition: int) -> OffsetCommitValue | None:
        return self._committed.get(topic, {}).get(partition)

    def items(self) -> Iterator[tuple[str, int, OffsetCommitValue]]:
        """Every offset in force."""
        for topic, partitions in self._committed.items():
            for partition, value in partitions.items():
                yield topic, partition, value

    def topics(self) -> dict[str, list[int]]:
        """The topics that have an offset in force, each with its partitions."""
        return {topic: list(partitions) for topic, partitions in self._committed.items()}

    def partitions(self) -> set[tuple[str, int]]:
        """Every partition that has an offset, in force or pending."""
        return {(topic, partition) for topic, partition, _ in self.items()}.union(*self._pending.values())

    def partitions_of(self, topic: str) -> list[int]:
        """The partitions of a topic that have an offset, in force or pending."""
        pending = {partition for held in self._pending.values() for name, partition in held if name == topic}
        return sorted(pending.union(self._committed.get(topic, ())))

    def is_pending(self, topic: str, partition: int) -> bool:
        """Whether an open transaction has an offset for this partition (KIP-447)."""
        return bool(self._pending) and any((topic, partition) in held for held in self._pending.values())

    def replay(self, topic: str, partition: int, value: OffsetCommitValue | None) -> None:
        """Take over an offset that was committed without a transaction, or a tombstone."""
        self._places += 1
        if value is not None:
            self._put_in_force(topic, partition, value, self._places)
        else:
            self._forget(topic, partition)

    def replay_pending(self, producer_id: int, topic: str, partition: int, value: OffsetCommitValue) -> None:
        """Take over an offset of a producer's open transaction."""
        self._places += 1
        pending = PendingOffset(self._places, value)
        self._pending.setdefault(producer_id, {})[topic, partition] = pending

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """A producer's transaction ended: its pending offsets are in force now, or forgotten."""
        for (topic, partition), (place, value) in self._pending.pop(producer_id, {}).items():
            if is_commit and value is not None:
                self._put_in_force(topic, partition, value, place)

    def _put_in_force(self, topic: str, partition: int, value: OffsetCommitValue, place: int) -> None:
        self._committed.setdefault(topic, {})[partition] = value
        for held in self._pending.values():
            pending = held.get((topic, partition))
            if pending is not None and pending.place < place:
                held[topic, partition] = PendingOffset(pending.place, None)

    def _forget(self, topic: str, partition: int) -> None:
        if topic in self._committed:
            self._committed[topic].pop(partition, None)
            if not self._committed[topic]:
                del self._committed[topic]
        for producer_id, held in list(self._pending.items()):
            held.pop((topic, partition), None)
            if not held:
                del self._pending[producer_id]
