"""The events that the machine of a quorum receives, and the effects that it wants carried out. See `replica`.

Rules for the shell
- It carries effects out in their order, and all of them before the next event. Where an effect changes the
  log (AppendLeaderChange, AppendVoters, AppendRecords, TruncateTo, ResetLog), the next event is LogChanged.
- PersistVote, Flush and FinishSnapshot take time; other events may come before VotePersisted, Flushed and
  SnapshotReady.
- A write that fails otherwise than by refusing its bytes ends the process: what is on the disk is then
  unknown.
- A Send is answered once, by Answered or Unanswered; a ticket is answered once, by a Reply, ReplyRecords or
  ReplySnapshot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from ottla.raft.messages import Answer, FetchAnswer, Request, SnapshotId
from ottla.raft.quorum_state import QuorumState
from ottla.raft.voters import VoterSet

# ---- events


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Received:
    """Another node asks. `ticket` is any value by which the shell knows whom to answer."""

    ticket: Any
    request: Request


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a Send."""

    request_id: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A Send got no answer: the connection was lost, or its time was over."""

    request_id: int


@dataclass(frozen=True, slots=True)
class VotePersisted:
    """The state that PersistVote of this number, or a later one, wrote survives a power loss."""

    number: int


@dataclass(frozen=True, slots=True)
class LogChanged:
    """The log's end moved: an effect was carried out, or a leader appended what it was asked to commit."""


@dataclass(frozen=True, slots=True)
class AppendRefused:
    """The records of AppendRecords are damaged or do not fit, or the disk is full; none was written."""

    is_full: bool = False


@dataclass(frozen=True, slots=True)
class LogFull:
    """The disk has no room for what the leader had to append; nothing was written.

    Other voters may have room: the leader resigns, and stands for election again after a while.
    """


@dataclass(frozen=True, slots=True)
class Flushed:
    """The Flush has ended; the log's flushed offset says how far."""


@dataclass(frozen=True, slots=True)
class SnapshotReady:
    """The snapshot of FinishSnapshot is whole and durable. The log is not reset yet: that is for ResetLog."""

    attempt: int


@dataclass(frozen=True, slots=True)
class SnapshotRefused:
    """The fetched bytes are not a snapshot."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection to a node has died, or is refused: it may be dead, and that is known before any
    timeout.
    """

    node_id: int


@dataclass(frozen=True, slots=True)
class Leave:
    """This node is about to stop: hand the leadership over, and do not stand for election any more."""


@dataclass(frozen=True, slots=True)
class ChangeVoters:
    """Make these the voters, as `membership` has found them: only a leader does, and another node does
    nothing.
    """

    voters: VoterSet


Event: TypeAlias = (
    Tick
    | Received
    | Answered
    | Unanswered
    | VotePersisted
    | LogChanged
    | AppendRefused
    | LogFull
    | Flushed
    | SnapshotReady
    | SnapshotRefused
    | Disconnected
    | Leave
    | ChangeVoters
)


# ---- effects


@dataclass(frozen=True, slots=True)
class PersistVote:
    """Write this to disk, fsync it, and answer VotePersisted. Effects that depend on it are held back until
    then.
    """

    number: int
    state: QuorumState


@dataclass(frozen=True, slots=True)
class Send:
    """Ask another node. The answer is Answered or Unanswered, after `timeout_ms` at the latest."""

    to: int
    request_id: int
    request: Request
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a ticket."""

    ticket: Any
    answer: Answer


@dataclass(frozen=True, slots=True)
class ReplyRecords:
    """Answer a ticket with records from `offset` to the log's end, whole batches up to `max_bytes`, at least
    one if there is one.
    """

    ticket: Any
    answer: FetchAnswer
    offset: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class ReplySnapshot:
    """Answer a ticket with bytes of a snapshot; SNAPSHOT_NOT_FOUND or POSITION_OUT_OF_RANGE if there are
    none.
    """

    ticket: Any
    epoch: int
    leader_id: int
    snapshot_id: SnapshotId
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class AppendLeaderChange:
    """Append a control record of this epoch (`leader_change` builds it). Then LogChanged, or LogFull."""

    epoch: int
    leader_id: int
    voters: tuple[int, ...]
    granting_voters: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AppendVoters:
    """Append the record that names the voters (`voter_records` builds it). Then LogChanged."""

    epoch: int
    voters: VoterSet


@dataclass(frozen=True, slots=True)
class AppendRecords:
    """Append what the leader sent, as it is. Then LogChanged, or AppendRefused."""

    records: bytes | memoryview


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """Cut the log's end off, durably. Then LogChanged."""

    offset: int


@dataclass(frozen=True, slots=True)
class Flush:
    """Make the log durable up to its present end. Then Flushed. There is one at a time."""


@dataclass(frozen=True, slots=True)
class WriteSnapshot:
    """Write a piece of a snapshot beside the log. At position 0 a new attempt begins, and older ones are
    void.
    """

    attempt: int
    snapshot_id: SnapshotId
    position: int
    data: bytes | memoryview


@dataclass(frozen=True, slots=True)
class FinishSnapshot:
    """The last piece is written: check it, fsync it. Then SnapshotReady or SnapshotRefused."""

    attempt: int
    snapshot_id: SnapshotId


@dataclass(frozen=True, slots=True)
class ResetLog:
    """Load the snapshot, throw the log away and let it begin at the snapshot's end. Then LogChanged."""

    snapshot_id: SnapshotId


@dataclass(frozen=True, slots=True)
class HighWatermarkAdvanced:
    """Every record below is committed, for ever."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """The leader, as far as it is known here."""

    leader_id: int | None
    epoch: int


@dataclass(frozen=True, slots=True)
class LeadershipEstablished:
    """This node leads, and all that was ever committed is below its high watermark: it may decide."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Halt:
    """Something happened that cannot: stop the process, loudly. The machine does nothing any more."""

    reason: str


Effect: TypeAlias = (
    PersistVote
    | Send
    | Reply
    | ReplyRecords
    | ReplySnapshot
    | AppendLeaderChange
    | AppendVoters
    | AppendRecords
    | TruncateTo
    | Flush
    | WriteSnapshot
    | FinishSnapshot
    | ResetLog
    | HighWatermarkAdvanced
    | LeaderChanged
    | LeadershipEstablished
    | Halt
)
