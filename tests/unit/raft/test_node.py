"""Promises are persisted before they are sent; requests of another state are forgotten."""

from __future__ import annotations

import pytest
from tests.unit.raft.members import Member, key, log_of

from ottla.errors import ErrorCode
from ottla.raft.events import PersistVote, Reply, Send, VotePersisted
from ottla.raft.messages import BeginEpoch, EpochAnswer, VoteAnswer
from ottla.raft.node import TRANSITIONS, State
from ottla.raft.quorum_state import QuorumState


def test_a_vote_is_persisted_before_it_is_answered() -> None:
    member = Member()
    member.ask(member.vote(epoch=1))
    assert member.the(PersistVote).state == QuorumState(1, key(2), None)
    assert not member.all(Reply)
    member.persist()
    assert member.effects == [Reply("ticket", VoteAnswer(ErrorCode.NONE, 1, None, True))]


def test_everything_said_meanwhile_waits_in_order() -> None:
    member = Member()
    member.ask(member.vote(epoch=1), "first")
    number = member.the(PersistVote).number
    member.ask(member.vote(3, epoch=1), "second")
    assert member.effects == []
    member.hear(VotePersisted(number))
    first, second = member.all(Reply)
    assert first == Reply("first", VoteAnswer(ErrorCode.NONE, 1, None, True))
    assert second == Reply("second", VoteAnswer(ErrorCode.NONE, 1, None, False))


def test_what_waits_for_a_later_promise_waits_for_that() -> None:
    member = Member()
    member.ask(member.vote(epoch=1), "first")
    first = member.the(PersistVote).number
    member.ask(member.vote(3, epoch=2), "second")
    second = member.the(PersistVote).number
    member.hear(VotePersisted(first))
    assert [reply.ticket for reply in member.all(Reply)] == ["first"]
    member.hear(VotePersisted(second))
    assert [reply.ticket for reply in member.all(Reply)] == ["second"]


def test_one_write_serves_all_promises_before_it() -> None:
    member = Member()
    member.ask(member.vote(epoch=1), "first")
    member.ask(member.vote(3, epoch=2), "second")
    member.persist()
    assert [reply.ticket for reply in member.all(Reply)] == ["first", "second"]


def test_questions_that_wait_are_dropped_with_their_state() -> None:
    member = Member()
    pre_votes = member.become_prospective()
    member.answer(pre_votes[0], member.granted())
    assert member.state() is State.CANDIDATE
    member.ask(member.vote(epoch=9), "later")
    member.persist()
    assert [reply.ticket for reply in member.all(Reply)] == ["later"]
    assert not member.all(Send)


def test_the_votes_of_another_round_do_not_count() -> None:
    member = Member()
    pre_votes = member.become_prospective()
    member.answer(pre_votes[0], member.granted())
    member.persist()
    member.answer(pre_votes[1], member.granted())
    assert member.state() is State.CANDIDATE


def test_a_node_starts_in_the_epoch_that_it_remembers_with_the_vote_it_gave() -> None:
    member = Member(memory=QuorumState(4, key(3)))
    assert member.replica.epoch == 4
    assert not member.votes(member.vote(2, epoch=4))
    assert member.votes(member.vote(3, epoch=4))


def test_a_vote_of_another_epoch_than_the_logs_does_not_bind() -> None:
    member = Member(memory=QuorumState(4, key(3)), log=log_of(6))
    assert member.replica.epoch == 6
    member.ask(member.vote(2, epoch=6, last_epoch=6, end_offset=1))
    assert member.the(PersistVote).state == QuorumState(6, key(2))


def test_a_leader_that_restarts_does_not_lead_its_epoch_again() -> None:
    member = Member(memory=QuorumState(4, key(1)), log=log_of(4, 4))
    assert member.state() is State.UNATTACHED
    member.answer(member.become_prospective()[0], VoteAnswer(ErrorCode.NONE, 4, 1, False))
    assert member.state() is State.PROSPECTIVE
    assert member.replica.leader_id is None


def test_an_older_epoch_is_refused_and_told_the_newer() -> None:
    member = Member(memory=QuorumState(4))
    assert member.asked(BeginEpoch(1, 3, 2)) == EpochAnswer(ErrorCode.FENCED_LEADER_EPOCH, 4, None)


def test_every_state_can_be_left_and_every_state_but_the_first_can_be_reached() -> None:
    assert {before for before, _ in TRANSITIONS} == set(State)
    assert {after for _, after in TRANSITIONS} == set(State)
    assert all(reason for reason in TRANSITIONS.values())


@pytest.mark.parametrize("state", State)
def test_nobody_leads_without_having_been_a_candidate(state: State) -> None:
    assert ((state, State.LEADER) in TRANSITIONS) == (state is State.CANDIDATE)
