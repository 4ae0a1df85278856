"""A log as a list of (offset, epoch, value): what replication needs of one, and what tests can compare."""

from typing import NamedTuple

from ottla.model import EpochEnd


class Entry(NamedTuple):
    offset: int
    epoch: int
    value: int


class ModelLog:
    """A LogView over a list."""

    def __init__(self, entries: list[Entry] | None = None, *, start: int = 0) -> None:
        self.entries = entries or []
        self.log_start_offset = start
        self.log_end_offset = self.entries[-1].offset + 1 if self.entries else start

    @classmethod
    def of(cls, *runs: tuple[int, int], start: int = 0) -> "ModelLog":
        """A log of runs (epoch, how many records)."""
        entries: list[Entry] = []
        for epoch, count in runs:
            entries += [Entry(start + len(entries) + number, epoch, 0) for number in range(count)]
        return cls(entries, start=start)

    @property
    def latest_epoch(self) -> int:
        return self.entries[-1].epoch if self.entries else -1

    def end_offset_for(self, epoch: int) -> EpochEnd:
        if not self.entries or epoch > self.latest_epoch or epoch < 0:
            return EpochEnd(-1, -1)
        if epoch == self.latest_epoch:
            return EpochEnd(epoch, self.log_end_offset)
        older = [entry.epoch for entry in self.entries if entry.epoch <= epoch]
        following = next(entry.offset for entry in self.entries if entry.epoch > epoch)
        return EpochEnd(older[-1] if older else epoch, following)

    def append(self, epoch: int, value: int) -> None:
        self.entries.append(Entry(self.log_end_offset, epoch, value))
        self.log_end_offset += 1

    def truncate_to(self, offset: int) -> None:
        self.entries = [entry for entry in self.entries if entry.offset < offset]
        self.log_end_offset = min(self.log_end_offset, offset)
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)

    def advance_start(self, offset: int) -> None:
        self.log_start_offset = max(self.log_start_offset, min(offset, self.log_end_offset))
        self.entries = [entry for entry in self.entries if entry.offset >= self.log_start_offset]
