"""What clients were told: records sent, acknowledged and read, offsets committed.

A contradiction is noted in `broken` as soon as it is seen.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.simulation.stories.copies import Copies

Partition = tuple[str, int]
_PADDINGS = (0, 0, 3, 40, 40, 200, 1200)


class Promise(Enum):
    """What a producer's settings promise for an acknowledged record."""

    ONCE = "idempotent, acks=all: there, once, in order"
    KEPT = "acks=all without idempotence: there, perhaps twice"
    NONE = "acks=1 or 0: perhaps there"


@dataclass(slots=True)
class Sent:
    """One record on its way. `known_end` is the end of the partition that somebody had seen when it was sent."""

    partition: Partition
    writer: str
    number: int
    known_end: int
    promise: Promise
    is_after_healing: bool = False
    lives: tuple[int, ...] = ()
    offset: int | None = None
    is_failed: bool = False
    is_told: bool = False


class Content(NamedTuple):
    """What a record holds: other parts for each name, so that any change is seen."""

    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...]


def content_of(name: str, keys: int = 0) -> Content:
    """The content of a record; one of `keys` keys, or sometimes none."""
    number = int(name.rpartition("/")[2])
    key = f"k{number % (keys or 5)}".encode() if keys or number % 3 else None
    headers = (("from", name.encode()), ("empty", b"")) if number % 4 == 0 else ()
    return Content(key, f"{name}~{'x' * _PADDINGS[number % 7]}".encode(), headers)


def name_of(value: bytes | None) -> str:
    """The name of the record that a value belongs to."""
    return (value or b"").partition(b"~")[0].decode(errors="replace")


class Ledger:
    """One for a story. Records are told apart by their names; `keys` says which topics are compacted."""

    def __init__(self, keys: Mapping[str, int] | None = None) -> None:
        self.keys = keys or {}
        self.sent: dict[str, Sent] = {}
        self.contents: dict[str, Content] = {}
        self.names: dict[Partition, dict[int, str]] = defaultdict(dict)
        self.acknowledged: dict[Partition, dict[int, str]] = defaultdict(dict)
        self.processed: dict[tuple[str, Partition], dict[int, None]] = defaultdict(dict)
        self.committed: dict[tuple[str, Partition], int] = {}
        self.doubtful: dict[tuple[str, Partition], dict[int, int]] = defaultdict(dict)
        self.known_end: dict[Partition, int] = defaultdict(int)
        self.told: dict[tuple[str, Partition], int] = {}
        self.copies: Copies | None = None
        self.is_healed = False
        self.counts: dict[str, int] = defaultdict(int)
        self.broken: list[str] = []

    # ---- records

    def send(self, writer: str, number: int, partition: Partition, promise: Promise) -> tuple[str, Content]:
        """A record that a writer is about to send: its name and its content."""
        name = f"{writer}/{number}"
        lives = self.copies.lives() if self.copies is not None else ()
        known_end = self.known_end[partition]
        self.sent[name] = Sent(partition, writer, number, known_end, promise, self.is_healed, lives)
        self.counts["sent"] += 1
        content = self.contents[name] = content_of(name, self.keys.get(partition[0], 0))
        return name, content

    def acknowledge(self, name: str, offset: int) -> None:
        """The record was acknowledged at an offset."""
        sent = self.sent[name]
        sent.is_told = True
        self.counts["acknowledged"] += 1
        if sent.promise is Promise.NONE:
            return
        if offset < sent.known_end:
            self.broken.append(
                f"{name} was acknowledged at {offset} of {sent.partition}, "
                f"whose end was {sent.known_end} when it was sent"
            )
        sent.offset = offset
        self._put(sent.partition, offset, name, "acknowledged")
        self.acknowledged[sent.partition][offset] = name
        if self.copies is not None:
            problem = self.copies.problem(sent.partition, offset, name, sent.lives)
            self.broken += [problem] if problem is not None else []

    def fail(self, name: str) -> None:
        """The writer gave up; the record may be there or not."""
        sent = self.sent[name]
        sent.is_failed = sent.is_told = True
        self.counts["failed"] += 1
        if sent.is_after_healing:
            self.broken.append(f"{sent.partition}: {name} was sent after everything was healed, and failed")

    def healed(self) -> None:
        """Everything is healed: from now on no record may fail."""
        self.is_healed = True

    def closed(self, writer: str) -> None:
        """A writer closed its producer in peace: it was told what became of each of its records."""
        for name, sent in self.sent.items():
            if sent.writer == writer and not sent.is_told:
                self.broken.append(f"{sent.partition}: the writer of {name} was not told what became of it")

    def read(self, partition: Partition, offset: int, content: Content) -> None:
        """Somebody read a record."""
        self.counts["read"] += 1
        name = name_of(content.value)
        if content != self.contents.get(name):
            self.broken.append(f"{partition} offset {offset}: {content} was read, and never sent")
        self._put(partition, offset, name, "read")

    def skipped(self, who: str, partition: Partition, expected: int, offset: int) -> None:
        """A reader was handed a record that is not the next one."""
        if partition[0] not in self.keys or offset < expected:
            self.broken.append(f"{who} was given offset {offset} of {partition} after {expected - 1}")

    def begins(self, group: str, partition: Partition, promised: int, offset: int) -> None:
        """A member begins to read at an offset; `promised` was committed when it was given the partition."""
        if offset >= promised:
            return
        if not self.doubtful[group, partition].get(offset):
            self.broken.append(
                f"{group} of {partition}: {promised} was committed, and a member began at {offset}"
            )
        self.committed[group, partition] = min(offset, self.committed.get((group, partition), 0))

    def process(self, group: str, partition: Partition, offset: int, content: Content) -> None:
        """A member of a group read a record, and will commit it."""
        self.read(partition, offset, content)
        self.processed[group, partition][offset] = None

    # ---- commits

    def begin_commit(self, group: str, offsets: Mapping[Partition, int]) -> dict[Partition, int]:
        """A member begins to commit; what is committed now. Until it is sure of the end, a copy may arrive late."""
        for partition, offset in offsets.items():
            under_way = self.doubtful[group, partition]
            under_way[offset] = under_way.get(offset, 0) + 1
        return {partition: self.committed.get((group, partition), 0) for partition in offsets}

    def commit(
        self, group: str, offsets: Mapping[Partition, int], before: Mapping[Partition, int], *, is_sure: bool
    ) -> None:
        """A commit was acknowledged; it is sure if the request was sent once only. `before` is what was committed
        when the member asked for it.
        """
        for partition, offset in offsets.items():
            self.counts["commits"] += 1
            key = group, partition
            if offset < before[partition]:
                self.broken.append(
                    f"{group} of {partition}: {before[partition]} was committed, and then {offset} was taken"
                )
            self.committed[key] = max(self.committed.get(key, 0), offset)
            if is_sure:
                self.doubtful[key][offset] -= 1

    def told_committed(self, group: str, partition: Partition, promised: int, told: int) -> None:
        """A coordinator named a committed offset; `promised` was acknowledged before it was asked."""
        self.counts["offsets asked"] += 1
        self.told[group, partition] = told
        if told < promised and not self.doubtful[group, partition].get(told):
            self.broken.append(
                f"{group} of {partition}: {promised} was committed, and the coordinator said {told}"
            )

    def _put(self, partition: Partition, offset: int, name: str, how: str) -> None:
        known = self.names[partition].setdefault(offset, name)
        if known != name:
            self.broken.append(
                f"{partition} offset {offset}: {name} was {how}, and {known} was seen there before"
            )
        self.known_end[partition] = max(self.known_end[partition], offset + 1)
