"""How clean one log is, and the passes that make it so. The log's side of compaction; a cleaner does the work.

    plan → begin → (a cleaner builds the map) → groups → (a cleaner writes each anew, the log swaps it in) → complete

A pass may take minutes, in which the log lives on. So each group remembers its segments, and before one is swapped in it
must be `is_intact`: retention may have taken some of them, and a truncation puts other records at the same offsets.
"""

from dataclasses import dataclass

from ottla.config import LONG_MAX
from ottla.log.compaction.cleaner import CleaningJob, Mapped
from ottla.log.plan.dirtiest_log import (
    CleanableSegment,
    CleaningPlan,
    LogFacts,
    group_segments,
    plan_cleaning,
)
from ottla.log.segments.segment import Segment
from ottla.log.state import LogState


@dataclass(frozen=True, slots=True)
class SegmentGroup:
    """Segments that become one, as they were when the pass began."""

    segments: tuple[Segment, ...]
    cuts: int

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def base_offsets(self) -> tuple[int, ...]:
        return tuple(segment.base_offset for segment in self.segments)


@dataclass(frozen=True, slots=True)
class CleaningPass:
    """A pass that has begun."""

    job: CleaningJob
    segments: tuple[Segment, ...]
    cuts: int


class LogCleaning:
    """What is known about the cleanliness of one log."""

    __slots__ = ("_cuts", "_state", "first_dirty_offset", "is_unfinished", "next_horizon_ms")

    def __init__(self, state: LogState) -> None:
        self._state = state
        self._cuts = 0
        self.first_dirty_offset = 0
        self.is_unfinished = False
        self.next_horizon_ms: int | None = None

    def trust(self, first_dirty_offset: int) -> None:
        """A checkpoint says so; one beyond the log's end speaks of another log, or of one that lost its end."""
        self.first_dirty_offset = (
            first_dirty_offset if first_dirty_offset <= self._state.log_end_offset else 0
        )

    def cut(self, offset: int) -> None:
        """The log was truncated to `offset`: what comes there now was never cleaned."""
        self._cuts += 1
        self.first_dirty_offset = min(self.first_dirty_offset, offset)

    def plan(self, last_stable_offset: int, now_ms: int) -> CleaningPlan | None:
        """The next pass, if the log needs one."""
        state = self._state
        if not state.config.is_compacted or state.refusal is not None or len(state.segments) < 2:
            return None
        facts = LogFacts(
            first_dirty_offset=self.first_dirty_offset,
            log_start_offset=state.log_start_offset,
            last_stable_offset=last_stable_offset,
            is_unfinished=self.is_unfinished,
            tombstones_due_ms=self.next_horizon_ms,
        )
        return plan_cleaning(self._cleanable_segments(), state.config, facts, now_ms)

    def begin(self, plan: CleaningPlan, now_ms: int) -> CleaningPass:
        """The job for a cleaner."""
        state = self._state
        segments = tuple(state.segments)
        config = state.config
        job = CleaningJob(
            directory=state.directory,
            first_dirty_offset=plan.first_dirty_offset,
            end_offset=plan.end_offset,
            now_ms=now_ms,
            delete_retention_ms=config.delete_retention_ms,
            index_interval_bytes=config.index_interval_bytes,
            segment_index_bytes=config.segment_index_bytes,
            segments=tuple((segment.base_offset, segment.size_bytes) for segment in segments),
            producers=tuple(
                (producer_id, entry.epoch, entry.last_offset)
                for producer_id, entry in state.producers.items()
                if entry.last_offset < plan.end_offset
            ),
        )
        return CleaningPass(job, segments[:-1], self._cuts)

    def groups(self, begun: CleaningPass, end_offset: int) -> list[SegmentGroup]:
        """The groups of segments to be written anew, in the order of the log."""
        by_base = {segment.base_offset: segment for segment in begun.segments}
        facts = [_facts(segment) for segment in begun.segments]
        return [
            SegmentGroup(tuple(by_base[base_offset] for base_offset in group), begun.cuts)
            for group in group_segments(facts, end_offset, self._state.config)
        ]

    def is_intact(self, group: SegmentGroup) -> bool:
        """Whether the group's segments are still those that the pass began with."""
        current = tuple(self._state.segments)
        sealed = current[:-1]
        if group.cuts != self._cuts or group.segments[0] not in sealed:
            return False
        start = sealed.index(group.segments[0])
        return sealed[start : start + len(group.segments)] == group.segments

    def is_whole(self, begun: CleaningPass) -> bool:
        """Whether every segment that the pass began with is still there."""
        return begun.cuts == self._cuts and set(begun.segments) <= set(self._state.segments)

    def was_cut_since(self, begun: CleaningPass) -> bool:
        """Whether the log was truncated during the pass."""
        return begun.cuts != self._cuts

    def complete(self, mapped: Mapped, next_horizon_ms: int | None) -> None:
        """The pass is over, and the log is clean up to where it went."""
        self.first_dirty_offset = mapped.end_offset
        self.is_unfinished = mapped.is_full
        self.next_horizon_ms = next_horizon_ms

    def _cleanable_segments(self) -> list[CleanableSegment]:
        """With times only where the topic asks for them: they cost a look into each segment."""
        config = self._state.config
        if config.min_compaction_lag_ms <= 0 and config.max_compaction_lag_ms == LONG_MAX:
            return [_facts(segment) for segment in self._state.segments]
        return [_dated_facts(segment) for segment in self._state.segments]


def _facts(segment: Segment) -> CleanableSegment:
    return CleanableSegment(segment.base_offset, segment.next_offset, segment.size_bytes)


def _dated_facts(segment: Segment) -> CleanableSegment:
    largest_ms = segment.largest_timestamp[0]
    return CleanableSegment(
        segment.base_offset,
        segment.next_offset,
        segment.size_bytes,
        first_timestamp_ms=segment.first_timestamp,
        newest_ms=largest_ms if largest_ms >= 0 else segment.modified_ms,
    )
