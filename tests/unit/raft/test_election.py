"""Votes and candidates (CTL-5)."""

from __future__ import annotations

import pytest
from tests.unit.raft.members import SETTINGS, Member, key, log_of

from ottla.errors import ErrorCode
from ottla.raft.events import (
    Answered,
    AppendLeaderChange,
    LeaderChanged,
    PersistVote,
    Received,
    Reply,
    Send,
    Unanswered,
)
from ottla.raft.messages import BeginEpoch, EndEpoch, Vote, VoteAnswer
from ottla.raft.node import State
from ottla.raft.quorum_state import QuorumState


def test_who_hears_of_no_leader_asks_whether_it_would_be_elected() -> None:
    member = Member(log=log_of(1, 1), memory=QuorumState(3))
    member.wait(SETTINGS.election_backoff_ms - 1)
    assert member.state() is State.UNATTACHED, "who has just started waits a little"
    member.wait(1)
    assert member.state() is State.PROSPECTIVE
    assert [(send.to, send.request) for send in member.all(Send)] == [
        (2, Vote(2, 3, key(1), 1, 2, True)),
        (3, Vote(3, 3, key(1), 1, 2, True)),
    ]
    assert not member.all(PersistVote)


def test_it_stands_when_a_majority_would_vote_for_it() -> None:
    member = Member(memory=QuorumState(3))
    member.answer(member.become_prospective()[0], member.granted())
    assert member.state() is State.CANDIDATE
    assert member.the(PersistVote).state == QuorumState(4, key(1))
    assert not member.all(Send)
    member.persist()
    assert member.sent(Vote) == [Vote(2, 4, key(1), -1, 0, False), Vote(3, 4, key(1), -1, 0, False)]


def test_it_leads_when_a_majority_votes_for_it() -> None:
    member = Member()
    member.answer(member.become_candidate()[1], member.granted())
    assert member.replica.is_leader
    assert member.effects[:2] == [LeaderChanged(1, 1), AppendLeaderChange(1, 1, (1, 2, 3), (1, 3))]
    assert member.sent(BeginEpoch) == [BeginEpoch(2, 1, 1), BeginEpoch(3, 1, 1)]


def test_one_voter_elects_itself_once_its_vote_is_persisted() -> None:
    member = Member([1])
    member.wait(SETTINGS.quorum.election_timeout_ms)
    assert member.state() is State.CANDIDATE
    member.persist()
    assert member.replica.is_leader


def test_of_five_three_are_needed() -> None:
    member = Member([1, 2, 3, 4, 5])
    first, second, *_ = member.become_prospective()
    member.answer(first, member.granted())
    assert member.state() is State.PROSPECTIVE
    member.answer(second, member.granted())
    assert member.state() is State.CANDIDATE


def test_an_answer_that_comes_twice_counts_once() -> None:
    member = Member([1, 2, 3, 4, 5])
    first, *_ = member.become_prospective()
    member.answer(first, member.granted())
    member.answer(first, member.granted())
    assert member.state() is State.PROSPECTIVE


def test_a_pre_vote_changes_nothing() -> None:
    member = Member(memory=QuorumState(3))
    deadline_ms = member.replica.next_deadline_ms
    member.ask(member.pre_vote(epoch=3))
    assert member.effects == [Reply("ticket", VoteAnswer(ErrorCode.NONE, 3, None, True))]
    assert member.replica.next_deadline_ms == deadline_ms
    assert member.votes(member.vote(3, epoch=3))


def test_who_hears_its_leader_refuses_pre_votes_and_names_the_leader() -> None:
    member = Member()
    member.answer(member.become_follower(), member.fetched(high_watermark=0))
    assert member.asked(member.pre_vote(3, epoch=1)) == VoteAnswer(ErrorCode.NONE, 1, 2, False)


def test_who_only_heard_of_a_leader_grants_pre_votes_and_names_nobody() -> None:
    member = Member()
    member.become_follower()
    assert member.asked(member.pre_vote(3, epoch=1)) == VoteAnswer(ErrorCode.NONE, 1, None, True)


def test_a_leader_refuses_pre_votes() -> None:
    member = Member()
    member.become_leader()
    assert member.asked(member.pre_vote(epoch=1, last_epoch=1, end_offset=9)) == VoteAnswer(
        ErrorCode.NONE, 1, 1, False
    )


def test_a_follower_does_not_vote_in_the_epoch_of_its_leader() -> None:
    member = Member()
    member.become_follower()
    assert not member.votes(member.vote(3, epoch=1))
    assert member.votes(member.vote(3, epoch=2))


@pytest.mark.parametrize(
    ("last_epoch", "end_offset", "is_granted"),
    [(2, 3, True), (2, 4, True), (3, 1, True), (2, 2, False), (1, 9, False), (-1, 0, False)],
)
def test_a_log_that_is_behind_gets_no_vote(last_epoch: int, end_offset: int, is_granted: bool) -> None:
    for ask in (Member.vote, Member.pre_vote):
        member = Member(log=log_of(1, 2, 2), memory=QuorumState(2))
        assert member.votes(ask(member, epoch=3, last_epoch=last_epoch, end_offset=end_offset)) == is_granted


def test_records_that_are_not_flushed_count_in_ones_own_log() -> None:
    member = Member(log=log_of(1, 2, 2, flushed=False), memory=QuorumState(2))
    assert not member.votes(member.vote(epoch=3, last_epoch=2, end_offset=2))


def test_each_epoch_has_one_vote() -> None:
    member = Member()
    assert member.votes(member.vote(2, epoch=1))
    assert not member.votes(member.vote(3, epoch=1))
    assert member.votes(member.vote(2, epoch=1))
    assert member.votes(member.vote(3, epoch=2))


def test_a_vote_belongs_to_a_disk_and_not_to_a_number() -> None:
    member = Member()
    assert member.votes(member.vote(2, epoch=1))
    assert not member.votes(Vote(1, 1, key(2)._replace(directory_id=key(9).directory_id), -1, 0, False))


def test_a_candidate_votes_for_nobody_else_in_its_epoch() -> None:
    member = Member()
    member.become_candidate()
    assert not member.votes(member.vote(2, epoch=1, end_offset=9))
    assert member.votes(member.vote(2, epoch=2, end_offset=9))
    assert member.state() is State.UNATTACHED


def test_who_has_voted_waits_for_what_becomes_of_it() -> None:
    member = Member()
    member.wait(SETTINGS.quorum.election_timeout_ms - 1)
    assert member.votes(member.vote(epoch=1))
    member.wait(SETTINGS.quorum.election_timeout_ms - 1)
    assert member.state() is State.UNATTACHED
    member.wait(1)
    assert member.state() is State.PROSPECTIVE


def test_who_refused_does_not_wait_longer() -> None:
    member = Member(log=log_of(1))
    member.hear(Received("", BeginEpoch(1, 1, 2)))
    member.hear(Received("", EndEpoch(1, 2, ())))
    member.wait(SETTINGS.quorum.election_timeout_ms - 1)
    assert not member.votes(member.vote(epoch=2))
    member.wait(1)
    assert member.state() is State.PROSPECTIVE


def test_a_lost_round_is_tried_again_after_a_pause_that_grows() -> None:
    member = Member()
    pauses = []
    sends = member.become_prospective()
    for _ in range(3):
        for send in sends:
            member.answer(send, member.refused())
        began_ms = member.now_ms
        sends = [send for send in member.wait_for_deadline() if isinstance(send, Send)]
        pauses.append(member.now_ms - began_ms)
        assert len(sends) == 2
    assert pauses == [SETTINGS.election_backoff_ms] * 3  # jitter, which is nothing here, is what grows


def test_who_is_refused_does_not_wait_for_the_silent() -> None:
    member = Member([1, 2, 3, 4, 5])
    first, *_ = member.become_prospective()
    assert member.replica.next_deadline_ms == member.now_ms + SETTINGS.quorum.election_timeout_ms
    member.answer(first, member.refused())
    assert member.replica.next_deadline_ms == member.now_ms + SETTINGS.election_backoff_ms


def test_nobody_who_could_answer_is_a_lost_round_too() -> None:
    member = Member()
    for send in member.become_prospective():
        member.hear(Unanswered(send.request_id))
    assert member.replica.next_deadline_ms == member.now_ms + SETTINGS.election_backoff_ms


def test_a_candidate_that_lost_asks_first_before_it_stands_again() -> None:
    member = Member()
    for send in member.become_candidate():
        member.answer(send, member.refused())
    assert member.state() is State.CANDIDATE
    member.wait_for_deadline()
    assert member.state() is State.PROSPECTIVE
    assert member.replica.epoch == 1


def test_a_late_vote_still_wins_the_round() -> None:
    member = Member()
    first, second = member.become_candidate()
    member.hear(Unanswered(first.request_id))
    member.answer(second, member.refused())
    member.wait(1)
    assert member.state() is State.CANDIDATE
    member.hear(Answered(first.request_id, member.granted()))  # it was given up, so it is late for good
    assert member.state() is State.CANDIDATE


def test_who_asks_and_hears_of_a_leader_follows_it() -> None:
    member = Member(memory=QuorumState(3))
    member.answer(member.become_prospective()[0], member.refused(leader_id=3))
    assert (member.state(), member.replica.leader_id) == (State.FOLLOWER, 3)


def test_who_hears_of_a_newer_epoch_goes_there() -> None:
    member = Member()
    member.answer(member.become_candidate()[0], VoteAnswer(ErrorCode.FENCED_LEADER_EPOCH, 7, None, False))
    assert (member.state(), member.replica.epoch) == (State.UNATTACHED, 7)
    assert member.the(PersistVote).state == QuorumState(7)


def test_a_node_that_was_cut_off_comes_back_in_its_old_epoch() -> None:
    member = Member(memory=QuorumState(3))
    member.become_prospective()
    for _ in range(50):
        for send in member.all(Send):
            member.hear(Unanswered(send.request_id))
        member.wait_for_deadline()
    assert (member.state(), member.replica.epoch) == (State.PROSPECTIVE, 3)


def test_a_vote_meant_for_another_is_refused() -> None:
    member = Member()
    answer = member.asked(Vote(3, 1, key(2), -1, 0, False))
    assert answer == VoteAnswer(ErrorCode.INVALID_VOTER_KEY, 0, None, False)


def test_a_stranger_is_not_voted_for() -> None:
    member = Member()
    answer = member.asked(member.vote(9, epoch=5))
    assert answer == VoteAnswer(ErrorCode.INCONSISTENT_VOTER_SET, 0, None, False)
    assert member.replica.epoch == 0


def test_the_preferred_successor_of_a_leader_stands_at_once() -> None:
    member = Member()
    member.become_follower()
    member.ask(EndEpoch(1, 2, (key(1), key(3))))
    assert member.state() is State.PROSPECTIVE
    assert member.replica.leader_id is None


def test_the_others_give_it_a_moment() -> None:
    member = Member()
    member.become_follower()
    member.ask(EndEpoch(1, 2, (key(3), key(1))))
    assert member.state() is State.UNATTACHED
    assert member.replica.next_deadline_ms == member.now_ms + 2 * SETTINGS.election_backoff_ms


def test_a_leader_that_has_resigned_is_not_followed_again_in_its_epoch() -> None:
    member = Member()
    member.become_follower()
    member.ask(EndEpoch(1, 2, (key(3), key(1))))
    member.ask(BeginEpoch(1, 1, 2))
    assert member.state() is State.UNATTACHED
    member.ask(BeginEpoch(1, 2, 2))
    assert member.state() is State.FOLLOWER


def test_the_end_of_an_older_epoch_is_none() -> None:
    member = Member()
    member.become_follower(epoch=2)
    member.ask(EndEpoch(1, 3, (key(1),)))
    assert member.state() is State.FOLLOWER


def test_somebody_else_cannot_end_a_leaders_epoch() -> None:
    member = Member()
    member.become_follower(leader_id=2)
    member.ask(EndEpoch(1, 3, (key(1),)))
    assert (member.state(), member.replica.leader_id) == (State.FOLLOWER, 2)


def test_one_voter_alone_waits_for_nobody() -> None:
    member = Member(voters=[1])
    assert member.state() is State.CANDIDATE
    member.persist()
    assert member.replica.is_leader
