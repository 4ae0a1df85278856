"""Which segments go when the memory for data is nearly full: the oldest of all logs. Pure.

The active segment of a log is never deleted, nor are records above its high watermark. If the closed segments do
not suffice, the plan says which active segments to roll, the largest first, so that the next plan can delete
them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from ottla.log.plan.retention import Deletion, Reason, RetentionPlan, SegmentFacts

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class LogFacts:
    """One log whose old segments may be deleted."""

    segments: Sequence[SegmentFacts]
    log_start_offset: int
    deletable_up_to: int


@dataclass(frozen=True, slots=True)
class Release(Generic[K]):
    """A plan for each log that loses segments, and the logs to roll."""

    plans: Mapping[K, RetentionPlan]
    rolls: Sequence[K]


def plan_release(logs: Mapping[K, LogFacts], wanted_bytes: int) -> Release[K]:
    """Delete the oldest segments until `wanted_bytes` are released."""
    keys = list(logs)
    # (age, log, segment): a log's segments go in order, whatever their timestamps.
    oldest = [(logs[key].segments[0].newest_ms, log, 0) for log, key in enumerate(keys)]
    heapify(oldest)
    gone: dict[K, int] = {}
    while oldest and wanted_bytes > 0:
        _, log, number = heappop(oldest)
        facts = logs[keys[log]]
        segment = facts.segments[number]
        if number + 1 >= len(facts.segments) or segment.next_offset > facts.deletable_up_to:
            continue
        wanted_bytes -= segment.size_bytes
        gone[keys[log]] = number + 1
        heappush(oldest, (facts.segments[number + 1].newest_ms, log, number + 1))
    rolls: list[K] = []
    for key in sorted(keys, key=lambda key: logs[key].segments[-1].size_bytes, reverse=True):
        active = logs[key].segments[-1]
        if wanted_bytes <= 0 or not active.size_bytes:
            break
        rolls.append(key)
        wanted_bytes -= active.size_bytes
    return Release({key: _deletion_of(logs[key], count) for key, count in gone.items()}, rolls)


def _deletion_of(facts: LogFacts, count: int) -> RetentionPlan:
    deleted = facts.segments[:count]
    return RetentionPlan(
        deletions=tuple(Deletion(segment.base_offset, Reason.MEMORY) for segment in deleted),
        log_start_offset=max(facts.log_start_offset, deleted[-1].next_offset),
        roll_active=False,
    )
