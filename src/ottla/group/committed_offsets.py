"""The committed offsets of one group, as its log has them.

Offsets that were committed within a transaction are pending until it ends: then they count, or never did. A
commit that came into the log after them stays in force whatever becomes of the transaction.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.group.records import OffsetCommitValue

Offsets = dict[str, dict[int, OffsetCommitValue]]


class CommittedOffsets:
    """By topic and partition."""

    __slots__ = ("_committed", "_pending")

    def __init__(self) -> None:
        self._committed: Offsets = {}
        # By producer: what its open transaction will commit; None where a later commit overtook it.
        self._pending: dict[int, dict[tuple[str, int], OffsetCommitValue | None]] = {}

    @property
    def is_empty(self) -> bool:
        return not self._committed and not self._pending

    @property
    def has_pending(self) -> bool:
        """Whether a transaction with offsets of this group is open."""
        return bool(self._pending)

    @property
    def count(self) -> int:
        """How many partitions have an offset."""
        return sum(map(len, self._committed.values()))

    def get(self, topic: str, partition: int) -> OffsetCommitValue | None:
        return self._committed.get(topic, {}).get(partition)

    def items(self) -> Iterator[tuple[str, int, OffsetCommitValue]]:
        """Every committed offset."""
        for topic, partitions in self._committed.items():
            for partition, value in partitions.items():
                yield topic, partition, value

    def topics(self) -> dict[str, list[int]]:
        """The topics that have an offset, each with its partitions."""
        return {topic: list(partitions) for topic, partitions in self._committed.items()}

    def is_pending(self, topic: str, partition: int) -> bool:
        """Whether an open transaction may still change this offset (KIP-447)."""
        return bool(self._pending) and any((topic, partition) in held for held in self._pending.values())

    def partitions_of(self, topic: str) -> list[int]:
        """The partitions of a topic that have an offset, committed or pending."""
        pending = {held[1] for holder in self._pending.values() for held in holder if held[0] == topic}
        return sorted(pending.union(self._committed.get(topic, ())))

    def replay(self, topic: str, partition: int, value: OffsetCommitValue | None) -> None:
        """Take over a committed offset, or its tombstone."""
        for held in self._pending.values():
            if (topic, partition) in held:
                held[topic, partition] = None
        if value is not None:
            self._committed.setdefault(topic, {})[partition] = value
        elif topic in self._committed:
            self._committed[topic].pop(partition, None)
            if not self._committed[topic]:
                del self._committed[topic]

    def replay_pending(self, producer_id: int, topic: str, partition: int, value: OffsetCommitValue) -> None:
        """Take over an offset that counts if a producer's transaction is committed."""
        self._pending.setdefault(producer_id, {})[topic, partition] = value

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """A producer's transaction ended: what was pending counts now, or is forgotten."""
        for (topic, partition), value in self._pending.pop(producer_id, {}).items():
            if is_commit and value is not None:
                self.replay(topic, partition, value)
