"""The events that the leader's machine takes in, and the effects it answers.

`partition` has the table. Pure.
"""

from dataclasses import dataclass

from ottla.errors import ErrorCode
from ottla.replication.isolation import ControllerSilent, FlushHangs, LogBroken, LogWorks, StepDown
from ottla.replication.isr import IsrAnswered, ProposeIsr
from ottla.replication.log_holes import AcceptHole, HoleFound, TruncateTo


@dataclass(frozen=True, slots=True)
class Assigned:
    """The controller's decision about this partition, and the end of the local log.

    `durable_offset`: where only flushed records may count (LogEndOffsetMoved).
    `is_recovering`: after an unclean election, until every replica is in sync.
    `damaged`: replicas with records that cannot be read, which the controller does not let into the ISR.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    partition_epoch: int = 0
    log_end_offset: int = 0
    durable_offset: int | None = None
    is_recovering: bool = False
    damaged: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class LogEndOffsetMoved:
    """The local log grew, was cut or, where only flushed records may be committed, was flushed up to
    `durable_offset`.

    That is this replica's share in the high watermark; None: all it holds.
    """

    log_end_offset: int
    durable_offset: int | None = None


@dataclass(frozen=True, slots=True)
class FollowerFetched:
    """A follower asked for what comes at `fetch_offset`, and its epochs were found to match.

    It holds all before.
    """

    replica_id: int
    broker_epoch: int
    fetch_offset: int


@dataclass(frozen=True, slots=True)
class FollowerLost:
    """A follower's broker was fenced, or its connection died.

    Do not wait for it to join. (Members leave by the controller.)
    """

    replica_id: int


@dataclass(frozen=True, slots=True)
class LeaderHighWatermark:
    """On a follower: the leader's high watermark, after the records that came with it are in the log."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; due at `next_deadline_ms`."""


@dataclass(frozen=True, slots=True)
class HighWatermarkAdvanced:
    """Readers may now read up to here."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class HighWatermarkLowered:
    """The log was cut below what was committed, as only an unclean election asks for: this much is left."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class CommitsRefused:
    """Nothing is committed here for now.

    Callers that wait for a commit get this error, because the outcome of the commit is unknown.
    """

    error: ErrorCode


Event = (
    Assigned
    | HoleFound
    | LogEndOffsetMoved
    | FollowerFetched
    | FollowerLost
    | LeaderHighWatermark
    | IsrAnswered
    | Tick
    | ControllerSilent
    | LogBroken
    | LogWorks
    | FlushHangs
)
Effect = (
    HighWatermarkAdvanced
    | HighWatermarkLowered
    | ProposeIsr
    | CommitsRefused
    | StepDown
    | TruncateTo
    | AcceptHole
)
