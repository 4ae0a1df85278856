"""The disk of a simulated member of the quorum: a log, its snapshots, and the file with its vote.

It is as small as it can be and still lie as disks do: what was not flushed may be lost from any record on (a torn or missing one ends
the log, for its checksum is wrong), and a file that was being replaced is the old one or a new one. `LogView` is what the
machine sees of it.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from random import Random
from struct import Struct
from uuid import UUID

from ottla.model import EpochEnd
from ottla.raft.messages import SnapshotId
from ottla.raft.quorum_state import QuorumState
from ottla.raft.voters import LoggedVoters, VoterSet

_ENTRY = Struct(">qiq")  # offset, epoch, value
ENTRY_BYTES = _ENTRY.size
_SNAPSHOT = Struct(">qiq")  # end offset, epoch, digest
SNAPSHOT_BYTES = 100
NO_EPOCH = -1
FIRST_DIGEST = 7
_FIRST_VOTERS_VALUE = -(10**15)  # below all times, which are the values of the records that begin an epoch


def next_digest(digest: int, epoch: int, value: int) -> int:
    """What has been applied, in one number."""
    return (digest * 1_000_003 + epoch * 8_191 + value) & 0x7FFF_FFFF_FFFF_FFFF


@dataclass(frozen=True, slots=True)
class Entry:
    """One record: an epoch and a value that nobody else ever writes."""

    epoch: int
    value: int


class Meanings:
    """What some records mean, for all logs of a story: which voters a record or a snapshot names."""

    def __init__(self) -> None:
        self.of_value: dict[int, VoterSet] = {}
        self.of_snapshot: dict[SnapshotId, VoterSet] = {}

    def value_for(self, voters: VoterSet) -> int:
        """A value that no other record has."""
        value = _FIRST_VOTERS_VALUE - len(self.of_value)
        self.of_value[value] = voters
        return value


class SimulatedLog:
    """Records, of which the first so many are flushed."""

    def __init__(self, meanings: Meanings | None = None) -> None:
        self._meanings = meanings or Meanings()
        self._voters: list[LoggedVoters] = []
        self.log_start_offset = 0
        self.log_start_epoch = NO_EPOCH
        self.flushed_offset = 0
        self.latest_snapshot: SnapshotId | None = None
        self._entries: list[Entry] = []
        self._epochs: list[int] = []  # each epoch there is, and where it begins
        self._starts: list[int] = []
        self._flushing_offset = 0

    @property
    def log_end_offset(self) -> int:
        return self.log_start_offset + len(self._entries)

    @property
    def voters(self) -> LoggedVoters | None:
        return self._voters[-1] if self._voters else None

    @property
    def former_voters(self) -> VoterSet | None:
        return self._voters[-2].voters if len(self._voters) > 1 else None

    def voters_at(self, offset: int) -> VoterSet | None:
        """The voters that the records below an offset name."""
        return next((each.voters for each in reversed(self._voters) if each.end_offset <= offset), None)

    @property
    def last_epoch(self) -> int:
        return self._epochs[-1] if self._epochs else self.log_start_epoch

    def end_offset_for(self, epoch: int) -> EpochEnd:
        number = bisect_right(self._epochs, epoch)
        if number == 0:
            # As the real log says it: an epoch that old has ended where the log starts.
            return EpochEnd(-1, -1) if epoch == NO_EPOCH else EpochEnd(epoch, self.log_start_offset)
        end = self._starts[number] if number < len(self._starts) else self.log_end_offset
        return EpochEnd(self._epochs[number - 1], end)

    def entry(self, offset: int) -> Entry:
        return self._entries[offset - self.log_start_offset]

    def epoch_before(self, offset: int) -> int:
        """The epoch of the record that comes before an offset."""
        return self.log_start_epoch if offset == self.log_start_offset else self.entry(offset - 1).epoch

    def append(self, entry: Entry) -> None:
        if entry.epoch != self.last_epoch or not self._epochs:
            self._epochs.append(entry.epoch)
            self._starts.append(self.log_end_offset)
        self._entries.append(entry)
        if entry.value in self._meanings.of_value:
            self._voters.append(LoggedVoters(self._meanings.of_value[entry.value], self.log_end_offset))

    def append_records(self, records: bytes | memoryview) -> None:
        for _, entry in self.entries_of(records):
            self.append(entry)

    def entries_of(self, records: bytes | memoryview) -> list[tuple[int, Entry]]:
        """Records as they travel: each with its offset."""
        return [(offset, Entry(epoch, value)) for offset, epoch, value in _ENTRY.iter_unpack(records)]

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole records from an offset on; the first comes even if it is too large."""
        first = offset - self.log_start_offset
        end = first + max(max_bytes // ENTRY_BYTES, 1)
        return b"".join(
            _ENTRY.pack(offset + number, entry.epoch, entry.value)
            for number, entry in enumerate(self._entries[first:end])
        )

    def truncate(self, offset: int) -> None:
        """Durable at once, as in the real log."""
        del self._entries[offset - self.log_start_offset :]
        self._voters = [each for each in self._voters if each.end_offset <= offset]
        while self._starts and self._starts[-1] >= offset:
            self._starts.pop()
            self._epochs.pop()
        self.flushed_offset = min(self.flushed_offset, offset)
        self._flushing_offset = min(self._flushing_offset, offset)

    def reset(self, snapshot_id: SnapshotId) -> None:
        """Empty, behind a snapshot."""
        self.log_start_offset, self.log_start_epoch = snapshot_id
        self._entries, self._epochs, self._starts = [], [], []
        named = self._meanings.of_snapshot.get(snapshot_id)
        self._voters = [] if named is None else [LoggedVoters(named, snapshot_id.end_offset)]
        self.flushed_offset = self._flushing_offset = snapshot_id.end_offset

    def advance_start(self, snapshot_id: SnapshotId) -> None:
        """Forget what a snapshot holds."""
        if snapshot_id.end_offset >= self.log_end_offset:
            self.reset(snapshot_id)
            return
        kept = self._entries[snapshot_id.end_offset - self.log_start_offset :]
        flushed, flushing = self.flushed_offset, self._flushing_offset
        self.reset(snapshot_id)
        for entry in kept:
            self.append(entry)
        self.flushed_offset = max(flushed, snapshot_id.end_offset)  # for the snapshot is
        self._flushing_offset = max(flushing, snapshot_id.end_offset)

    def begin_flush(self) -> None:
        self._flushing_offset = self.log_end_offset

    def end_flush(self) -> None:
        self.flushed_offset = max(self.flushed_offset, self._flushing_offset)

    def crash(self, random: Random) -> None:
        """A power loss: what was not flushed is gone from any record on."""
        kept = random.randint(self.flushed_offset, self.log_end_offset) - self.log_start_offset
        self.truncate(self.log_start_offset + kept)
        self.flushed_offset = self._flushing_offset = self.log_end_offset

    def restart(self) -> None:
        """The process died and the machine did not: everything is there, and no more flushed than it was."""


def snapshot_content(snapshot_id: SnapshotId, digest: int) -> bytes:
    return _SNAPSHOT.pack(*snapshot_id, digest).ljust(SNAPSHOT_BYTES, b".")


def digest_in(content: bytes, snapshot_id: SnapshotId) -> int | None:
    """What a snapshot's bytes say; None if they are not this snapshot."""
    if len(content) != SNAPSHOT_BYTES:
        return None
    end_offset, epoch, digest = _SNAPSHOT.unpack_from(content)
    return int(digest) if (end_offset, epoch) == snapshot_id else None


class RaftDisk:
    """Everything that a member of the quorum keeps. A new one has a new directory id."""

    def __init__(self, directory_id: UUID, memory: QuorumState | None, log: SimulatedLog) -> None:
        self.directory_id = directory_id
        self.log = log
        self.memory = memory
        self.unwritten: list[QuorumState] = []  # on their way to the disk, in order
        self.snapshots: dict[SnapshotId, bytes] = {}
        self.fetched: tuple[SnapshotId, bytes] | None = (
            None  # whole and durable, but the log is not reset yet
        )

    def settle(self) -> None:
        """The process died and the machine did not: what was written is there, what was on its way is not."""
        self.log.restart()
        self.unwritten = []

    def crash(self, random: Random) -> None:
        self.log.crash(random)
        self.unwritten = self.unwritten[: random.randint(0, len(self.unwritten))]
        if self.unwritten:
            self.memory = self.unwritten[-1]
            self.unwritten = []

    def damage(self, random: Random) -> None:
        """Records that were flushed are gone."""
        self.log.truncate(random.randint(self.log.log_start_offset, self.log.log_end_offset))

    def move_to(self, other: RaftDisk) -> None:
        """What is left on a disk, under another directory id."""
        other.log, other.snapshots = self.log, self.snapshots

    def recover(self) -> None:
        """What a start does first: a snapshot that is ahead of the log takes its place."""
        if self.fetched is not None:
            snapshot_id, content = self.fetched
            if snapshot_id.end_offset > self.log.log_end_offset:
                self.install(snapshot_id, content)
        self.fetched = None

    def install(self, snapshot_id: SnapshotId, content: bytes) -> None:
        self.keep(snapshot_id, content)
        self.log.reset(snapshot_id)

    def keep(self, snapshot_id: SnapshotId, content: bytes) -> None:
        """Have one more snapshot; older ones go, except the one that the log begins with."""
        begin = SnapshotId(self.log.log_start_offset, self.log.log_start_epoch)
        self.snapshots = {kept: data for kept, data in self.snapshots.items() if kept == begin}
        self.snapshots[snapshot_id] = content
        self.log.latest_snapshot = max(self.snapshots)

    def digest_at_start(self) -> int:
        """What the state machine is before the log's first record."""
        begin = SnapshotId(self.log.log_start_offset, self.log.log_start_epoch)
        if begin.end_offset == 0:
            return FIRST_DIGEST
        digest = digest_in(self.snapshots[begin], begin)
        assert digest is not None
        return digest
