"""The follower's side of one partition: what it asks its leader for, and what it does with the answers. Pure.

    answer                                    effects
    for an older question                     none: it is dropped
    records                                   Append, HighWatermarkMoved, and LogStartMoved if the leader's log begins later
    the logs part                             TruncateTo; Failed, if committed records would go, unless
                                              an unclean election allows it
    OFFSET_OUT_OF_RANGE                       BeginAt, if the leader's log begins at or behind our end, or we have no records
    UNKNOWN_LEADER_EPOCH, any other error     BackOff: longer each time
    (AppendFailed)                            BackOff; Failed, if the log takes no more writes
    (HoleFound)                               TruncateTo (log_holes.py); told before the first fetch from a leader

Effects are carried out in their order, before the next question is asked. Where a log is cut is decided by
leader epochs alone, never by the watermark (divergence.py). Questions go on where the log ends; so one
question is under way at a time, and its answer says which.
"""

from dataclasses import dataclass
from typing import Final

from ottla.errors import ErrorCode
from ottla.model import NO_EPOCH, NO_LEADER, NO_OFFSET, EpochEnd
from ottla.replication.divergence import LogView, truncation_offset
from ottla.replication.log_holes import AcceptHole, HoleFound, TruncateTo, settle_hole

# A leader that has not heard of its own election yet has heard of it a few milliseconds later.
FETCH_BACKOFF_MS: Final = 20
FETCH_BACKOFF_MAX_MS: Final = 1000

# A clean election never asks for this: the leader has lost what it was trusted with, or was never complete.
_COMMITTED: Final = (
    "leader {} has other records from offset {} on, and the records up to {} are committed. They are kept. Elect a "
    "complete replica, or delete this replica's directory to give them up"
)


@dataclass(frozen=True, slots=True)
class FetchFrom:
    """One partition of a fetch to the leader."""

    fetch_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class FetchAnswered:
    """The leader's answer to a FetchFrom.

    High watermark and log start come with OFFSET_OUT_OF_RANGE, too.
    """

    asked: FetchFrom
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: EpochEnd | None = None
    records: memoryview | bytes | None = None


@dataclass(frozen=True, slots=True)
class AppendFailed:
    """The records of Append could not be appended.

    None of them, or only the first of them, are in the log.
    """

    error: ErrorCode
    is_lasting: bool = False  # the log refuses writes until it is opened again


@dataclass(frozen=True, slots=True)
class Append:
    """Append what the leader sent, as it is; AppendFailed if that is refused."""

    records: memoryview | bytes


@dataclass(frozen=True, slots=True)
class BeginAt:
    """Throw everything away and begin at this offset: the leader has nothing older any more."""

    offset: int


@dataclass(frozen=True, slots=True)
class HighWatermarkMoved:
    """The leader's high watermark.

    It holds here up to the own log end: `PartitionReplica` takes LeaderHighWatermark.
    """

    high_watermark: int


@dataclass(frozen=True, slots=True)
class LogStartMoved:
    """Records before this offset were deleted on the leader."""

    log_start_offset: int


@dataclass(frozen=True, slots=True)
class BackOff:
    """Ask again then; `next_fetch` answers None before."""

    until_ms: int
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class Failed:
    """Nothing more is fetched until `follow` is called; the reason is for the operator."""

    reason: str


Event = FetchAnswered | AppendFailed | HoleFound
Effect = Append | TruncateTo | AcceptHole | BeginAt | HighWatermarkMoved | LogStartMoved | BackOff | Failed


class Follower:
    """Follows one leader after the other."""

    __slots__ = (
        "_backoff_max_ms",
        "_backoff_ms",
        "_refused_at",
        "has_failed",
        "is_recovering",
        "leader",
        "leader_epoch",
        "node_id",
        "retry_at_ms",
    )

    def __init__(self, node_id: int, *, backoff_max_ms: int = FETCH_BACKOFF_MAX_MS) -> None:
        self.node_id = node_id
        self._backoff_max_ms = backoff_max_ms
        # Where the log ended when it refused records: an answer to the same question is no progress.
        self._refused_at = NO_OFFSET
        self.leader = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.is_recovering = False
        self.has_failed = False
        self.retry_at_ms = 0
        self._backoff_ms = FETCH_BACKOFF_MS

    def follow(self, leader: int, leader_epoch: int, *, is_recovering: bool = False) -> None:
        """Follow this leader from now on. An older epoch, or the same again, changes nothing.

        `is_recovering`: the leader was elected uncleanly, or an earlier one was: it may miss what is committed
        here.
        """
        if leader_epoch <= self.leader_epoch:
            return
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.is_recovering = is_recovering
        self.has_failed = False
        self.retry_at_ms = 0
        self._backoff_ms = FETCH_BACKOFF_MS

    def next_fetch(self, log: LogView, now_ms: int) -> FetchFrom | None:
        """The next fetch from the leader; None while there is no leader, or it is too early."""
        if now_ms < self.retry_at_ms or self.has_failed or self.leader in (NO_LEADER, self.node_id):
            return None
        return FetchFrom(log.log_end_offset, self.leader_epoch, log.latest_epoch, log.log_start_offset)

    def step(self, event: Event, log: LogView, now_ms: int, high_watermark: int = 0) -> list[Effect]:
        """Take one event in; answer what should happen."""
        match event:
            case FetchAnswered():
                is_current = self._is_current(event.asked, log)
                return self._answered(event, log, now_ms, high_watermark) if is_current else []
            case AppendFailed(_, is_lasting) if is_lasting:
                self.has_failed = True
                return [Failed("the log takes no more writes until it is opened again")]
            case HoleFound():
                return list(settle_hole(event, self.node_id))
            case AppendFailed(error):
                self._refused_at = log.log_end_offset
                return self._back_off(error, now_ms)

    def _is_current(self, asked: FetchFrom, log: LogView) -> bool:
        """An answer to a question that would be asked differently now says nothing about this log."""
        return (asked.current_leader_epoch, asked.fetch_offset, asked.last_fetched_epoch) == (
            self.leader_epoch,
            log.log_end_offset,
            log.latest_epoch,
        )

    def _answered(
        self, answer: FetchAnswered, log: LogView, now_ms: int, high_watermark: int
    ) -> list[Effect]:
        if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            return self._out_of_range(answer, log, now_ms)
        if answer.error is not ErrorCode.NONE:
            return self._back_off(answer.error, now_ms)
        if answer.diverging is not None:
            return self._diverged(answer.diverging, log, now_ms, high_watermark)
        if log.log_end_offset != self._refused_at:
            self._backoff_ms = FETCH_BACKOFF_MS
        effects: list[Effect] = [Append(answer.records)] if answer.records else []
        effects.append(HighWatermarkMoved(answer.high_watermark))
        if answer.log_start_offset > log.log_start_offset:
            effects.append(LogStartMoved(answer.log_start_offset))
        return effects

    def _diverged(self, diverging: EpochEnd, log: LogView, now_ms: int, high_watermark: int) -> list[Effect]:
        offset = truncation_offset(log, diverging)
        if offset >= log.log_end_offset or offset < 0:
            # There is nothing to cut: whatever the leader means, do not storm it.
            return self._back_off(ErrorCode.UNKNOWN_SERVER_ERROR, now_ms)
        if offset < high_watermark and not self.is_recovering:
            self.has_failed = True
            return [Failed(_COMMITTED.format(self.leader, offset, high_watermark))]
        return [TruncateTo(offset)]

    def _out_of_range(self, answer: FetchAnswered, log: LogView, now_ms: int) -> list[Effect]:
        start = answer.log_start_offset
        has_records = log.latest_epoch != NO_EPOCH
        is_behind = start > log.log_end_offset or (start == log.log_end_offset and has_records)
        is_empty = not has_records and start != log.log_end_offset
        if start >= 0 and (is_behind or is_empty):
            return [BeginAt(start)]
        return self._back_off(answer.error, now_ms)

    def _back_off(self, error: ErrorCode, now_ms: int) -> list[Effect]:
        self.retry_at_ms = now_ms + self._backoff_ms
        self._backoff_ms = min(self._backoff_ms * 2, self._backoff_max_ms)
        return [BackOff(self.retry_at_ms, error)]
