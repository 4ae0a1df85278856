"""What clients were told: records sent, acknowledged and read, offsets committed.

A contradiction is noted in `broken` as soon as it is seen.
"""

from collections import defaultdict
from dataclasses import dataclass

Partition = tuple[str, int]


@dataclass(slots=True)
class Sent:
    """One record on its way. `known_end` is the end of the partition that somebody had seen when it was sent."""

    partition: Partition
    writer: str
    number: int
    known_end: int
    offset: int | None = None
    is_failed: bool = False


class Ledger:
    """One for a story. Records are told apart by their values."""

    def __init__(self) -> None:
        self.sent: dict[str, Sent] = {}
        self.values: dict[Partition, dict[int, str]] = defaultdict(dict)
        self.acknowledged: dict[Partition, dict[int, str]] = defaultdict(dict)
        self.processed: dict[tuple[str, Partition], dict[int, None]] = defaultdict(dict)
        self.committed: dict[tuple[str, Partition], int] = {}
        self.known_end: dict[Partition, int] = defaultdict(int)
        self.counts: dict[str, int] = defaultdict(int)
        self.broken: list[str] = []

    def send(self, writer: str, number: int, partition: Partition) -> str:
        """A record that a writer is about to send; its value."""
        value = f"{writer}/{number}"
        self.sent[value] = Sent(partition, writer, number, self.known_end[partition])
        self.counts["sent"] += 1
        return value

    def acknowledge(self, value: str, offset: int) -> None:
        """The record was acknowledged at an offset."""
        sent = self.sent[value]
        if offset < sent.known_end:
            self.broken.append(
                f"{value} was acknowledged at {offset} of {sent.partition}, "
                f"whose end was {sent.known_end} when it was sent"
            )
        sent.offset = offset
        self.counts["acknowledged"] += 1
        self._put(sent.partition, offset, value, "acknowledged")
        self.acknowledged[sent.partition][offset] = value

    def fail(self, value: str) -> None:
        """The writer gave up; the record may be there or not."""
        self.sent[value].is_failed = True
        self.counts["failed"] += 1

    def read(self, partition: Partition, offset: int, value: str) -> None:
        """Somebody read a record."""
        self.counts["read"] += 1
        self._put(partition, offset, value, "read")

    def process(self, group: str, partition: Partition, offset: int, value: str) -> None:
        """A member of a group read a record, and will commit it."""
        self.read(partition, offset, value)
        self.processed[group, partition][offset] = None

    def commit(self, group: str, partition: Partition, offset: int) -> None:
        """A commit was acknowledged."""
        self.counts["commits"] += 1
        key = group, partition
        self.committed[key] = max(self.committed.get(key, 0), offset)

    def _put(self, partition: Partition, offset: int, value: str, how: str) -> None:
        known = self.values[partition].setdefault(offset, value)
        if known != value:
            self.broken.append(
                f"{partition} offset {offset}: {value} was {how}, and {known} was seen there before"
            )
        self.known_end[partition] = max(self.known_end[partition], offset + 1)
