"""What must stay true of a quorum, looked at after every event.

- one leader for each epoch; a leader holds everything that is committed
- log matching: one record for each offset and epoch, with one record before it
- one value for each offset that is committed, for ever; what is committed is flushed on a majority
- high watermark and epoch only rise; a promise is not forgotten
- what is applied is the same everywhere, up to where it is applied
- a leader that answers is not out of date by more than a bound

All of it is checked as it grows, so that an event costs what it changes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from tests.quorum.model_disk import FIRST_DIGEST, Entry, RaftDisk, SimulatedLog, next_digest

from ottla.raft.messages import ReplicaKey


class BrokenPromiseError(AssertionError):
    """An invariant does not hold."""


def require(holds: bool, sentence: str) -> None:
    if not holds:
        raise BrokenPromiseError(sentence)


class Checks:
    """Everything that was ever seen, by whoever saw it."""

    def __init__(self) -> None:
        self._leaders: dict[int, tuple[int, int]] = {}
        self._written: dict[tuple[int, int], tuple[int, int]] = {}
        self._votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        self.committed: list[Entry] = []
        self._digests = [FIRST_DIGEST]  # after so many records
        self._committed_at_us: list[int] = []
        self.disks_lost = 0
        self.voter_changes = 0
        self.reads = 0

    @property
    def leaders(self) -> int:
        return len(self._leaders)

    def wrote(self, offset: int, entry: Entry, previous_epoch: int) -> None:
        """A record stands in some log, behind another."""
        seen = self._written.setdefault((offset, entry.epoch), (entry.value, previous_epoch))
        require(
            seen == (entry.value, previous_epoch),
            f"offset {offset} of epoch {entry.epoch} is {entry.value} behind epoch {previous_epoch} here, "
            f"and {seen[0]} behind epoch {seen[1]} elsewhere",
        )

    def led(self, node_id: int, life: int, epoch: int, log: SimulatedLog) -> None:
        """A node leads an epoch."""
        seen = self._leaders.setdefault(epoch, (node_id, life))
        require(seen == (node_id, life), f"both {seen} and {(node_id, life)} lead epoch {epoch}")
        self._holds_all_committed(f"the leader {node_id} of epoch {epoch}", log)

    def _holds_all_committed(self, who: str, log: SimulatedLog) -> None:
        require(
            log.log_end_offset >= len(self.committed),
            f"{who} ends at {log.log_end_offset}, and {len(self.committed)} records are committed",
        )
        for offset in range(log.log_start_offset, len(self.committed)):
            require(
                log.entry(offset) == self.committed[offset],
                f"{who} has {log.entry(offset)} at {offset}, where {self.committed[offset]} is committed",
            )

    def voted(self, voter: ReplicaKey, epoch: int, candidate: ReplicaKey) -> None:
        """A vote leaves its voter."""
        seen = self._votes.setdefault((voter, epoch), candidate)
        require(seen == candidate, f"{voter.node_id} votes for {seen} and for {candidate} in epoch {epoch}")

    def advanced(
        self, low: int, high: int, log: SimulatedLog, disks: Iterable[RaftDisk], majority: int, now_us: int
    ) -> None:
        """A node has raised its high watermark."""
        require(
            high <= log.log_end_offset, f"the high watermark is {high}, the log ends at {log.log_end_offset}"
        )
        for offset in range(max(low, log.log_start_offset), high):
            entry = log.entry(offset)
            if offset < len(self.committed):
                require(
                    entry == self.committed[offset],
                    f"{entry} is committed at {offset}, where {self.committed[offset]} was",
                )
                continue
            self._is_flushed_by_majority(offset, entry, disks, majority)
            self.committed.append(entry)
            self._digests.append(next_digest(self._digests[-1], entry.epoch, entry.value))
            self._committed_at_us.append(now_us)

    def _is_flushed_by_majority(
        self, offset: int, entry: Entry, disks: Iterable[RaftDisk], majority: int
    ) -> None:
        if self.disks_lost:
            return  # a lost disk may have been one of the majority
        holders = sum(_is_flushed(disk.log, offset, entry) for disk in disks)
        require(
            holders >= majority,
            f"offset {offset} is committed, and flushed by {holders} voters of {majority} needed",
        )

    def applied(self, node_id: int, offset: int, digest: int) -> None:
        """A node's state machine stands here."""
        require(
            offset < len(self._digests) and digest == self._digests[offset],
            f"{node_id} has applied something else up to {offset}",
        )

    def read(self, node_id: int, high_watermark: int, oldest_us: int) -> None:
        """A leader answers a reader: it must know what was committed by then."""
        self.reads += 1
        known = bisect_right(self._committed_at_us, oldest_us)
        require(
            high_watermark >= known,
            f"{node_id} answers as a leader up to {high_watermark}, and {known} was committed long ago",
        )


def _is_flushed(log: SimulatedLog, offset: int, entry: Entry) -> bool:
    if offset < log.log_start_offset:
        return True
    return offset < log.flushed_offset and log.entry(offset) == entry
