"""The ranges of the next commit, under random crashes and a second writer: never a gap, never a duplicate."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.lake.plan.conditions import Bounds
from ottla.lake.plan.next_commit import (
    Cadence,
    LogState,
    LostRecordsError,
    WrongTopicError,
    check_topic,
    ends_of,
    lag_records,
    next_offsets,
    next_ranges,
    tasks_of,
)
from ottla.lake.plan.seam import hot_ranges
from ottla.lake.plan.table_offsets import TableOffsets
from ottla.spark.source.plan.offsets import OffsetRange


def log(starts: dict[int, int], ends: dict[int, int], topic_id: str = "A") -> LogState:
    return LogState("orders", topic_id, starts, ends)


def test_a_new_table_begins_where_the_log_does() -> None:
    state = log({0: 5, 1: 0}, {0: 9, 1: 0})
    begins = next_offsets(None, state, from_latest=False)
    assert next_ranges(begins, state, most_records=100) == [OffsetRange("orders", 0, 5, 9)]


def test_a_table_from_the_latest_begins_at_the_end_and_a_new_partition_at_its_beginning() -> None:
    assert next_offsets(None, log({0: 5}, {0: 9}), from_latest=True) == {0: 9}
    known = TableOffsets("orders", "A", {0: 9})
    assert next_offsets(known, log({0: 5, 1: 2}, {0: 12, 1: 4}), from_latest=True) == {0: 9, 1: 2}


def test_records_that_retention_deleted_first_are_an_error_that_can_be_accepted() -> None:
    state = log({0: 50}, {0: 60})
    with pytest.raises(LostRecordsError, match="offsets 10 to 49 of orders-0"):
        next_ranges({0: 10}, state, most_records=100)
    assert next_ranges({0: 10}, state, most_records=100, accept_loss=True) == [
        OffsetRange("orders", 0, 50, 60)
    ]


def test_another_topic_of_the_same_name_is_refused() -> None:
    with pytest.raises(WrongTopicError, match="deleted and created again"):
        check_topic(TableOffsets("orders", "A", {0: 1}), log({0: 0}, {0: 9}, topic_id="B"))


def test_a_commit_has_a_limit_that_partitions_share() -> None:
    ranges = next_ranges({0: 0, 1: 0}, log({0: 0, 1: 0}, {0: 900, 1: 100}), most_records=100)
    assert [(each.partition, each.start, each.end) for each in ranges] == [(0, 0, 90), (1, 0, 10)]
    assert ends_of(tasks_of(ranges, 40)) == {0: 90, 1: 10}


def test_a_gap_between_the_pieces_of_a_partition_is_an_error_of_the_program() -> None:
    with pytest.raises(AssertionError, match="a gap"):
        ends_of([OffsetRange("orders", 0, 0, 5), OffsetRange("orders", 0, 6, 9)])


def test_a_continuous_writer_commits_many_records_at_once_and_few_after_a_while() -> None:
    cadence = Cadence(records=100, wait_ms=1000)
    assert not cadence.is_due(0, 5000)
    assert not cadence.is_due(99, 999)
    assert cadence.is_due(100, 0)
    assert cadence.is_due(1, 1000)


# ---- random stories


@dataclass
class Story:
    """A log, a table with rows and offsets that change together, and writers that are stopped anywhere."""

    ends: dict[int, int] = field(default_factory=lambda: {0: 0})
    version: int = 0
    offsets: TableOffsets | None = None
    rows: Counter[tuple[int, int]] = field(default_factory=Counter)
    drafts: dict[int, Any] = field(default_factory=dict)

    def state(self) -> LogState:
        return log(dict.fromkeys(self.ends, 0), dict(self.ends))

    def plan(self, writer: int, most: int) -> None:
        state = self.state()
        begins = next_offsets(self.offsets, state, from_latest=False)
        ranges = tasks_of(next_ranges(begins, state, most_records=most), 3)
        self.drafts[writer] = self.version, self.offsets, ranges

    def commit(self, writer: int) -> None:
        if writer not in self.drafts:
            return
        version, base, ranges = self.drafts.pop(writer)
        if version != self.version:
            return  # the table's own check: this writer lost
        self.rows.update(
            (each.partition, offset) for each in ranges for offset in range(each.start, each.end)
        )
        self.offsets = (base or TableOffsets("orders", "A")).advanced(ends_of(ranges))
        self.version += 1

    def check(self) -> None:
        """The table is a prefix of each partition; table and log together are everything, once."""
        seam = next_offsets(self.offsets, self.state(), from_latest=False)
        assert self.rows == Counter((each, offset) for each, end in seam.items() for offset in range(end))
        hot = hot_ranges(seam, self.state(), Bounds())
        read = self.rows + Counter((each.partition, at) for each in hot for at in range(each.start, each.end))
        assert read == Counter((each, offset) for each, end in self.ends.items() for offset in range(end))
        assert lag_records(seam, self.state()) == sum(each.size for each in hot)


STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 3), st.integers(1, 12)),
    st.tuples(st.just("plan"), st.integers(0, 1), st.integers(1, 20)),
    st.tuples(st.just("commit"), st.integers(0, 1), st.just(0)),
    st.tuples(st.just("crash"), st.integers(0, 1), st.just(0)),
)


@given(st.lists(STEPS, max_size=40))
@settings(max_examples=150)
def test_crashes_and_two_writers_leave_neither_gap_nor_duplicate(steps: list[tuple[str, int, int]]) -> None:
    story = Story()
    for kind, which, amount in steps:
        if kind == "append":
            for partition in range(which + 1):  # partitions are added without gaps
                story.ends.setdefault(partition, 0)
            story.ends[which] += amount
        elif kind == "plan":
            story.plan(which, amount)
        elif kind == "commit":
            story.commit(which)
        else:
            story.drafts.pop(which, None)
        story.check()
