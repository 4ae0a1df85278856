"""The ways from one state to another: what has to be said and set up on each of them. The table is in
`node`.
"""

from __future__ import annotations

from typing import Any

from ottla.errors import ErrorCode
from ottla.raft.election import Election
from ottla.raft.following import Following
from ottla.raft.leadership import Leadership
from ottla.raft.messages import EndEpoch, FetchAnswer
from ottla.raft.node import NEVER, Node, State


class Transitions:
    """Moves a node, and the parts that act in its states."""

    def __init__(self, node: Node, election: Election, leadership: Leadership, following: Following) -> None:
        self._node = node
        self._election = election
        self._leadership = leadership
        self._following = following

    @property
    def vouched_leader_id(self) -> int | None:
        """The leader to tell others of: this node, or one that has answered it. Others would believe mere
        hearsay.
        """
        node = self._node
        is_known = node.state is State.LEADER or (
            node.state is State.FOLLOWER and self._following.has_fetched
        )
        return node.leader_id if is_known else None

    def meet(self, epoch: int, leader_id: int | None = None) -> None:
        """Somebody speaks of an epoch, and perhaps of its leader: go there if it is newer, follow if that is
        new.
        """
        node = self._node
        if leader_id == node.node_id:
            leader_id = None  # this node may have led the epoch before it restarted; it does not any more
        if epoch > node.epoch:
            self.unattach(epoch) if leader_id is None else self.follow(leader_id, epoch)
        elif epoch == node.epoch != node.ended_epoch and leader_id is not None:
            if node.leader_id is None:
                self.follow(leader_id, epoch)
            elif node.leader_id != leader_id:
                node.halt(f"both {node.leader_id} and {leader_id} lead epoch {epoch}")

    def unattach(self, epoch: int | None = None) -> None:
        """Know no leader, of this epoch or a newer one."""
        node = self._node
        was, had_leader = node.state, node.leader_id is not None
        node.to(State.UNATTACHED)
        if epoch is not None:
            node.enter_epoch(epoch)
        if had_leader or epoch is not None:
            node.lead_by(None)
        self._refuse(self._leadership.end())
        if was is not State.UNATTACHED or self._election.due_at_ms == NEVER:
            self._election.wait()
        self._following.begin()

    def follow(self, leader_id: int, epoch: int) -> None:
        node = self._node
        node.to(State.FOLLOWER)
        if epoch > node.epoch:
            node.enter_epoch(epoch)
        node.lead_by(leader_id)
        self._refuse(self._leadership.end())
        self._election.forget_losses()
        self._following.begin()

    def lose_leader(self) -> None:
        """The leader says nothing any more, or that it is over."""
        self.prospect() if self._node.can_stand else self.unattach()

    def prospect(self) -> None:
        """Ask whether one would be elected."""
        node = self._node
        had_leader = node.leader_id is not None
        node.to(State.PROSPECTIVE)
        if had_leader:
            node.lead_by(None)
        self._election.ask(is_pre_vote=True)
        self.conclude()

    def conclude(self) -> None:
        """See what has become of the round of votes."""
        if self._election.is_won:
            self._stand() if self._node.state is State.PROSPECTIVE else self._lead()
        elif self._election.is_lost:
            self._election.pause()

    def resign(self) -> None:
        """Stop leading, and tell the voters."""
        node = self._node
        successors = self._leadership.successors()
        node.end_epoch(node.epoch)
        node.to(State.RESIGNED)
        node.lead_by(None)
        self._refuse(self._leadership.end())
        self._election.wait()
        for voter_id in node.voters.others(node.node_id):
            node.send(voter_id, EndEpoch(node.epoch, node.node_id, successors))

    def _stand(self) -> None:
        node = self._node
        node.to(State.CANDIDATE)
        node.enter_epoch(node.epoch + 1)
        node.vote_for(node.identity)
        node.lead_by(None)
        self._election.ask(is_pre_vote=False)

    def _lead(self) -> None:
        node = self._node
        node.to(State.LEADER)
        node.lead_by(node.node_id)
        self._election.forget_losses()
        self._leadership.begin(self._election.granted)

    def _refuse(self, tickets: list[Any]) -> None:
        node = self._node
        for ticket in tickets:
            node.reply(ticket, FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, node.epoch, node.leader_id))
