"""Bugs planted in the quorum's machine, to see that the simulation finds them.

Each is a mistake that somebody could make, or has made; it is put in with a patch and taken out again. Nothing of this is in
`src`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from ottla.model import EpochEnd
from ottla.raft import election, leadership, log_view, membership
from ottla.raft import request_handling as questions
from ottla.raft.election import Election
from ottla.raft.events import TruncateTo
from ottla.raft.following import Following
from ottla.raft.leadership import Leadership, Progress
from ottla.raft.messages import Fetch, SnapshotId, Vote
from ottla.raft.node import Node, State
from ottla.raft.replica import RaftReplica
from ottla.raft.request_handling import Questions
from ottla.raft.vote_recovery import Proof
from ottla.raft.voters import VoterSet

Patches = list[tuple[Any, str, Any]]


def vote_not_persisted() -> Patches:
    return [(Node, "memory_changed", lambda self: None)]


def vote_answered_before_it_is_persisted() -> Patches:
    return [(Node, "_say", lambda self, effect: self._effects.append(effect))]


def voter_votes_twice() -> Patches:
    original = election.grants

    def grants(node: Node, vote: Vote, *, has_fetched: bool) -> bool:
        return original(node, vote, has_fetched=has_fetched) or (
            node.can_vote
            and not vote.is_pre_vote
            and log_view.is_up_to_date(node.log, vote.last_epoch, vote.end_offset)
        )

    def vote_for(self: Node, candidate: Any) -> None:
        self.voted = candidate
        self.memory_changed()

    def promise(self: Questions, vote: Vote) -> None:
        self._node.vote_for(vote.candidate)

    return [
        (questions, "grants", grants),
        (Node, "vote_for", vote_for),
        (Questions, "_promise", promise),
    ]


def log_of_a_candidate_not_compared() -> Patches:
    return [(election, "is_up_to_date", lambda log, last_epoch, end_offset: True)]


def log_of_a_candidate_compared_by_length() -> Patches:
    return [(election, "is_up_to_date", lambda log, last_epoch, end_offset: end_offset >= log.log_end_offset)]


def pre_vote_counts_as_a_vote() -> Patches:
    original = Election.ask

    def ask(self: Election, *, is_pre_vote: bool) -> None:
        granted = self.granted
        original(self, is_pre_vote=is_pre_vote)
        if not is_pre_vote:
            self.granted = granted

    return [(Election, "ask", ask)]


def answers_of_other_epochs_count() -> Patches:
    def to(self: Node, state: State) -> None:
        self.state = state

    def answered(self: RaftReplica, asked: Any, answer: Any) -> None:
        node = self._node
        if isinstance(asked.request, Vote) and node.state in (State.PROSPECTIVE, State.CANDIDATE):
            self._election.count(asked.to, is_granted=answer.is_granted)
            self._transitions.conclude()
        else:
            original(self, asked, answer)

    original = RaftReplica._answered
    return [(Node, "to", to), (RaftReplica, "_answered", answered)]


def watermark_without_majority() -> Patches:
    return [(VoterSet, "reached_by_majority", lambda self, numbers: max(numbers.values()))]


def watermark_of_an_older_epoch() -> Patches:
    original = Leadership.begin

    def begin(self: Leadership, granting: set[int]) -> None:
        original(self, granting)
        self.epoch_start_offset = -1

    return [(Leadership, "begin", begin)]


def watermark_counts_what_the_leader_has_not_flushed() -> Patches:
    original = Leadership.commit

    def commit(self: Leadership) -> None:
        log = self._node.log
        with patch.object(log, "flushed_offset", log.log_end_offset):
            original(self)

    return [(Leadership, "commit", commit)]


def follower_asks_before_it_has_flushed() -> Patches:
    def may_fetch(self: Following) -> bool:
        return (
            self._request_id not in self._node.asked and not self._node.is_writing and self._snapshot is None
        )

    return [(Following, "_may_fetch", may_fetch)]


def truncation_by_watermark() -> Patches:
    original = Following.begin

    def begin(self: Following) -> None:
        original(self)
        node = self._node
        if node.state is State.FOLLOWER and node.log.log_end_offset > node.high_watermark:
            node.is_writing = True
            node.emit(TruncateTo(node.high_watermark))

    return [(Following, "begin", begin)]


def divergence_not_noticed() -> Patches:
    def judge(log: Any, offset: int, epoch: int) -> EpochEnd | SnapshotId | None:
        if offset < log.log_start_offset:
            return log.latest_snapshot  # type: ignore[no-any-return]
        return EpochEnd(log.last_epoch, log.log_end_offset) if offset > log.log_end_offset else None

    return [(leadership, "judge_fetch", judge)]


def divergence_before_the_log_not_noticed() -> Patches:
    return [(log_view, "_is_before_start", lambda log, offset, epoch: offset < log.log_start_offset)]


def no_check_quorum() -> Patches:
    return [
        (Leadership, "is_cut_off", lambda self: False),
        (Leadership, "_quorum_lost_at_ms", lambda self: 2**63 - 1),
    ]


def leader_leads_on_after_a_restart() -> Patches:
    """It thinks that having been elected is enough, and that its log is as it was."""
    led: set[tuple[Any, int]] = set()
    init, begin = RaftReplica.__init__, Leadership.begin

    def remembering_begin(self: Leadership, granting: set[int]) -> None:
        led.add((self._node.identity, self._node.epoch))
        begin(self, granting)

    def restart(self: RaftReplica, *arguments: Any) -> None:
        init(self, *arguments)
        node = self._node
        if (node.identity, node.epoch) in led and node.voted == node.identity:
            node.state, node.leader_id = State.LEADER, node.node_id
            begin(self._leadership, set())
            node.is_writing = False
            node.take_effects()

    return [(Leadership, "begin", remembering_begin), (RaftReplica, "__init__", restart)]


def voter_without_memory_votes() -> Patches:
    original = Node.__init__

    def init(self: Node, *arguments: Any) -> None:
        original(self, *arguments)
        self.is_proven = self.is_voter

    return [(Node, "__init__", init)]


def voter_without_memory_counts() -> Patches:
    original = Leadership._contacted

    def contacted(self: Leadership, fetch: Fetch) -> Progress:
        return original(self, replace(fetch, is_proven=True))

    return [(Leadership, "_contacted", contacted)]


def voter_is_proven_when_it_has_caught_up() -> Patches:
    def check(self: Proof) -> None:
        node = self._node
        if not node.is_proven and node.is_voter and self._end_offset is not None:
            node.is_proven = True
            node.memory_changed()

    return [(Proof, "check", check)]


def voters_change_before_the_last_change_is_committed() -> Patches:
    return [(membership, "_refuse_change", lambda node, leadership: None)]


def voter_is_known_by_its_number_only() -> Patches:
    return [(VoterSet, "has", lambda self, key: key.node_id in self.ids)]


MUTATIONS: Mapping[str, Callable[[], Patches]] = {
    mutation.__name__: mutation
    for mutation in (
        vote_not_persisted,
        vote_answered_before_it_is_persisted,
        voter_votes_twice,
        log_of_a_candidate_not_compared,
        log_of_a_candidate_compared_by_length,
        pre_vote_counts_as_a_vote,
        answers_of_other_epochs_count,
        watermark_without_majority,
        watermark_of_an_older_epoch,
        watermark_counts_what_the_leader_has_not_flushed,
        follower_asks_before_it_has_flushed,
        truncation_by_watermark,
        divergence_not_noticed,
        divergence_before_the_log_not_noticed,
        no_check_quorum,
        leader_leads_on_after_a_restart,
        voter_without_memory_votes,
        voters_change_before_the_last_change_is_committed,
        voter_is_known_by_its_number_only,
    )
}

# These need a chain of accidents that chance brings about once in many thousand stories; `test_vote_recovery` tells it by hand.
RARE_MUTATIONS: Mapping[str, Callable[[], Patches]] = {
    mutation.__name__: mutation
    for mutation in (voter_without_memory_counts, voter_is_proven_when_it_has_caught_up)
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The machine with one bug in it."""
    with ExitStack() as stack:
        for target, attribute, replacement in {**MUTATIONS, **RARE_MUTATIONS}[name]():
            stack.enter_context(patch.object(target, attribute, replacement))
        yield
