"""A leader's commits and answers, and when it resigns (CTL-5)."""

from __future__ import annotations

from tests.quorum.model_disk import Entry
from tests.unit.raft.members import SETTINGS, Member, key, log_of

from ottla.errors import ErrorCode
from ottla.model import EpochEnd
from ottla.raft.events import (
    AppendLeaderChange,
    Flush,
    Flushed,
    HighWatermarkAdvanced,
    LeaderChanged,
    LeadershipEstablished,
    Leave,
    LogChanged,
    LogFull,
    Reply,
    ReplyRecords,
    ReplySnapshot,
    Send,
    Tick,
)
from ottla.raft.messages import (
    BeginEpoch,
    EndEpoch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    ReplicaKey,
    SnapshotId,
    Vote,
)
from ottla.raft.node import State
from ottla.raft.quorum_state import QuorumState


def leader(*epochs: int) -> Member:
    """The first of three. Its log has one record of each epoch named, and then one of its own."""
    member = Member(log=log_of(*epochs), memory=QuorumState(max(epochs, default=0)))
    member.become_leader()
    return member


def test_a_record_is_committed_when_a_majority_has_flushed_it() -> None:
    member = leader()
    member.append(2)
    member.flush()
    assert member.replica.high_watermark == 0
    member.ask(member.fetch(2, 1))
    assert member.replica.high_watermark == 1
    member.ask(member.fetch(3, 3))
    assert member.replica.high_watermark == 3
    assert HighWatermarkAdvanced(3) in member.effects


def test_what_the_leader_itself_has_not_flushed_does_not_count() -> None:
    member = leader()
    member.append(2)
    member.ask(member.fetch(2, 3))
    assert member.replica.high_watermark == 1
    member.ask(member.fetch(3, 3))
    assert member.replica.high_watermark == 3  # two others have it


def test_records_of_older_epochs_are_committed_with_one_of_its_own() -> None:
    member = leader(1, 1)
    member.ask(member.fetch(2, 2))
    member.ask(member.fetch(3, 2))
    assert member.replica.high_watermark == 0
    assert not member.replica.is_established
    member.ask(member.fetch(2, 3))
    assert member.replica.high_watermark == 3
    assert LeadershipEstablished(2) in member.effects
    assert member.replica.is_established


def test_a_single_voter_commits_what_it_flushes() -> None:
    member = Member([1])
    member.wait(SETTINGS.quorum.election_timeout_ms)
    member.persist()
    member.append()
    assert Flush() in member.effects
    member.flush()
    assert member.replica.high_watermark == 1
    assert member.replica.next_deadline_ms is None


def test_flushes_come_one_after_the_other() -> None:
    member = leader()
    member.append()
    assert member.all(Flush) == [Flush()]
    member.append()
    assert member.all(Flush) == []
    member.log.flushed_offset = 2
    member.hear(Flushed())
    assert member.all(Flush) == [Flush()]


def test_observers_do_not_commit() -> None:
    member = leader()
    member.ask(member.fetch(8, 1))
    member.ask(member.fetch(9, 1))
    assert member.replica.high_watermark == 0


def test_a_voter_without_memory_does_not_commit() -> None:
    member = leader()
    member.ask(member.fetch(2, 1, is_proven=False))
    assert member.replica.high_watermark == 0


def test_a_fetch_is_answered_with_records_at_once() -> None:
    member = leader(1)
    member.ask(member.fetch(2, 1))
    reply = member.the(ReplyRecords)
    assert (reply.ticket, reply.offset, reply.max_bytes) == ("ticket", 1, 1 << 20)
    assert reply.answer == FetchAnswer(ErrorCode.NONE, 2, 1, 0, 0)


def test_a_fetch_at_the_end_waits_for_records() -> None:
    member = leader()
    member.ask(member.fetch(2, 1, high_watermark=1))
    assert not member.all(ReplyRecords)
    member.append()
    assert member.the(ReplyRecords).offset == 1


def test_a_fetch_at_the_end_waits_for_the_high_watermark_too() -> None:
    member = leader()
    member.ask(member.fetch(2, 1, high_watermark=0), "told at once, for it commits")
    assert member.the(ReplyRecords).ticket == "told at once, for it commits"
    member.append()
    member.ask(member.fetch(2, 2, high_watermark=1), "waits")
    assert not member.all(ReplyRecords)
    member.flush()
    assert member.the(ReplyRecords).ticket == "waits"
    assert member.the(ReplyRecords).answer.high_watermark == 2


def test_a_fetch_does_not_wait_for_ever() -> None:
    member = leader()
    member.ask(member.fetch(2, 1, high_watermark=1, max_wait_ms=300))
    assert not member.all(ReplyRecords)
    member.wait(299)
    assert not member.all(ReplyRecords)
    member.wait(1)
    assert member.all(ReplyRecords)


def test_who_asks_again_gets_both_answers() -> None:
    member = leader()
    member.ask(member.fetch(2, 1, high_watermark=1), "first")
    member.ask(member.fetch(2, 1, high_watermark=1), "second")
    assert member.the(ReplyRecords).ticket == "first"
    member.append()
    assert member.the(ReplyRecords).ticket == "second"


def test_a_log_that_went_another_way_is_told_where() -> None:
    member = leader(1, 1, 3)
    member.ask(member.fetch(2, 3, last_fetched_epoch=2))
    answer = member.the(Reply).answer
    assert answer == FetchAnswer(ErrorCode.NONE, 4, 1, 0, 0, diverging=EpochEnd(1, 2))
    assert member.replica.leadership.voters[2].offset == -1


def test_a_log_that_is_longer_in_its_epoch_is_told_so() -> None:
    member = leader(1, 1)
    member.ask(member.fetch(2, 1, fetch_offset=7, last_fetched_epoch=1))
    answer = member.the(Reply).answer
    assert isinstance(answer, FetchAnswer)
    assert answer.diverging == EpochEnd(1, 2)


def test_who_is_behind_the_logs_start_is_told_the_snapshot() -> None:
    member = leader(1, 1, 1)
    member.log.advance_start(SnapshotId(2, 1))
    member.log.latest_snapshot = SnapshotId(2, 1)
    member.ask(member.fetch(2, 2, fetch_offset=0, last_fetched_epoch=-1))
    answer = member.the(Reply).answer
    assert isinstance(answer, FetchAnswer)
    assert answer.snapshot_id == SnapshotId(2, 1)


def test_a_piece_of_a_snapshot_is_read_by_the_shell() -> None:
    member = leader()
    member.ask(FetchSnapshot(key(2), 1, SnapshotId(4, 1), 100, 50))
    assert member.effects == [ReplySnapshot("ticket", 1, 1, SnapshotId(4, 1), 100, 50)]


def test_there_is_no_snapshot_before_its_beginning() -> None:
    member = leader()
    answer = member.asked(FetchSnapshot(key(2), 1, SnapshotId(4, 1), -1, 50))
    assert answer == FetchSnapshotAnswer(ErrorCode.POSITION_OUT_OF_RANGE, 1, 1, SnapshotId(4, 1))


def test_a_fetch_of_an_older_epoch_is_fenced() -> None:
    member = leader(1)
    assert member.asked(member.fetch(2, 2, epoch=1)) == FetchAnswer(ErrorCode.FENCED_LEADER_EPOCH, 2, 1)
    assert member.replica.leadership.voters[2].offset == -1


def test_a_fetch_of_a_newer_epoch_ends_the_leadership() -> None:
    member = leader()
    member.ask(member.fetch(3, 1, high_watermark=1), "waits")
    member.ask(member.fetch(2, 1, epoch=5))
    assert (member.state(), member.replica.epoch) == (State.UNATTACHED, 5)
    member.persist()
    refusal = FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, 5, None)
    assert member.effects == [Reply("waits", refusal), Reply("ticket", refusal)]


def test_a_leader_that_no_majority_asks_resigns() -> None:
    member = leader()
    member.wait(SETTINGS.quorum.fetch_timeout_ms - 1)
    assert member.replica.is_leader
    member.ask(member.fetch(2, 1, high_watermark=1), "waits")
    member.wait(SETTINGS.quorum.fetch_timeout_ms - 1)
    assert member.replica.is_leader
    member.wait(1)
    assert (member.state(), member.replica.leader_id) == (State.RESIGNED, None)
    assert LeaderChanged(None, 1) in member.effects


def test_what_waited_while_the_process_stood_still_is_no_sign_of_life() -> None:
    member = leader()
    member.now_ms += SETTINGS.quorum.fetch_timeout_ms
    answer = member.asked(member.fetch(2, 1))
    assert answer == FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, 1, None)


def test_a_voter_without_memory_does_not_keep_a_leader() -> None:
    member = leader()
    member.wait(SETTINGS.quorum.fetch_timeout_ms - 1)
    member.ask(member.fetch(2, 1, is_proven=False))
    member.wait(1)
    assert member.state() is State.RESIGNED


def test_a_voter_that_fetches_a_snapshot_keeps_its_leader() -> None:
    member = leader()
    member.ask(member.fetch(2, 1))
    member.wait(SETTINGS.quorum.fetch_timeout_ms - 1)
    member.ask(FetchSnapshot(key(2), 1, SnapshotId(4, 1), 0, 50))
    member.wait(SETTINGS.quorum.fetch_timeout_ms - 1)
    assert member.replica.is_leader


def test_a_leader_about_to_stop_names_those_who_could_follow_it() -> None:
    member = leader()
    member.append(2)
    member.ask(member.fetch(3, 2, high_watermark=2))
    member.hear(Leave())
    assert member.state() is State.RESIGNED
    end = EndEpoch(1, 1, (key(3), ReplicaKey(2)))
    assert [(send.to, send.request) for send in member.all(Send)] == [(2, end), (3, end)]
    member.wait(10 * SETTINGS.quorum.election_timeout_ms)
    assert member.state() is State.UNATTACHED  # it does not stand any more


def test_a_leader_whose_disk_is_full_resigns_and_stands_again_after_a_while() -> None:
    member = leader()
    member.hear(LogFull())
    assert not member.replica.is_leader
    assert {request.leader_id for request in member.sent(EndEpoch)} == {1}
    member.wait(SETTINGS.quorum.election_timeout_ms)
    member.wait(SETTINGS.full_disk_pause_ms - SETTINGS.quorum.election_timeout_ms - 1)
    assert not member.sent(Vote)
    member.wait(1)
    assert len(member.sent(Vote)) == 2


def test_a_leader_that_is_alone_stays_although_its_disk_is_full() -> None:
    member = Member(voters=(1,))
    member.persist()
    assert member.replica.is_leader
    member.hear(LogFull())
    assert member.replica.is_leader


def test_who_waits_for_a_leader_that_resigns_is_answered() -> None:
    member = leader()
    member.ask(member.fetch(2, 1, high_watermark=1), "waits")
    member.hear(Leave())
    assert member.all(Reply) == [
        Reply("waits", FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, 1, None)),
    ]


def test_a_leader_that_resigned_votes_for_others() -> None:
    member = leader()
    member.hear(Leave())
    assert member.votes(member.pre_vote(epoch=1, last_epoch=1, end_offset=1))
    assert not member.votes(member.vote(epoch=1, last_epoch=1, end_offset=1))
    assert member.votes(member.vote(epoch=2, last_epoch=1, end_offset=1))


def test_voters_that_do_not_fetch_are_told_again_who_leads() -> None:
    member = leader()
    member.ask(member.fetch(2, 1, high_watermark=1))
    for doublings in range(3):
        member.wait((SETTINGS.first_begin_interval_ms << doublings) - 1)
        assert not member.sent(BeginEpoch)
        member.wait(1)
        assert member.sent(BeginEpoch) == [BeginEpoch(3, 1, 1)]


def test_observers_that_are_silent_for_long_are_forgotten() -> None:
    member = Member([1])
    member.wait(SETTINGS.quorum.election_timeout_ms)
    member.persist()
    member.append()
    member.ask(member.fetch(9, 1))
    assert set(member.replica.leadership.observers) == {9}
    member.wait(SETTINGS.observer_session_ms)
    assert not member.replica.leadership.observers


def test_a_voter_without_memory_that_has_caught_up_gets_a_record_to_be_proven_by() -> None:
    member = leader()
    member.ask(member.fetch(2, 1))
    assert not member.all(AppendLeaderChange)
    member.ask(member.fetch(3, 1, is_proven=False, high_watermark=1))
    assert member.the(AppendLeaderChange).epoch == 1
    member.log.append(Entry(1, 99))
    member.hear(LogChanged())
    member.ask(member.fetch(3, 2, is_proven=False, high_watermark=1))
    assert not member.all(AppendLeaderChange)  # that one is not committed yet


def test_there_is_nothing_before_the_first_offset() -> None:
    member = leader()
    answer = member.asked(member.fetch(2, 0, fetch_offset=-3))
    assert answer == FetchAnswer(ErrorCode.OFFSET_OUT_OF_RANGE, 1, 1)


def test_nothing_happens_without_an_event() -> None:
    member = leader()
    assert member.hear(Tick()) == []


def test_who_does_not_vote_brings_no_news_of_epochs() -> None:
    member = leader()
    epoch = member.replica.epoch
    for stranger in (9, 1):
        answer = member.asked(member.fetch(stranger, 0, epoch=epoch + 1_000))
        assert isinstance(answer, FetchAnswer)
        assert (answer.error, answer.epoch) == (ErrorCode.UNKNOWN_LEADER_EPOCH, epoch)
    assert member.replica.is_leader
