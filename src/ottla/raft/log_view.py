"""The log as the quorum sees it: offsets and epochs, no records. And what can be judged from those.

Log matching: two logs that hold a record of the same epoch at the same offset are equal up to there, because
one leader wrote each epoch, in order, and a follower appends only behind a record that the leader has too.
"""

from __future__ import annotations

from typing import Protocol

from ottla.model import NO_EPOCH, EpochEnd
from ottla.raft.messages import SnapshotId
from ottla.raft.voters import LoggedVoters, VoterSet


class LogView(Protocol):
    """Read at every step; always what the log is now."""

    @property
    def log_start_offset(self) -> int:
        """The first offset there is: 0, or the end of a snapshot."""

    @property
    def log_start_epoch(self) -> int:
        """The epoch of the record before the first one, out of the snapshot there; -1 if the log starts at
        0.
        """

    @property
    def log_end_offset(self) -> int:
        """The log end offset: one more than the offset of the last record."""

    @property
    def flushed_offset(self) -> int:
        """Everything below survives a power loss."""

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, or `log_start_epoch` if there is none."""

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        """The snapshot for nodes that are behind the log's start; it ends at that start or later."""

    @property
    def voters(self) -> LoggedVoters | None:
        """The newest set of voters in the log or in the snapshot before it, committed or not; None if there
        is none.
        """

    @property
    def former_voters(self) -> VoterSet | None:
        """The set of voters in the log before the newest; None if there is none."""

    def end_offset_for(self, epoch: int) -> EpochEnd:
        """The largest epoch that is at most `epoch`, and where it ends.

        If the log knows none that old: (-1, -1), or the epoch itself, ending where the log starts.
        """


def is_up_to_date(log: LogView, last_epoch: int, end_offset: int) -> bool:
    """Whether a log with this end holds at least what ours may have helped to commit."""
    return (last_epoch, end_offset) >= (log.last_epoch, log.log_end_offset)


def judge_fetch(log: LogView, offset: int, epoch: int) -> EpochEnd | SnapshotId | None:
    """Where a follower's log leaves ours, or the snapshot it needs; None if it may go on at `offset`.

    `epoch` is that of the follower's record before `offset`.
    """
    if offset == 0 and log.log_start_offset == 0:
        return None
    if _is_before_start(log, offset, epoch) and log.latest_snapshot is not None:
        return log.latest_snapshot
    end = _end_of(log, epoch)
    return None if end.epoch == epoch and offset <= end.end_offset else end


def _is_before_start(log: LogView, offset: int, epoch: int) -> bool:
    """Whether the logs part, or may part, where ours is not there any more."""
    start, start_epoch = log.log_start_offset, log.log_start_epoch
    return offset < start or epoch < start_epoch or (offset == start and epoch != start_epoch)


def truncation_offset(log: LogView, diverging: EpochEnd) -> int:
    """Where to cut a follower's log, told the leader's largest epoch that may be common, and its end
    there.
    """
    return min(_end_of(log, diverging.epoch).end_offset, diverging.end_offset)


def _end_of(log: LogView, epoch: int) -> EpochEnd:
    if epoch >= log.last_epoch:
        return EpochEnd(log.last_epoch, log.log_end_offset)
    end = log.end_offset_for(epoch)
    return EpochEnd(log.log_start_epoch, log.log_start_offset) if end.epoch == NO_EPOCH else end
