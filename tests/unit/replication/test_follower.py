"""A follower's fetches, and the effects of the answers (REP-1, REP-6)."""

import pytest
from tests.unit.replication.model_log import ModelLog

from ottla.errors import ErrorCode
from ottla.model import EpochEnd
from ottla.replication.follower import (
    FETCH_BACKOFF_MAX_MS,
    FETCH_BACKOFF_MS,
    Append,
    AppendFailed,
    BackOff,
    BeginAt,
    Failed,
    FetchAnswered,
    FetchFrom,
    Follower,
    HighWatermarkMoved,
    LogStartMoved,
)
from ottla.replication.log_holes import TruncateTo

RECORDS = b"records"


def follower() -> Follower:
    machine = Follower(node_id=2)
    machine.follow(leader=1, leader_epoch=6)
    return machine


def asked(machine: Follower, log: ModelLog, now_ms: int = 0) -> FetchFrom:
    question = machine.next_fetch(log, now_ms)
    assert question is not None
    return question


# -- asking


def test_it_asks_where_its_log_ends_and_says_of_which_epoch_its_last_record_is() -> None:
    log = ModelLog.of((1, 5), (3, 5))
    log.advance_start(2)
    assert asked(follower(), log) == FetchFrom(
        fetch_offset=10, current_leader_epoch=6, last_fetched_epoch=3, log_start_offset=2
    )


def test_an_empty_log_has_no_epoch() -> None:
    assert asked(follower(), ModelLog(start=7)) == FetchFrom(7, 6, -1, 7)


@pytest.mark.parametrize("leader", [-1, 2])
def test_without_another_node_that_leads_there_is_nobody_to_ask(leader: int) -> None:
    machine = Follower(node_id=2)
    assert machine.next_fetch(ModelLog(), 0) is None
    machine.follow(leader, 6)
    assert machine.next_fetch(ModelLog(), 0) is None


def test_an_older_leader_is_not_followed_again() -> None:
    machine = follower()
    machine.follow(leader=3, leader_epoch=5)
    machine.follow(leader=3, leader_epoch=6)
    assert (machine.leader, machine.leader_epoch) == (1, 6)
    machine.follow(leader=3, leader_epoch=7)
    assert (machine.leader, machine.leader_epoch) == (3, 7)


# -- answers


def test_records_are_appended_before_the_high_watermark_is_taken_over() -> None:
    machine, log = follower(), ModelLog.of((3, 5))
    answer = FetchAnswered(asked(machine, log), high_watermark=8, log_start_offset=0, records=RECORDS)
    assert machine.step(answer, log, 0) == [Append(RECORDS), HighWatermarkMoved(8)]


def test_an_answer_without_records_still_tells_the_high_watermark() -> None:
    machine, log = follower(), ModelLog.of((3, 5))
    answer = FetchAnswered(asked(machine, log), high_watermark=5, log_start_offset=0)
    assert machine.step(answer, log, 0) == [HighWatermarkMoved(5)]


def test_what_the_leader_deleted_is_deleted_here_last_of_all() -> None:
    machine, log = follower(), ModelLog.of((3, 5))
    answer = FetchAnswered(asked(machine, log), high_watermark=8, log_start_offset=3, records=RECORDS)
    assert machine.step(answer, log, 0) == [Append(RECORDS), HighWatermarkMoved(8), LogStartMoved(3)]


def test_where_the_logs_part_it_cuts_its_own() -> None:
    machine, log = follower(), ModelLog.of((3, 5), (5, 5))
    answer = FetchAnswered(asked(machine, log), diverging=EpochEnd(3, 4))
    assert machine.step(answer, log, 0) == [TruncateTo(4)]
    log.truncate_to(4)
    assert asked(machine, log) == FetchFrom(4, 6, 3, 0)


def test_it_stops_before_it_cuts_what_is_committed() -> None:
    machine, log = follower(), ModelLog.of((3, 5), (5, 5))
    answer = FetchAnswered(asked(machine, log), diverging=EpochEnd(3, 4))
    (failed,) = machine.step(answer, log, 0, high_watermark=5)
    assert isinstance(failed, Failed)
    assert "from offset 4 on, and the records up to 5 are committed" in failed.reason
    assert machine.next_fetch(log, 99_999) is None
    machine.follow(machine.leader, machine.leader_epoch + 1)
    assert machine.next_fetch(log, 99_999) is not None


def test_after_an_unclean_election_it_cuts_what_was_committed() -> None:
    machine, log = follower(), ModelLog.of((3, 5), (5, 5))
    machine.follow(machine.leader, machine.leader_epoch + 1, is_recovering=True)
    answer = FetchAnswered(asked(machine, log), diverging=EpochEnd(3, 4))
    assert machine.step(answer, log, 0, high_watermark=5) == [TruncateTo(4)]


def test_a_cut_that_cuts_nothing_is_no_reason_to_ask_again_at_once() -> None:
    machine, log = follower(), ModelLog.of((3, 5))
    answer = FetchAnswered(asked(machine, log), diverging=EpochEnd(3, 9))
    assert machine.step(answer, log, 0) == [BackOff(FETCH_BACKOFF_MS, ErrorCode.UNKNOWN_SERVER_ERROR)]
    (nonsense,) = machine.step(FetchAnswered(asked(machine, log, 99), diverging=EpochEnd(-1, -1)), log, 99)
    assert isinstance(nonsense, BackOff)


def test_who_is_behind_the_leaders_start_begins_there() -> None:
    machine, log = follower(), ModelLog.of((3, 5))
    answer = FetchAnswered(
        asked(machine, log), ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=40, log_start_offset=30
    )
    assert machine.step(answer, log, 0) == [BeginAt(30)]


def test_who_has_only_what_the_leader_deleted_begins_there_if_it_is_told_so() -> None:
    machine, log = follower(), ModelLog.of((3, 30))
    answer = FetchAnswered(
        asked(machine, log), ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=40, log_start_offset=30
    )
    assert machine.step(answer, log, 0) == [BeginAt(30)]


def test_who_has_nothing_and_is_ahead_of_the_leader_begins_where_the_leader_begins() -> None:
    machine, log = follower(), ModelLog(start=100)
    answer = FetchAnswered(
        asked(machine, log), ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=40, log_start_offset=30
    )
    assert machine.step(answer, log, 0) == [BeginAt(30)]


def test_records_are_never_thrown_away_because_the_leader_says_so_without_a_reason() -> None:
    machine, log = follower(), ModelLog.of((3, 50))
    answer = FetchAnswered(
        asked(machine, log), ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=40, log_start_offset=30
    )
    assert machine.step(answer, log, 0) == [BackOff(FETCH_BACKOFF_MS, ErrorCode.OFFSET_OUT_OF_RANGE)]
    empty = ModelLog(start=30)
    unsaid = FetchAnswered(asked(machine, empty, 99), ErrorCode.OFFSET_OUT_OF_RANGE)
    (effect,) = machine.step(unsaid, empty, 99)
    assert isinstance(effect, BackOff)


# -- answers to other questions


@pytest.mark.parametrize(
    "other",
    [
        FetchFrom(5, 5, 3, 0),  # of an earlier leader
        FetchFrom(4, 6, 3, 0),  # before what has come since
        FetchFrom(9, 6, 3, 0),  # before a cut
        FetchFrom(5, 6, 4, 0),  # when the last record was another one
    ],
)
@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_an_answer_to_another_question_is_dropped(other: FetchFrom, error: ErrorCode) -> None:
    machine, log = follower(), ModelLog.of((3, 5))
    answer = FetchAnswered(other, error, high_watermark=9, log_start_offset=0, records=RECORDS)
    assert machine.step(answer, log, 0) == []
    assert machine.next_fetch(log, 0) is not None


# -- errors


@pytest.mark.parametrize(
    "error",
    [ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER,
     ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.STALE_BROKER_EPOCH],
)  # fmt: skip
def test_after_an_error_it_waits(error: ErrorCode) -> None:
    machine, log = follower(), ModelLog()
    assert machine.step(FetchAnswered(asked(machine, log), error), log, 100) == [
        BackOff(100 + FETCH_BACKOFF_MS, error)
    ]
    assert machine.next_fetch(log, 100 + FETCH_BACKOFF_MS - 1) is None
    assert machine.next_fetch(log, 100 + FETCH_BACKOFF_MS) is not None


def test_it_waits_longer_each_time_up_to_a_bound_and_a_good_answer_or_a_new_leader_ends_that() -> None:
    machine, log, now_ms, pauses = follower(), ModelLog(), 0, []
    for _ in range(8):
        question = asked(machine, log, now_ms)
        machine.step(FetchAnswered(question, ErrorCode.UNKNOWN_LEADER_EPOCH), log, now_ms)
        pauses.append(machine.retry_at_ms - now_ms)
        now_ms = machine.retry_at_ms
    assert pauses == [20, 40, 80, 160, 320, 640, FETCH_BACKOFF_MAX_MS, FETCH_BACKOFF_MAX_MS]
    machine.step(FetchAnswered(asked(machine, log, now_ms), high_watermark=0), log, now_ms)
    machine.step(FetchAnswered(asked(machine, log, now_ms), ErrorCode.UNKNOWN_LEADER_EPOCH), log, now_ms)
    assert machine.retry_at_ms - now_ms == FETCH_BACKOFF_MS
    machine.follow(3, 7)
    assert machine.next_fetch(log, now_ms) is not None


def test_records_that_cannot_be_appended_are_fetched_again_later() -> None:
    machine, log = follower(), ModelLog()
    assert machine.step(AppendFailed(ErrorCode.CORRUPT_MESSAGE), log, 100) == [
        BackOff(100 + FETCH_BACKOFF_MS, ErrorCode.CORRUPT_MESSAGE)
    ]
    again = FetchAnswered(asked(machine, log, 200), high_watermark=1, records=RECORDS)
    assert machine.step(again, log, 200) == [Append(RECORDS), HighWatermarkMoved(1)]
    machine.step(AppendFailed(ErrorCode.KAFKA_STORAGE_ERROR), log, 200)
    assert machine.retry_at_ms == 200 + 2 * FETCH_BACKOFF_MS
    log.append(6, 0)
    machine.step(FetchAnswered(asked(machine, log, 300), high_watermark=1, records=RECORDS), log, 300)
    machine.step(AppendFailed(ErrorCode.KAFKA_STORAGE_ERROR), log, 300)
    assert machine.retry_at_ms == 300 + FETCH_BACKOFF_MS


def test_the_longest_pause_can_be_set() -> None:
    machine, log = Follower(node_id=2, backoff_max_ms=30), ModelLog()
    machine.step(AppendFailed(ErrorCode.CORRUPT_MESSAGE), log, 0)
    machine.step(AppendFailed(ErrorCode.CORRUPT_MESSAGE), log, 0)
    assert machine.retry_at_ms == 30


def test_a_log_that_takes_no_more_writes_is_fetched_for_no_more() -> None:
    machine, log = follower(), ModelLog()
    (effect,) = machine.step(AppendFailed(ErrorCode.KAFKA_STORAGE_ERROR, is_lasting=True), log, 100)
    assert isinstance(effect, Failed)
    assert machine.next_fetch(log, 10**9) is None
    machine.follow(3, 7)
    assert machine.next_fetch(log, 200) is not None
