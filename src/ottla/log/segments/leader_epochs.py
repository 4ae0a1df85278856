"""Which leader epoch began at which offset: `leader-epoch-checkpoint`.

Epochs and start offsets rise strictly. The file is written whenever an epoch begins, but made durable only
with the next flush: until then the unflushed batches, which recovery reads anyway, hold the same information.
"""

from bisect import bisect_right

from ottla.log.files.checkpoint import CheckpointError, parse_pairs, render_lines
from ottla.model import NO_EPOCH, NO_OFFSET, EpochEnd
from ottla.runtime.disk import Disk


class LeaderEpochs:
    """The epochs of one log, oldest first."""

    __slots__ = (
        "_disk",
        "_durable_version",
        "_epochs",
        "_path",
        "_starts",
        "_written_version",
        "latest",
        "version",
    )

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest = NO_EPOCH
        # Counts the changes. The file holds the written version; after a power loss at least the durable one.
        self.version = 0
        self._written_version = 0
        self._durable_version = 0

    @classmethod
    def load(cls, disk: Disk, path: str) -> "LeaderEpochs":
        """Read the file; CheckpointError if it cannot be read or its entries do not rise."""
        epochs = cls(disk, path)
        epochs._restore(parse_pairs(disk.read(path)))
        return epochs

    def _restore(self, pairs: list[tuple[int, int]]) -> None:
        for epoch, start_offset in pairs:
            if epoch <= self.latest or (self._starts and start_offset <= self._starts[-1]):
                raise CheckpointError(f"epoch {epoch} at {start_offset} does not rise in {self._path}")
            self._add(epoch, start_offset)
        self._written_version = self._durable_version = self.version

    @property
    def is_durable(self) -> bool:
        return self._durable_version == self.version

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    @property
    def latest_start(self) -> int | None:
        """The start offset of the latest epoch; None without one."""
        return self._starts[-1] if self._starts else None

    def assign(self, epoch: int, start_offset: int) -> None:
        """Begin a new epoch at `start_offset`. An epoch that is not newer changes nothing."""
        if epoch <= self.latest:
            return
        # An epoch without a record ends where it began: the new one replaces it.
        while self._starts and self._starts[-1] >= start_offset:
            self._epochs.pop()
            self._starts.pop()
        self._add(epoch, start_offset)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The largest epoch that is at most `epoch`, and its end offset; (-1, -1) if that is unknown."""
        if epoch == NO_EPOCH or not self._epochs:
            return EpochEnd(NO_EPOCH, NO_OFFSET)
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        following = bisect_right(self._epochs, epoch)
        if following == len(self._epochs):
            return EpochEnd(NO_EPOCH, NO_OFFSET)
        if following == 0:
            # Older than all known epochs: it ended before the first known one began.
            return EpochEnd(epoch, self._starts[0])
        return EpochEnd(self._epochs[following - 1], self._starts[following])

    def epoch_at(self, offset: int) -> int:
        """The epoch in which the record at `offset` was written; -1 if that is unknown."""
        number = bisect_right(self._starts, offset) - 1
        return self._epochs[number] if number >= 0 else NO_EPOCH

    def truncate_from_end(self, offset: int) -> None:
        """Drop the epochs that began at `offset` or later."""
        while self._starts and self._starts[-1] >= offset:
            self._starts.pop()
            self._epochs.pop()
            self.version += 1
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH

    def truncate_from_start(self, offset: int) -> None:
        """Drop the epochs that ended before `offset`; the epoch of `offset` now begins there."""
        number = bisect_right(self._starts, offset) - 1
        if number < 0 or self._starts[number] == offset == self._starts[0]:
            return
        self._epochs = self._epochs[number:]
        self._starts = [offset, *self._starts[number + 1 :]]
        self.version += 1

    def write(self) -> None:
        """Write the file if an epoch changed. The caller syncs it and then calls `synced`."""
        if self._written_version != self.version:
            self._disk.write_atomically(self._path, self.render(), sync=False)
            self._written_version = self.version

    def synced(self, version: int) -> None:
        """The file as it was at this version is durable."""
        self._durable_version = version

    def render(self) -> bytes:
        """The file's content."""
        return render_lines([f"{epoch} {start}" for epoch, start in self.entries])

    def _add(self, epoch: int, start_offset: int) -> None:
        assert epoch > self.latest, f"epoch {epoch} begins after epoch {self.latest}"
        assert not self._starts or start_offset > self._starts[-1], f"epoch {epoch} begins at {start_offset}"
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.latest = epoch
        self.version += 1
