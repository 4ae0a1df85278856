"""How a follower fetches, appends, cuts, and loses its leader (CTL-5)."""

from __future__ import annotations

from tests.quorum.model_disk import Entry
from tests.unit.raft.members import SETTINGS, Member, flush, key, log_of

from ottla.errors import ErrorCode
from ottla.model import EpochEnd
from ottla.raft.events import (
    AppendRecords,
    AppendRefused,
    Disconnected,
    FinishSnapshot,
    Flush,
    Flushed,
    Halt,
    HighWatermarkAdvanced,
    LeaderChanged,
    LogChanged,
    ResetLog,
    Send,
    SnapshotReady,
    SnapshotRefused,
    Tick,
    TruncateTo,
    Unanswered,
    WriteSnapshot,
)
from ottla.raft.messages import (
    BeginEpoch,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    SnapshotId,
    Vote,
)
from ottla.raft.node import State
from ottla.raft.quorum_state import QuorumState

SNAPSHOT = SnapshotId(10, 3)


def fetches(member: Member) -> list[Send]:
    return [send for send in member.all(Send) if isinstance(send.request, Fetch)]


def piece(member: Member, position: int, data: bytes, size: int = 6) -> FetchSnapshotAnswer:
    leader_id = member.replica.leader_id
    return FetchSnapshotAnswer(
        ErrorCode.NONE, member.replica.epoch, leader_id, SNAPSHOT, size, position, data
    )


def test_a_follower_asks_its_leader_for_what_comes_next() -> None:
    member = Member(log=log_of(1, 1))
    send = member.become_follower(leader_id=3, epoch=2)
    assert send.to == 3
    assert send.request == Fetch(key(1), True, 2, 2, 1, 0, 500, SETTINGS.fetch_max_bytes)
    assert send.timeout_ms == SETTINGS.fetch_max_wait_ms + SETTINGS.quorum.request_timeout_ms


def test_it_appends_flushes_and_asks_again() -> None:
    member = Member()
    member.answer(member.become_follower(), member.fetched(high_watermark=0, records=b"records"))
    assert member.effects == [AppendRecords(b"records")]
    member.log.append(Entry(1, 0))
    assert member.hear(LogChanged()) == [Flush()]
    flush(member.log)
    member.hear(Flushed())
    (send,) = fetches(member)
    assert isinstance(send.request, Fetch)
    assert send.request.fetch_offset == 1


def test_a_voter_asks_for_nothing_before_its_log_is_flushed() -> None:
    member = Member(log=log_of(1, flushed=False))
    assert member.all(Flush)
    member.ask(BeginEpoch(1, 2, 2))
    member.persist()
    assert not fetches(member)
    member.flush()
    assert len(fetches(member)) == 1


def test_records_are_committed_here_as_far_as_they_are_here() -> None:
    member = Member()
    member.answer(member.become_follower(), member.fetched(high_watermark=7, records=b"records"))
    member.log.append(Entry(1, 0))
    member.hear(LogChanged())
    assert HighWatermarkAdvanced(1) in member.effects
    assert member.replica.high_watermark == 1


def test_the_high_watermark_never_goes_back() -> None:
    member = Member(log=log_of(1, 1))
    member.answer(member.become_follower(), member.fetched(high_watermark=2))
    (send,) = fetches(member)
    member.answer(send, member.fetched(high_watermark=1))
    assert member.replica.high_watermark == 2


def test_it_cuts_its_log_where_the_leaders_parts() -> None:
    member = Member(log=log_of(1, 1, 2, 2))
    member.answer(member.become_follower(epoch=4), member.fetched(diverging=EpochEnd(2, 3)))
    assert member.effects == [TruncateTo(3)]
    member.log.truncate(3)
    member.hear(LogChanged())
    (send,) = fetches(member)
    assert isinstance(send.request, Fetch)
    assert (send.request.fetch_offset, send.request.last_fetched_epoch) == (3, 2)


def test_it_cuts_where_its_own_epoch_ends_if_that_is_earlier() -> None:
    member = Member(log=log_of(1, 3, 3))
    member.answer(member.become_follower(epoch=4), member.fetched(diverging=EpochEnd(2, 3)))
    assert member.effects == [TruncateTo(1)]


def test_it_does_not_cut_what_is_committed() -> None:
    member = Member(log=log_of(1, 1, 2))
    member.answer(member.become_follower(epoch=4), member.fetched(high_watermark=2))
    member.answer(fetches(member)[0], member.fetched(diverging=EpochEnd(1, 1)))
    assert "wants the log cut at 1" in member.the(Halt).reason
    assert member.hear(Tick()) == []
    assert member.replica.next_deadline_ms is None


def test_a_damaged_answer_is_asked_for_again() -> None:
    member = Member()
    member.answer(member.become_follower(), member.fetched(high_watermark=0, records=b"damaged"))
    member.hear(AppendRefused())
    assert not fetches(member)
    member.wait(SETTINGS.quorum.retry_backoff_ms)
    assert len(fetches(member)) == 1


def test_a_voter_whose_disk_is_full_does_not_stand_until_it_takes_records() -> None:
    member = Member()
    member.answer(member.become_follower(), member.fetched(high_watermark=0, records=b"records"))
    member.hear(AppendRefused(is_full=True))
    member.hear(Disconnected(2))
    member.wait(SETTINGS.disconnect_grace_ms)
    assert not member.sent(Vote)
    member.answer(member.become_follower(epoch=5), member.fetched(high_watermark=0, records=b"records"))
    member.log.append(Entry(5, 0))
    member.hear(LogChanged())
    member.hear(Disconnected(2))
    member.wait(SETTINGS.disconnect_grace_ms)
    assert len(member.sent(Vote)) == 2


def test_a_question_without_an_answer_is_asked_again() -> None:
    member = Member()
    send = member.become_follower()
    member.hear(Unanswered(send.request_id))
    assert not fetches(member)
    member.wait(SETTINGS.quorum.retry_backoff_ms)
    assert len(fetches(member)) == 1


def test_a_silent_leader_is_lost() -> None:
    member = Member()
    member.become_follower()
    member.wait(SETTINGS.quorum.fetch_timeout_ms - 1)
    assert member.state() is State.FOLLOWER
    member.wait(1)
    assert member.state() is State.PROSPECTIVE
    assert LeaderChanged(None, 1) in member.effects


def test_an_answer_is_a_sign_of_life() -> None:
    member = Member()
    send = member.become_follower()
    member.now_ms += SETTINGS.quorum.fetch_timeout_ms - 1
    member.answer(send, member.fetched(high_watermark=0))
    member.wait(SETTINGS.quorum.fetch_timeout_ms - 1)
    assert member.state() is State.FOLLOWER


def test_a_leader_whose_connection_died_is_lost_sooner() -> None:
    member = Member()
    member.become_follower()
    member.hear(Disconnected(3))
    member.hear(Disconnected(2))
    member.wait(SETTINGS.disconnect_grace_ms)
    assert member.state() is State.PROSPECTIVE


def test_unless_it_answers_again() -> None:
    member = Member()
    send = member.become_follower()
    member.hear(Disconnected(2))
    member.answer(send, member.fetched(high_watermark=0))
    member.wait(SETTINGS.disconnect_grace_ms)
    assert member.state() is State.FOLLOWER


def test_a_leader_that_says_it_is_none_is_left() -> None:
    member = Member()
    send = member.become_follower()
    member.answer(send, FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, 1, None))
    assert member.state() is State.UNATTACHED
    member.wait(SETTINGS.election_backoff_ms)
    assert member.state() is State.PROSPECTIVE


def test_two_leaders_of_one_epoch_stop_everything() -> None:
    member = Member()
    member.become_follower(leader_id=2)
    member.ask(BeginEpoch(1, 1, 3))
    assert "both 2 and 3 lead epoch 1" in member.the(Halt).reason


def test_an_observer_asks_the_voters_in_turn_who_leads() -> None:
    member = Member(node_id=9, memory=None)
    asked = []
    for _ in range(4):
        (send,) = fetches(member)
        asked.append(send.to)
        member.answer(send, FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, 0, None))
        member.wait(SETTINGS.quorum.retry_backoff_ms)
    assert sorted(set(asked)) == [1, 2, 3]


def test_an_observer_follows_the_leader_it_is_told_of_and_looks_on_when_that_is_lost() -> None:
    member = Member(node_id=9, memory=None)
    member.answer(fetches(member)[0], FetchAnswer(ErrorCode.FENCED_LEADER_EPOCH, 4, 3))
    assert (member.state(), member.replica.leader_id) == (State.FOLLOWER, 3)
    (send,) = fetches(member)
    assert send.to == 3
    member.wait(SETTINGS.quorum.fetch_timeout_ms)
    assert member.state() is State.UNATTACHED
    assert len(fetches(member)) == 1


def test_an_observer_writes_no_votes_down_and_does_not_wait_for_its_disk() -> None:
    member = Member(node_id=9, memory=None)
    member.answer(fetches(member)[0], FetchAnswer(ErrorCode.NONE, 4, 2))
    member.answer(fetches(member)[0], member.fetched(high_watermark=1, records=b"records"))
    member.log.append(Entry(4, 0))
    member.hear(LogChanged())
    assert [type(effect) for effect in member.effects] == [HighWatermarkAdvanced, Send]


def test_a_snapshot_is_fetched_in_pieces_and_takes_the_place_of_the_log() -> None:
    member = Member(memory=QuorumState(3))
    member.answer(member.become_follower(epoch=4), member.fetched(snapshot_id=SNAPSHOT))
    first = member.the(Send)
    assert first.request == FetchSnapshot(key(1), 4, SNAPSHOT, 0, SETTINGS.snapshot_chunk_bytes)
    member.answer(first, piece(member, 0, b"abcd"))
    assert member.effects[0] == WriteSnapshot(1, SNAPSHOT, 0, b"abcd")
    member.answer(member.the(Send), piece(member, 4, b"ef"))
    assert member.effects == [WriteSnapshot(1, SNAPSHOT, 4, b"ef"), FinishSnapshot(1, SNAPSHOT)]
    assert member.hear(SnapshotReady(1)) == [ResetLog(SNAPSHOT)]
    member.log.reset(SNAPSHOT)
    member.hear(LogChanged())
    assert member.replica.high_watermark == 10
    (send,) = fetches(member)
    assert isinstance(send.request, Fetch)
    assert (send.request.fetch_offset, send.request.last_fetched_epoch) == (10, 3)


def test_a_snapshot_that_is_gone_is_given_up() -> None:
    member = Member(memory=QuorumState(3))
    member.answer(member.become_follower(epoch=4), member.fetched(snapshot_id=SNAPSHOT))
    gone = FetchSnapshotAnswer(ErrorCode.SNAPSHOT_NOT_FOUND, 4, 2, SNAPSHOT)
    member.answer(member.the(Send), gone)
    member.wait(SETTINGS.quorum.retry_backoff_ms)
    assert len(fetches(member)) == 1


def test_a_snapshot_that_came_broken_is_fetched_again() -> None:
    member = Member(memory=QuorumState(3))
    member.answer(member.become_follower(epoch=4), member.fetched(snapshot_id=SNAPSHOT))
    member.answer(member.the(Send), piece(member, 0, b"abcdef"))
    member.hear(SnapshotRefused(1))
    member.wait(SETTINGS.quorum.retry_backoff_ms)
    member.answer(fetches(member)[0], member.fetched(snapshot_id=SNAPSHOT))
    member.answer(member.the(Send), piece(member, 0, b"abcdef"))
    assert member.the(FinishSnapshot) == FinishSnapshot(2, SNAPSHOT)


def test_a_snapshot_that_is_ready_too_late_does_not_touch_the_log() -> None:
    member = Member(memory=QuorumState(3))
    member.answer(member.become_follower(epoch=4), member.fetched(snapshot_id=SNAPSHOT))
    member.answer(member.the(Send), piece(member, 0, b"abcdef"))
    member.wait(SETTINGS.quorum.fetch_timeout_ms)
    assert member.state() is State.PROSPECTIVE
    assert member.hear(SnapshotReady(1)) == []


def test_an_answer_out_of_an_older_epoch_is_none() -> None:
    member = Member()
    send = member.become_follower(epoch=2)
    member.answer(send, FetchAnswer(ErrorCode.UNKNOWN_SERVER_ERROR, -1, None))
    assert member.effects == []
    member.wait(SETTINGS.quorum.retry_backoff_ms)
    assert len(fetches(member)) == 1


def test_a_cut_behind_the_logs_end_is_none() -> None:
    member = Member(log=log_of(1, 1))
    member.answer(member.become_follower(epoch=4), member.fetched(diverging=EpochEnd(1, 5)))
    assert member.effects == []
    member.wait(SETTINGS.quorum.retry_backoff_ms)
    assert len(fetches(member)) == 1


def test_an_error_of_the_leader_is_followed_by_a_pause() -> None:
    member = Member()
    send = member.become_follower()
    member.answer(send, FetchAnswer(ErrorCode.KAFKA_STORAGE_ERROR, 1, 2))
    assert member.effects == []
    assert member.state() is State.FOLLOWER
    member.wait(SETTINGS.quorum.retry_backoff_ms)
    assert len(fetches(member)) == 1


def test_after_halting_nothing_else_is_done() -> None:
    member = Member()
    member.become_follower(leader_id=2)
    member.ask(BeginEpoch(1, 1, 3))
    assert [type(effect) for effect in member.effects] == [Halt]
