"""How far one log is compacted, and the passes that compact it. A cleaner does the work, in another process.

    plan → begin → (a cleaner builds the map) → groups → (a cleaner writes each) → swap → complete

A pass may take minutes, and the log changes meanwhile. So each group remembers its segments, and before it is
swapped in it must be `is_intact`: retention may have deleted some of them, and a truncation puts other
records at their offsets.
"""

from dataclasses import dataclass

from ottla.config import LONG_MAX
from ottla.log.compaction.cleaned_segment import CleanedSegment
from ottla.log.compaction.cleaner import CleaningJob, Mapped
from ottla.log.compaction.swap import SegmentSwap
from ottla.log.plan.dirtiest_log import (
    CleanableSegment,
    CleaningPlan,
    LogFacts,
    group_segments,
    plan_cleaning,
)
from ottla.log.producers.producer_state import Producers
from ottla.log.segments.extent import Extent
from ottla.log.segments.segment import Segment
from ottla.log.status import Status
from ottla.log.writing.tail import Tail


@dataclass(frozen=True, slots=True)
class SegmentGroup:
    """Segments that become one, as they were when the pass began."""

    segments: tuple[Segment, ...]
    truncations: int

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def base_offsets(self) -> tuple[int, ...]:
        return tuple(segment.base_offset for segment in self.segments)


@dataclass(frozen=True, slots=True)
class CleaningPass:
    """A pass that has begun: its job, the sealed segments, and how often the log had been truncated."""

    job: CleaningJob
    segments: tuple[Segment, ...]
    truncations: int


class LogCompaction:
    """The compaction of one log."""

    __slots__ = (
        "_extent",
        "_producers",
        "_status",
        "_swap",
        "_tail",
        "_truncations",
        "first_dirty_offset",
        "is_unfinished",
        "next_horizon_ms",
    )

    def __init__(
        self, extent: Extent, tail: Tail, producers: Producers, status: Status, swap: SegmentSwap
    ) -> None:
        self._extent = extent
        self._tail = tail
        self._producers = producers
        self._status = status
        self._swap = swap
        self._truncations = 0
        self.first_dirty_offset = 0
        self.is_unfinished = False
        self.next_horizon_ms: int | None = None

    def restore(self, first_dirty_offset: int) -> None:
        """Take the checkpointed offset.

        One beyond the log's end is of another log, or this one lost its end.
        """
        self.first_dirty_offset = first_dirty_offset if first_dirty_offset <= self._extent.end_offset else 0

    def note_truncation(self) -> None:
        """The log's end moved down: the records that follow were never compacted."""
        self._truncations += 1
        self.first_dirty_offset = min(self.first_dirty_offset, self._extent.end_offset)

    def plan(self, last_stable_offset: int, now_ms: int) -> CleaningPlan | None:
        """The next pass, if the log needs one."""
        config = self._tail.config
        if not config.is_compacted or self._status.refusal is not None or len(self._extent.segments) < 2:
            return None
        facts = LogFacts(
            first_dirty_offset=self.first_dirty_offset,
            log_start_offset=self._extent.start_offset,
            last_stable_offset=last_stable_offset,
            is_unfinished=self.is_unfinished,
            tombstones_due_ms=self.next_horizon_ms,
        )
        return plan_cleaning(self._cleanable_segments(), config, facts, now_ms)

    def begin(self, plan: CleaningPlan, now_ms: int) -> CleaningPass:
        """Begin the planned pass; its job is for a cleaner."""
        segments, config = tuple(self._extent.segments), self._tail.config
        job = CleaningJob(
            directory=self._extent.location.directory,
            first_dirty_offset=plan.first_dirty_offset,
            end_offset=plan.end_offset,
            now_ms=now_ms,
            delete_retention_ms=config.delete_retention_ms,
            index_interval_bytes=config.index_interval_bytes,
            segment_index_bytes=config.segment_index_bytes,
            segments=tuple((segment.base_offset, segment.size_bytes) for segment in segments),
            producers=tuple(
                (producer_id, entry.epoch, entry.first_resendable_offset)
                for producer_id, entry in self._producers.items()
                if entry.first_resendable_offset < plan.end_offset
            ),
        )
        return CleaningPass(job, segments[:-1], self._truncations)

    def groups(self, begun: CleaningPass, end_offset: int) -> list[SegmentGroup]:
        """The groups of segments that are rewritten, in offset order."""
        by_base = {segment.base_offset: segment for segment in begun.segments}
        facts = [_facts(segment) for segment in begun.segments]
        return [
            SegmentGroup(tuple(by_base[base_offset] for base_offset in group), begun.truncations)
            for group in group_segments(facts, end_offset, self._tail.config)
        ]

    def is_intact(self, group: SegmentGroup) -> bool:
        """Whether the group's segments are still the segments that the pass began with."""
        sealed = tuple(self._extent.segments)[:-1]
        if group.truncations != self._truncations or group.segments[0] not in sealed:
            return False
        start = sealed.index(group.segments[0])
        return sealed[start : start + len(group.segments)] == group.segments

    def is_whole(self, begun: CleaningPass) -> bool:
        """Whether every segment that the pass began with is still in the log."""
        is_truncated = self.was_truncated_since(begun)
        return not is_truncated and set(begun.segments) <= set(self._extent.segments)

    def was_truncated_since(self, begun: CleaningPass) -> bool:
        """Whether the log was truncated during the pass."""
        return begun.truncations != self._truncations

    def swap(self, group: SegmentGroup, cleaned: CleanedSegment, now_ms: int) -> bool:
        """Replace the group by the cleaned segment. False if the group has changed: the segment is discarded.

        The old files are removed file.delete.delay.ms later (`Retention`). OSError if the disk failed.
        """
        if self._status.is_closed or not self.is_intact(group):
            if not self._status.is_deleted:
                self._swap.discard(cleaned)
            return False
        self._swap.swap(group.segments, cleaned, now_ms)
        return True

    def drop_cleaned(self) -> None:
        """Remove the files of a pass that failed; in any thread.

        Does nothing if the log itself is deleted.
        """
        if not self._status.is_deleted:
            self._swap.remove_cleaned()

    def complete(self, mapped: Mapped, next_horizon_ms: int | None) -> None:
        """The pass is over: the log is compacted up to `mapped.end_offset`."""
        self.first_dirty_offset = mapped.end_offset
        self.is_unfinished = mapped.is_full
        self.next_horizon_ms = next_horizon_ms

    def _cleanable_segments(self) -> list[CleanableSegment]:
        """With timestamps only where the topic has a compaction lag: each costs a look into the segment."""
        config, segments = self._tail.config, self._extent.segments
        if config.min_compaction_lag_ms <= 0 and config.max_compaction_lag_ms == LONG_MAX:
            return [_facts(segment) for segment in segments]
        return [_dated_facts(segment) for segment in segments]


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
