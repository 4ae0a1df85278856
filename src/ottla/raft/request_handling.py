"""This node's answers to the requests of other nodes."""

from __future__ import annotations

from typing import Any

from ottla.errors import ErrorCode
from ottla.protocol.codec import ZERO_UUID
from ottla.raft.election import Election, grants
from ottla.raft.following import Following
from ottla.raft.leadership import Leadership
from ottla.raft.messages import (
    BeginEpoch,
    EndEpoch,
    EpochAnswer,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    ReplicaKey,
    Request,
    Vote,
    VoteAnswer,
)
from ottla.raft.node import Node, State
from ottla.raft.transitions import Transitions


class Questions:
    """Votes, the beginning and the end of epochs, fetches."""

    def __init__(
        self,
        node: Node,
        transitions: Transitions,
        election: Election,
        leadership: Leadership,
        following: Following,
    ) -> None:
        self._node = node
        self._transitions = transitions
        self._election = election
        self._leadership = leadership
        self._following = following

    def answer(self, ticket: Any, request: Request) -> None:
        """Answer now, or have the leader's part answer when it can."""
        node = self._node
        match request:
            case Vote():
                node.reply(ticket, self._vote(request))
            case BeginEpoch():
                node.reply(ticket, self._begin_epoch(request))
            case EndEpoch():
                node.reply(ticket, self._end_epoch(request))
            case Fetch():
                self._fetch(ticket, request)
            case FetchSnapshot():
                self._fetch_snapshot(ticket, request)

    def _vote(self, vote: Vote) -> VoteAnswer:
        node = self._node
        error = self._vote_error(vote)
        if error is not ErrorCode.NONE:
            return VoteAnswer(error, node.epoch, self._transitions.vouched_leader_id, False)
        self._transitions.meet(vote.epoch)
        is_granted = grants(node, vote, has_fetched=self._following.has_fetched)
        if is_granted and not vote.is_pre_vote:
            self._promise(vote)
        return VoteAnswer(ErrorCode.NONE, node.epoch, self._transitions.vouched_leader_id, is_granted)

    def _vote_error(self, vote: Vote) -> ErrorCode:
        """Why a vote is not considered. A set of voters in a log may be newer than the one here: a candidate that
        names the directory of this node may be right that this node votes, and that it votes itself.
        """
        node = self._node
        key = ReplicaKey(vote.voter_id, vote.voter_directory_id)
        is_named = key == node.identity and node.is_proven
        is_known = vote.voter_directory_id in (ZERO_UUID, node.identity.directory_id) and node.is_voter
        if vote.voter_id != node.node_id or not (is_named or is_known):
            return ErrorCode.INVALID_VOTER_KEY
        is_candidate = is_named or vote.candidate.node_id in node.voters
        if not is_candidate or vote.candidate.node_id == node.node_id:
            return ErrorCode.INCONSISTENT_VOTER_SET
        return ErrorCode.FENCED_LEADER_EPOCH if vote.epoch < node.epoch else ErrorCode.NONE

    def _promise(self, vote: Vote) -> None:
        if self._node.voted is None:
            self._node.vote_for(vote.candidate)
        if self._node.state is State.PROSPECTIVE:
            self._transitions.unattach()
        self._election.wait()  # for what becomes of it

    def _begin_epoch(self, begin: BeginEpoch) -> EpochAnswer:
        node = self._node
        error = ErrorCode.NONE
        if begin.voter_id != node.node_id:
            error = ErrorCode.INVALID_VOTER_KEY
        elif begin.leader_id == node.node_id:
            error = ErrorCode.INCONSISTENT_VOTER_SET
        elif begin.epoch < node.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        else:
            self._transitions.meet(begin.epoch, begin.leader_id)
        return EpochAnswer(error, node.epoch, self._transitions.vouched_leader_id)

    def _end_epoch(self, end: EndEpoch) -> EpochAnswer:
        node = self._node
        if end.epoch < node.epoch:
            return EpochAnswer(ErrorCode.FENCED_LEADER_EPOCH, node.epoch, self._transitions.vouched_leader_id)
        if end.leader_id != node.node_id:
            self._transitions.meet(end.epoch)
            if node.leader_id in (None, end.leader_id):
                self._over(end)
        return EpochAnswer(ErrorCode.NONE, node.epoch, self._transitions.vouched_leader_id)

    def _over(self, end: EndEpoch) -> None:
        """The leader has resigned: whom it would like to follow it, stands first."""
        node = self._node
        node.end_epoch(end.epoch)
        if node.state is State.FOLLOWER:
            self._transitions.unattach()
        successors = [successor.node_id for successor in end.successors]
        if node.state is State.UNATTACHED and node.node_id in successors:
            rank = successors.index(node.node_id)
            step_ms = node.settings.election_backoff_ms
            self._election.wait_at_most(rank * step_ms * 2 + node.jitter(step_ms) if rank else 0)

    def _fetch(self, ticket: Any, fetch: Fetch) -> None:
        self._node.heard_memory(fetch.replica.node_id, is_proven=fetch.is_proven)
        error = self._leader_error(fetch.replica.node_id, fetch.epoch)
        if error is ErrorCode.NONE and fetch.fetch_offset < 0:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        if error is ErrorCode.NONE:
            self._leadership.fetch(ticket, fetch)
        else:
            leader_id = self._transitions.vouched_leader_id
            self._node.reply(ticket, FetchAnswer(error, self._node.epoch, leader_id))

    def _fetch_snapshot(self, ticket: Any, fetch: FetchSnapshot) -> None:
        error = self._leader_error(fetch.replica.node_id, fetch.epoch)
        if error is ErrorCode.NONE:
            self._leadership.fetch_snapshot(ticket, fetch)
        else:
            leader_id = self._transitions.vouched_leader_id
            answer = FetchSnapshotAnswer(error, self._node.epoch, leader_id, fetch.snapshot_id)
            self._node.reply(ticket, answer)

    def _leader_error(self, replica_id: int, epoch: int) -> ErrorCode:
        """Why this node does not answer as the leader of an epoch.

        Epochs are made by voters: a node that does not vote brings no news of one, for any node may fetch.
        """
        node = self._node
        if epoch < node.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > node.epoch and replica_id not in node.voters.others(node.node_id):
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        self._transitions.meet(epoch)
        return ErrorCode.NONE if node.state is State.LEADER else ErrorCode.NOT_LEADER_OR_FOLLOWER
