"""Which segments retention deletes (RET-1, RET-2). Pure: from facts, a configuration and the time to a plan.

A segment is deleted when it is the oldest and
- all its records are older than `retention.ms`, or
- the log without it still has `retention.bytes`, or
- all its records lie below the log start offset. The active segment is never deleted. If it is too old as
well, the plan says to roll it, so that the next plan can delete it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile

from ottla.config import TopicConfig


class Reason(Enum):
    """Why a segment is deleted."""

    TIME = "all records are older than retention.ms"
    SIZE = "the log is larger than retention.bytes"
    MEMORY = "the memory for data is nearly full"
    LOG_START_OFFSET = "all records lie below the log start offset"


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """The facts about a segment."""

    base_offset: int
    next_offset: int
    size_bytes: int
    max_timestamp_ms: int  # -1: its records have no timestamp
    modified_ms: int

    @property
    def newest_ms(self) -> int:
        """The timestamp of the newest record, or the time of the last write if records have none."""
        return self.max_timestamp_ms if self.max_timestamp_ms >= 0 else self.modified_ms


@dataclass(frozen=True, slots=True)
class Deletion:
    """One segment to delete, and why."""

    base_offset: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """The segments to delete, oldest first; the log then starts at `log_start_offset`."""

    deletions: tuple[Deletion, ...]
    log_start_offset: int
    roll_active: bool

    @property
    def segments(self) -> tuple[int, ...]:
        return tuple(deletion.base_offset for deletion in self.deletions)


def plan_retention(
    segments: Sequence[SegmentFacts],
    config: TopicConfig,
    log_start_offset: int,
    now_ms: int,
    *,
    deletable_up_to: int | None = None,
) -> RetentionPlan:
    """The segments to delete now. `deletable_up_to` is the high watermark: nothing above it is deleted."""
    sealed = segments[:-1]
    bound = segments[-1].next_offset if deletable_up_to is None else deletable_up_to
    # A topic that is only compacted has no retention limits; the log start offset applies to every topic.
    deletes = "delete" in config.cleanup_policy
    reasons: dict[int, Reason] = {}
    for reason, found in (
        (Reason.LOG_START_OFFSET, _below_start(sealed, log_start_offset)),
        (Reason.TIME, _too_old(sealed, config.retention_ms, now_ms) if deletes else iter(())),
        (Reason.SIZE, _too_many_bytes(segments, config.retention_bytes) if deletes else iter(())),
    ):
        for segment in takewhile(lambda candidate: candidate.next_offset <= bound, found):
            reasons.setdefault(segment.base_offset, reason)
    gone = [segment for segment in sealed if segment.base_offset in reasons]
    return RetentionPlan(
        deletions=tuple(Deletion(segment.base_offset, reasons[segment.base_offset]) for segment in gone),
        log_start_offset=max(log_start_offset, gone[-1].next_offset if gone else 0),
        roll_active=deletes
        and len(gone) == len(sealed)
        and _is_expired(segments[-1], config.retention_ms, now_ms)
        and segments[-1].size_bytes > 0,
    )


def _is_expired(segment: SegmentFacts, retention_ms: int, now_ms: int) -> bool:
    return 0 <= retention_ms < now_ms - segment.newest_ms


def _below_start(sealed: Sequence[SegmentFacts], log_start_offset: int) -> Iterator[SegmentFacts]:
    return takewhile(lambda segment: segment.next_offset <= log_start_offset, sealed)


def _too_old(sealed: Sequence[SegmentFacts], retention_ms: int, now_ms: int) -> Iterator[SegmentFacts]:
    return takewhile(lambda segment: _is_expired(segment, retention_ms, now_ms), sealed)


def _too_many_bytes(segments: Sequence[SegmentFacts], retention_bytes: int) -> Iterator[SegmentFacts]:
    """Oldest first, as long as the rest of the log still has `retention_bytes`."""
    surplus = sum(segment.size_bytes for segment in segments) - retention_bytes
    if retention_bytes < 0:
        return
    for segment in segments[:-1]:
        surplus -= segment.size_bytes
        if surplus < 0:
            return
        yield segment
