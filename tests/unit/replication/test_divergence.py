"""Where two logs part, and that cutting there makes one a prefix of the other (REP-6)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.replication.model_log import ModelLog

from ottla.errors import ErrorCode
from ottla.model import EpochEnd
from ottla.replication.divergence import end_of_epoch, judge_fetch, judge_read, truncation_offset

# Epoch 1 at 0..4, epoch 3 at 5..9; the leader is of epoch 6 and has not written yet.
LEADER = ModelLog.of((1, 5), (3, 5))
LEADER_EPOCH = 6


@pytest.mark.parametrize(
    ("epoch", "end"),
    [
        (0, (0, 0)),  # older than all: it ended before the first began
        (1, (1, 5)),
        (2, (1, 5)),
        (3, (3, 10)),
        (4, (3, 10)),  # begun by a leader whose records did not come here
        (6, (6, 10)),  # the leader's own, before its first record
        (7, (-1, -1)),
    ],
)
def test_the_end_of_an_epoch_as_a_leader_says_it(epoch: int, end: tuple[int, int]) -> None:
    assert end_of_epoch(LEADER, LEADER_EPOCH, epoch) == end


def test_in_an_empty_log_every_epoch_ends_where_the_log_does() -> None:
    empty = ModelLog(start=7)
    assert end_of_epoch(empty, 6, 6) == (6, 7)
    assert end_of_epoch(empty, 6, 2) == (2, 7)
    assert end_of_epoch(empty, 6, 9) == (-1, -1)


@pytest.mark.parametrize(
    ("offset", "epoch", "verdict"),
    [
        (10, 3, ErrorCode.NONE),
        (7, 3, ErrorCode.NONE),
        (5, 1, ErrorCode.NONE),
        (0, -1, ErrorCode.NONE),
        (12, 3, EpochEnd(3, 10)),  # a leader that came back with a longer log
        (7, 1, EpochEnd(1, 5)),
        (7, 2, EpochEnd(1, 5)),  # an epoch that the leader never saw
        (12, 5, EpochEnd(3, 10)),
        (3, 0, EpochEnd(0, 0)),
        (11, -1, ErrorCode.OFFSET_OUT_OF_RANGE),
        (12, 9, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_what_a_leader_says_to_a_follower(offset: int, epoch: int, verdict: EpochEnd | ErrorCode) -> None:
    assert judge_fetch(LEADER, LEADER_EPOCH, offset, epoch) == verdict


def test_a_follower_behind_the_leaders_start_is_told_so_whatever_its_epochs_are() -> None:
    log = ModelLog.of((3, 5), start=20)
    assert judge_fetch(log, 3, 19, 1) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert judge_fetch(log, 3, 19, -1) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_follower_whose_records_are_all_deleted_on_the_leader_goes_on_only_if_they_were_the_same() -> None:
    log = ModelLog.of((3, 5), start=20)
    # The leader has forgotten which epoch its record 19 had: the follower's, of epoch 1, may never have been
    # here.
    assert judge_fetch(log, 3, 20, 1) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert judge_fetch(log, 3, 20, -1) is ErrorCode.NONE
    assert judge_fetch(log, 3, 20, 3) is ErrorCode.NONE


def test_a_consumer_whose_records_are_all_deleted_goes_on_where_the_log_starts() -> None:
    log = ModelLog.of((3, 5), start=20)
    assert judge_read(log, 3, 20, 1) is ErrorCode.NONE
    assert judge_read(log, 3, 20, 3) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("diverging", "offset"),
    [
        ((3, 7), 7),  # we have more of the common epoch than the leader
        ((1, 20), 5),  # the leader has more of it
        ((2, 5), 5),
        ((1, 3), 3),
        ((4, 8), 8),
        ((0, 0), 0),
    ],
)
def test_where_a_follower_cuts(diverging: tuple[int, int], offset: int) -> None:
    assert truncation_offset(ModelLog.of((1, 5), (3, 5)), EpochEnd(*diverging)) == offset


def test_a_log_that_knows_no_epoch_that_old_is_cut_at_its_start() -> None:
    assert truncation_offset(ModelLog.of((5, 3), start=10), EpochEnd(2, 12)) == 10


@given(st.data())
def test_logs_that_obey_the_rule_agree_after_a_few_cuts(data: st.DataObject) -> None:
    """Histories share a prefix and part; each epoch's records were written by one leader."""
    common = ModelLog.of(*((epoch, data.draw(st.integers(0, 3))) for epoch in range(3)))
    logs = []
    for side in range(2):
        log = ModelLog(list(common.entries))
        for epoch in sorted(data.draw(st.sets(st.integers(3, 12), max_size=4))):
            if epoch % 2 == side:
                for value in range(data.draw(st.integers(1, 3))):
                    log.append(epoch, value)
        logs.append(log)
    leader, follower = logs
    for _ in range(20):
        verdict = judge_fetch(leader, 13, follower.log_end_offset, follower.latest_epoch)
        if verdict is ErrorCode.NONE:
            break
        assert isinstance(verdict, EpochEnd)
        offset = truncation_offset(follower, verdict)
        assert offset < follower.log_end_offset
        follower.truncate_to(offset)
    assert verdict is ErrorCode.NONE
    assert follower.entries == leader.entries[: len(follower.entries)]
    assert len(follower.entries) >= len(common.entries)
