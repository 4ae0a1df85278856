"""The oldest segments of all logs go first when the memory is nearly full (OPS-1)."""

from ottla.log.plan.memory_release import LogFacts, plan_release
from ottla.log.plan.retention import SegmentFacts


def facts(*ages: int, deletable_up_to: int = 1000, size_bytes: int = 10) -> LogFacts:
    """A log whose segments of ten records have these newest timestamps; the last one is active."""
    segments = [
        SegmentFacts(number * 10, number * 10 + 10, size_bytes, age, age) for number, age in enumerate(ages)
    ]
    return LogFacts(segments, 0, deletable_up_to)


def test_the_oldest_segments_of_all_logs_are_deleted_until_enough_is_released() -> None:
    logs = {"a": facts(1, 4, 9), "b": facts(2, 3, 8), "c": facts(5, 6)}
    release = plan_release(logs, 35)
    assert {name: plan.segments for name, plan in release.plans.items()} == {"a": (0, 10), "b": (0, 10)}
    assert release.plans["a"].log_start_offset == 20
    assert release.rolls == []


def test_nothing_above_the_high_watermark_is_deleted_and_no_active_segment() -> None:
    release = plan_release({"a": facts(1, 2, 3, deletable_up_to=15), "b": facts(1)}, 5)
    assert {name: plan.segments for name, plan in release.plans.items()} == {"a": (0,)}


def test_the_largest_active_segments_are_rolled_where_closed_ones_do_not_suffice() -> None:
    logs = {
        "small": facts(1, size_bytes=5),
        "large": facts(1, size_bytes=50),
        "empty": facts(1, size_bytes=0),
    }
    release = plan_release(logs, 52)
    assert release.plans == {}
    assert release.rolls == ["large", "small"]
