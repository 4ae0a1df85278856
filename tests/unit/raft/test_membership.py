"""Voters are added and removed one at a time, by a leader that may (CTL-5, KIP-853)."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.quorum.model_disk import Entry, Meanings, SimulatedLog
from tests.unit.raft.members import SETTINGS, Member, flush, key

from ottla.errors import ErrorCode, KafkaError
from ottla.raft.events import AppendVoters, ChangeVoters, Flushed, LogChanged
from ottla.raft.messages import EndEpoch, Endpoint, Fetch, ReplicaKey, Vote
from ottla.raft.node import State
from ottla.raft.voter_records import voters_batch, voters_in
from ottla.raft.voters import LoggedVoters, VoterNode, VoterSet
from ottla.records.batch import BatchView

NEW = VoterNode(4, UUID(int=4), (Endpoint("PLAINTEXT", "four", 9092),))


class Changing:
    """A leader of three static voters that has committed; the others have fetched everything."""

    def __init__(self) -> None:
        self.meanings = Meanings()
        self.member = Member(log=SimulatedLog(self.meanings))
        self.member.become_leader()
        self.append(Entry(self.epoch, 0))
        for node_id in (2, 3):
            self.fetch(node_id)
        assert self.member.replica.is_established

    @property
    def epoch(self) -> int:
        return self.member.replica.epoch

    def append(self, entry: Entry) -> None:
        self.member.log.append(entry)
        self.member.hear(LogChanged())
        flush(self.member.log)
        self.member.hear(Flushed())

    def fetch(self, node_id: int, *, is_proven: bool = True, directory_id: UUID | None = None) -> None:
        log = self.member.log
        key = ReplicaKey(node_id, directory_id or UUID(int=node_id))
        self.member.ask(Fetch(key, is_proven, self.epoch, log.log_end_offset, log.last_epoch, -1, 0, 100))

    def change(self, voters: VoterSet) -> None:
        """Let the leader append, as its shell does."""
        self.member.hear(ChangeVoters(voters))
        effect = self.member.the(AppendVoters)
        assert effect.voters == voters
        self.append(Entry(self.epoch, self.meanings.value_for(voters)))

    def refusal(self, voter: VoterNode) -> ErrorCode:
        with pytest.raises(KafkaError) as refused:
            self.member.replica.voters_with(voter)
        return refused.value.code


def test_a_node_that_has_caught_up_and_remembers_is_added() -> None:
    story = Changing()
    assert story.refusal(NEW) == ErrorCode.REQUEST_TIMED_OUT
    story.fetch(4, is_proven=False)
    assert story.refusal(NEW) == ErrorCode.REQUEST_TIMED_OUT
    story.fetch(4, directory_id=UUID(int=44))
    assert story.refusal(NEW) == ErrorCode.REQUEST_TIMED_OUT
    story.fetch(4)
    voters = story.member.replica.voters_with(NEW)
    # The first change names the directories of all.
    assert [each.key for each in voters.nodes] == [
        key(1),
        *(ReplicaKey(node_id, UUID(int=node_id)) for node_id in (2, 3, 4)),
    ]
    story.change(voters)
    assert story.member.replica.voters == voters
    assert story.refusal(NEW._replace(node_id=5)) == ErrorCode.REQUEST_TIMED_OUT  # the first is not committed
    story.fetch(2)
    story.fetch(4)
    assert story.member.replica.high_watermark == story.member.log.log_end_offset
    assert story.refusal(NEW) == ErrorCode.DUPLICATE_VOTER


def test_a_leader_that_is_removed_does_not_count_and_resigns_when_that_is_committed() -> None:
    story = Changing()
    replica = story.member.replica
    voters = replica.voters_without(key(1))
    assert voters.ids == {2, 3}
    story.change(voters)
    story.fetch(2)
    assert replica.is_leader
    story.fetch(3)
    assert story.member.state() is State.RESIGNED
    assert story.member.sent(EndEpoch)
    assert not replica.can_vote


def test_a_voter_is_removed_by_its_directory_and_the_last_one_never() -> None:
    story = Changing()
    replica = story.member.replica
    story.change(replica.voters_without(ReplicaKey(3, UUID(int=3))))
    story.fetch(2)
    with pytest.raises(KafkaError) as unknown:
        replica.voters_without(ReplicaKey(2, UUID(int=22)))
    assert unknown.value.code == ErrorCode.VOTER_NOT_FOUND
    story.change(replica.voters_without(ReplicaKey(2, UUID(int=2))))
    with pytest.raises(KafkaError, match="last voter"):
        replica.voters_without(key(1))


def test_a_removed_voter_that_fetches_from_a_new_directory_is_known_by_it_at_once() -> None:
    story = Changing()
    story.fetch(3, directory_id=UUID(int=33), is_proven=False)
    story.change(story.member.replica.voters_without(ReplicaKey(3, UUID(int=3))))
    observers = story.member.replica.leadership.observers
    assert observers[3].directory_id == UUID(int=33)
    # A voter that is removed and goes on to fetch becomes an observer as it is.
    story.fetch(2)
    story.change(story.member.replica.voters_without(ReplicaKey(2, UUID(int=2))))
    observers = story.member.replica.leadership.observers
    assert {each.directory_id for each in observers.values()} == {UUID(int=33), UUID(int=2)}


def test_a_removed_voter_that_was_silent_is_no_observer() -> None:
    story = Changing()
    story.member.wait(SETTINGS.quorum.fetch_timeout_ms - 1)
    story.fetch(2)
    story.member.wait(1)
    story.change(story.member.replica.voters_without(ReplicaKey(3, UUID(int=3))))
    assert not story.member.replica.leadership.observers


def test_a_vote_names_the_directory_of_its_voter() -> None:
    member = Member()
    named = key(1).directory_id
    vote = Vote(1, 1, ReplicaKey(9, UUID(int=9)), 0, 0, False, named)
    # The candidate is none of the voters here: its log may name more of them.
    assert member.votes(vote)
    elsewhere = Vote(1, 2, ReplicaKey(2, UUID(int=2)), 0, 0, False, UUID(int=99))
    assert member.asked(elsewhere).error is ErrorCode.INVALID_VOTER_KEY


def test_the_record_of_the_voters_keeps_their_directories_and_addresses() -> None:
    voters = VoterSet([NEW, VoterNode(2, UUID(int=2))])
    batch = BatchView(memoryview(voters_batch(voters, 3, 0, 10)))
    assert list(voters_in([batch])) == [LoggedVoters(voters, 12)]
