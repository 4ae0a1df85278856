"""Which log is compacted next, how far, and which of its segments become one (RET-2, RET-5). Pure.

A log has a clean part, which was compacted before, and a dirty part after it. A pass reads the dirty part to
map each key to its newest offset, then rewrites everything from the log's start to the end of that part.

    log start      first dirty offset                              end offset                    log end
        |  clean           |    dirty: mapped, then rewritten          |   not touched              |

The end is the first of: the last stable offset, the active segment, a segment younger than
`min.compaction.lag.ms`. A log is compacted when more than `min.cleanable.dirty.ratio` of it is dirty, or when
it is urgent: there is a dirty record older than `max.compaction.lag.ms`, the last pass ended early because
the offset map was full, or tombstones have reached their delete horizon. Urgent logs come first, then the
dirtiest.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from ottla.config import TopicConfig

# An index entry holds an offset's distance from the segment's base in 31 bits.
_LARGEST_SPAN: Final = (1 << 31) - 1
_TIME_INDEX_ENTRY_BYTES: Final = 12  # the longer of the two kinds of entries
_SMALLEST_BATCH_BYTES: Final = 61

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class CleanableSegment:
    """The facts about a segment. The times are needed only if the topic has a compaction lag."""

    base_offset: int
    next_offset: int
    size_bytes: int
    first_timestamp_ms: int = -1
    newest_ms: int = -1

    def bytes_between(self, start: int, end: int) -> int:
        """The approximate number of its bytes in [start, end), by the share of its offsets."""
        span = max(self.next_offset - self.base_offset, 1)
        covered = min(end, self.next_offset) - max(start, self.base_offset)
        return self.size_bytes * max(covered, 0) // span


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """A pass over [log start, end_offset), of which [first_dirty_offset, end_offset) is dirty."""

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_urgent: bool

    @property
    def dirty_ratio(self) -> float:
        total_bytes = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total_bytes if total_bytes else 0.0


@dataclass(frozen=True, slots=True)
class LogFacts:
    """The facts about a log, apart from its segments."""

    first_dirty_offset: int  # where the last pass ended, if that is known
    log_start_offset: int
    last_stable_offset: int
    is_unfinished: bool = False  # the last pass ended early
    tombstones_due_ms: int | None = None  # when the next tombstones may be removed


def plan_cleaning(
    segments: Sequence[CleanableSegment], config: TopicConfig, facts: LogFacts, now_ms: int
) -> CleaningPlan | None:
    """The next pass over a log whose last segment is the active one; None if it needs none now."""
    first_dirty = _first_dirty_offset(segments, facts)
    dirty = [segment for segment in segments[:-1] if segment.next_offset > first_dirty]
    end = max(_end_offset(segments, dirty, config, facts, now_ms), first_dirty)
    has_due_tombstones = facts.tombstones_due_ms is not None and facts.tombstones_due_ms <= now_ms
    if end == first_dirty and not (has_due_tombstones and first_dirty > segments[0].base_offset):
        return None
    plan = CleaningPlan(
        first_dirty_offset=first_dirty,
        end_offset=end,
        clean_bytes=sum(segment.bytes_between(0, first_dirty) for segment in segments),
        dirty_bytes=sum(segment.bytes_between(first_dirty, end) for segment in dirty),
        is_urgent=has_due_tombstones
        or facts.is_unfinished
        or _is_overdue(dirty, end, config.max_compaction_lag_ms, now_ms),
    )
    return plan if plan.is_urgent or plan.dirty_ratio > config.min_cleanable_dirty_ratio else None


def dirtiest(plans: Mapping[K, CleaningPlan]) -> K:
    """The key of the plan to carry out first."""
    return max(plans, key=lambda key: (plans[key].is_urgent, plans[key].dirty_ratio))


def group_segments(
    segments: Iterable[CleanableSegment], end_offset: int, config: TopicConfig
) -> list[tuple[int, ...]]:
    """The base offsets of the segments that are rewritten, in groups that each become one segment."""
    return list(_groups([segment for segment in segments if segment.base_offset < end_offset], config))


def _groups(segments: Sequence[CleanableSegment], config: TopicConfig) -> Iterator[tuple[int, ...]]:
    largest_bytes = min(config.segment_bytes, _largest_indexable_bytes(config))
    group: list[int] = []
    size_bytes = 0
    for segment in segments:
        is_too_large = size_bytes + segment.size_bytes > largest_bytes
        if group and (is_too_large or segment.next_offset - 1 - group[0] > _LARGEST_SPAN):
            yield tuple(group)
            group, size_bytes = [], 0
        group.append(segment.base_offset)
        size_bytes += segment.size_bytes
    if group:
        yield tuple(group)


def _largest_indexable_bytes(config: TopicConfig) -> int:
    """The maximum size of a segment whose indexes have room for all its entries."""
    bytes_per_entry = max(config.index_interval_bytes + 1, _SMALLEST_BATCH_BYTES)
    return config.segment_index_bytes // _TIME_INDEX_ENTRY_BYTES * bytes_per_entry


def _first_dirty_offset(segments: Sequence[CleanableSegment], facts: LogFacts) -> int:
    start = max(facts.log_start_offset, segments[0].base_offset)
    # Beyond the log's end: the log was truncated since, or another log had this name. Nothing counts as clean
    # then.
    is_known = start <= facts.first_dirty_offset <= segments[-1].next_offset
    return facts.first_dirty_offset if is_known else start


def _end_offset(
    segments: Sequence[CleanableSegment],
    dirty: Sequence[CleanableSegment],
    config: TopicConfig,
    facts: LogFacts,
    now_ms: int,
) -> int:
    end = min(facts.last_stable_offset, segments[-1].base_offset)
    if config.min_compaction_lag_ms > 0:
        youngest_ms = now_ms - config.min_compaction_lag_ms
        too_young = (segment.base_offset for segment in dirty if segment.newest_ms > youngest_ms)
        end = min(end, next(too_young, end))
    return end


def _is_overdue(dirty: Sequence[CleanableSegment], end: int, max_lag_ms: int, now_ms: int) -> bool:
    oldest_ms = now_ms - max_lag_ms
    return any(0 <= segment.first_timestamp_ms < oldest_ms for segment in dirty if segment.base_offset < end)
