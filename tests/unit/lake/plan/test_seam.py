"""Where table and log meet, and which files and ranges a query can want."""

from __future__ import annotations

import pytest

from ottla.lake.plan.conditions import Bounds
from ottla.lake.plan.next_commit import LogState, LostRecordsError
from ottla.lake.plan.seam import FileSpan, hot_ranges, is_wanted
from ottla.spark.source.plan.offsets import OffsetRange

LOG = LogState("orders", "A", {0: 0, 1: 30}, {0: 50, 1: 60})


def test_the_log_is_read_from_the_seam_on() -> None:
    assert hot_ranges({0: 40, 1: 60}, LOG, Bounds()) == [OffsetRange("orders", 0, 40, 50)]


def test_filters_narrow_what_is_read_of_the_log() -> None:
    wanted = Bounds(frozenset({0}), 45, 48)
    assert hot_ranges({0: 40, 1: 40}, LOG, wanted) == [OffsetRange("orders", 0, 45, 48)]
    assert hot_ranges({0: 40, 1: 40}, LOG, Bounds(ends={0: 10, 1: 41})) == [OffsetRange("orders", 1, 40, 41)]


def test_a_log_that_begins_after_the_seam_is_an_error_unless_nobody_wants_the_gap() -> None:
    with pytest.raises(LostRecordsError, match="offsets 20 to 29 of orders-1"):
        hot_ranges({0: 50, 1: 20}, LOG, Bounds())
    assert hot_ranges({0: 50, 1: 20}, LOG, Bounds(first_offset=55)) == [OffsetRange("orders", 1, 55, 60)]


def test_files_that_cannot_hold_a_wanted_row_are_left_out() -> None:
    span = FileSpan((0, 0), (10, 19), (1000, 2000))
    assert is_wanted(span, Bounds())
    assert is_wanted(span, Bounds(frozenset({0}), 19, 25, {}, 2000, 2001))
    assert not is_wanted(span, Bounds(frozenset({1})))
    assert not is_wanted(span, Bounds(first_offset=20))
    assert not is_wanted(span, Bounds(end_offset=10))
    assert not is_wanted(span, Bounds(ends={0: 10}))
    assert not is_wanted(span, Bounds(since_ms=2001))
    assert not is_wanted(span, Bounds(until_ms=1000))


def test_a_file_without_statistics_or_of_several_partitions_may_hold_anything() -> None:
    assert is_wanted(FileSpan(None, None, None), Bounds(frozenset({7}), 5, 6, {}, 5, 6))
    assert is_wanted(FileSpan((0, 3), (10, 19), None), Bounds(frozenset({7}), 50, 60))
