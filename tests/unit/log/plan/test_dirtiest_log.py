"""Which log is compacted when, how far, and which segments become one (RET-2, RET-5)."""

import pytest
from tests.unit.log.batches import NOW_MS
from tests.unit.log.logs import config

from ottla.config import TopicConfig
from ottla.log.plan.dirtiest_log import (
    CleanableSegment,
    CleaningPlan,
    LogFacts,
    dirtiest,
    group_segments,
    plan_cleaning,
)

COMPACT = ("compact",)
DAY_MS = 86_400_000


def segments(*sizes: int, offsets: int = 10, newest_ms: int = 0) -> list[CleanableSegment]:
    """Segments of these sizes with ten offsets each, the last one active."""
    return [
        CleanableSegment(
            number * offsets, (number + 1) * offsets, size, first_timestamp_ms=newest_ms, newest_ms=newest_ms
        )
        for number, size in enumerate(sizes)
    ]


def plan(
    found: list[CleanableSegment],
    *,
    first_dirty: int = 0,
    start: int = 0,
    stable: int | None = None,
    settings: TopicConfig | None = None,
    is_unfinished: bool = False,
    tombstones_due_ms: int | None = None,
) -> CleaningPlan | None:
    facts = LogFacts(
        first_dirty_offset=first_dirty,
        log_start_offset=start,
        last_stable_offset=found[-1].next_offset if stable is None else stable,
        is_unfinished=is_unfinished,
        tombstones_due_ms=tombstones_due_ms,
    )
    return plan_cleaning(found, settings or config(cleanup_policy=COMPACT), facts, NOW_MS)


def test_a_log_that_was_never_compacted_is_dirty_up_to_its_active_segment() -> None:
    found = plan(segments(100, 100, 50))
    assert found == CleaningPlan(0, 20, clean_bytes=0, dirty_bytes=200, is_urgent=False)
    assert found is not None
    assert found.dirty_ratio == 1.0


def test_a_log_of_one_segment_is_never_compacted() -> None:
    assert plan(segments(100)) is None


def test_exactly_the_dirty_ratio_is_not_enough() -> None:
    assert plan(segments(100, 100, 50), first_dirty=10) is None
    assert plan(segments(100, 101, 50), first_dirty=10) is not None


def test_a_segment_of_which_a_part_is_dirty_counts_by_that_part() -> None:
    found = plan(segments(100, 1000, 50), first_dirty=14)
    assert found == CleaningPlan(14, 20, clean_bytes=500, dirty_bytes=600, is_urgent=False)


def test_an_open_transaction_ends_the_dirty_part() -> None:
    found = plan(segments(100, 100, 50), stable=15)
    assert found is not None
    assert (found.end_offset, found.dirty_bytes) == (15, 150)
    assert plan(segments(100, 100, 50), stable=0) is None


def test_a_checkpoint_outside_the_log_means_that_nothing_is_known_to_be_clean() -> None:
    for first_dirty in (999, 3):
        found = plan(segments(100, 100, 50), first_dirty=first_dirty, start=4)
        assert found is not None
        assert found.first_dirty_offset == 4


def test_young_segments_are_left_alone_with_all_behind_them() -> None:
    settings = config(cleanup_policy=COMPACT, min_compaction_lag_ms=1000)
    found = segments(100, 100, 100, 50)
    found[1] = CleanableSegment(10, 20, 100, newest_ms=NOW_MS - 999)
    planned = plan(found, settings=settings)
    assert planned is not None
    assert planned.end_offset == 10
    found[0] = CleanableSegment(0, 10, 100, newest_ms=NOW_MS - 999)
    assert plan(found, settings=settings) is None


def test_a_record_that_waited_too_long_makes_a_pass_urgent_however_clean_the_log_is() -> None:
    found = segments(100_000, 1, 50, newest_ms=NOW_MS - DAY_MS)
    assert plan(found, first_dirty=10) is None
    settings = config(cleanup_policy=COMPACT, max_compaction_lag_ms=DAY_MS - 1)
    planned = plan(found, first_dirty=10, settings=settings)
    assert planned is not None
    assert planned.is_urgent
    settings = config(cleanup_policy=COMPACT, max_compaction_lag_ms=DAY_MS)
    assert plan(found, first_dirty=10, settings=settings) is None


def test_a_pass_that_ended_early_goes_on() -> None:
    found = segments(100_000, 1, 50)
    planned = plan(found, first_dirty=10, is_unfinished=True)
    assert planned is not None
    assert planned.is_urgent
    assert plan(found, first_dirty=20, is_unfinished=True) is None


def test_tombstones_whose_time_has_come_are_worth_a_pass_without_anything_dirty() -> None:
    found = segments(100, 100, 50)
    planned = plan(found, first_dirty=20, tombstones_due_ms=NOW_MS)
    assert planned == CleaningPlan(20, 20, clean_bytes=200, dirty_bytes=0, is_urgent=True)
    assert plan(found, first_dirty=20, tombstones_due_ms=NOW_MS + 1) is None
    assert plan(found, first_dirty=0, stable=0, tombstones_due_ms=NOW_MS) is None


def test_urgent_logs_come_first_and_then_the_dirtiest() -> None:
    plans = {
        "a": CleaningPlan(0, 9, clean_bytes=10, dirty_bytes=90, is_urgent=False),
        "b": CleaningPlan(0, 9, clean_bytes=5, dirty_bytes=95, is_urgent=False),
    }
    assert dirtiest(plans) == "b"
    plans["c"] = CleaningPlan(0, 9, clean_bytes=95, dirty_bytes=5, is_urgent=True)
    assert dirtiest(plans) == "c"


def test_segments_are_merged_as_long_as_they_fit_into_one() -> None:
    found = segments(40, 40, 40, 200, 10, 10, 5)
    settings = config(cleanup_policy=COMPACT, segment_bytes=100)
    assert group_segments(found, 60, settings) == [(0, 10), (20,), (30,), (40, 50)]
    assert group_segments(found, 25, settings) == [(0, 10), (20,)]
    assert group_segments(found, 0, settings) == []


def test_segments_are_not_merged_beyond_what_an_index_entry_can_say() -> None:
    far = 1 << 31
    found = [
        CleanableSegment(0, 10, 1),
        CleanableSegment(far - 10, far, 1),
        CleanableSegment(far, far + 1, 1),
    ]
    assert group_segments(found, far + 1, config()) == [(0, far - 10), (far,)]


@pytest.mark.parametrize(("interval_bytes", "groups"), [(99, [(0,), (10,), (20,)]), (400, [(0, 10), (20,)])])
def test_segments_are_not_merged_beyond_what_their_index_has_room_for(
    interval_bytes: int, groups: list[tuple[int, ...]]
) -> None:
    # Five time entries have room, so five intervals of bytes fit.
    settings = config(segment_index_bytes=60, index_interval_bytes=interval_bytes)
    assert group_segments(segments(800, 800, 800), 30, settings) == groups
