"""Comparing two logs by their epochs and offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.quorum.model_disk import SimulatedLog
from tests.unit.raft.members import log_of

from ottla.model import EpochEnd
from ottla.raft.log_view import is_up_to_date, judge_fetch, truncation_offset
from ottla.raft.messages import SnapshotId


def behind_snapshot() -> SimulatedLog:
    """Epochs 1 1 3 5 5 5, of which a snapshot holds the first three."""
    log = log_of(1, 1, 3, 5, 5, 5)
    log.advance_start(SnapshotId(3, 3))
    log.latest_snapshot = SnapshotId(3, 3)
    return log


@pytest.mark.parametrize(
    ("offset", "epoch", "verdict"),
    [
        (0, -1, None),
        (2, 1, None),
        (3, 3, None),
        (6, 5, None),
        (7, 5, EpochEnd(5, 6)),
        (3, 1, EpochEnd(1, 2)),
        (3, 2, EpochEnd(1, 2)),
        (5, 4, EpochEnd(3, 3)),
        (9, 8, EpochEnd(5, 6)),
    ],
)
def test_a_fetch_goes_on_where_the_logs_agree(offset: int, epoch: int, verdict: EpochEnd | None) -> None:
    assert judge_fetch(log_of(1, 1, 3, 5, 5, 5), offset, epoch) == verdict


@pytest.mark.parametrize(
    ("offset", "epoch", "verdict"),
    [
        (0, -1, SnapshotId(3, 3)),
        (2, 1, SnapshotId(3, 3)),
        (3, 3, None),
        (3, 2, SnapshotId(3, 3)),  # it has another record before the snapshot's end
        (3, 4, SnapshotId(3, 3)),
        (4, 2, SnapshotId(3, 3)),
        (4, 3, EpochEnd(3, 3)),
        (4, 5, None),
        (5, 4, EpochEnd(4, 3)),
    ],
)
def test_who_parts_before_the_logs_start_needs_the_snapshot(
    offset: int, epoch: int, verdict: EpochEnd | SnapshotId | None
) -> None:
    assert judge_fetch(behind_snapshot(), offset, epoch) == verdict


def test_an_empty_log_behind_a_snapshot_knows_its_last_epoch() -> None:
    log = log_of()
    log.reset(SnapshotId(3, 3))
    assert is_up_to_date(log, 3, 3)
    assert not is_up_to_date(log, 2, 9)
    assert judge_fetch(log, 3, 3) is None


@st.composite
def logs(draw: st.DrawFn) -> list[list[int]]:
    """Logs as leaders make them: each begins with a part of another's log, and goes on in an epoch of its
    own.
    """
    made: list[list[int]] = [[]]
    for epoch in range(1, 6):
        base = draw(st.sampled_from(made))
        made.append(base[: draw(st.integers(0, len(base)))] + [epoch] * draw(st.integers(1, 3)))
    return made


@given(logs(), st.data())
def test_logs_meet_where_they_parted(made: list[list[int]], data: st.DataObject) -> None:
    """Cutting as told, again and again, ends at the common beginning of the two, and not before it."""
    ours, theirs = data.draw(st.sampled_from(made)), data.draw(st.sampled_from(made))
    leader, follower = log_of(*ours), log_of(*theirs)
    common = next((n for n, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), None)
    while verdict := judge_fetch(leader, follower.log_end_offset, follower.last_epoch):
        assert isinstance(verdict, EpochEnd)
        offset = truncation_offset(follower, verdict)
        assert offset < follower.log_end_offset
        follower.truncate(offset)
    assert follower.log_end_offset == (min(len(ours), len(theirs)) if common is None else common)
