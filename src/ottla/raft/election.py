"""How a leader is chosen: a round of pre-votes, then a round of votes.

A pre-vote (KIP-996) asks whether one would be elected; it promises nothing and changes nothing, so a node
that was cut off comes back without forcing the others into a new epoch. It is granted to a log that is not
behind, by a node that hears of no living leader. A vote is granted once for each epoch, to a log that is not
behind, where no leader is known.
"""

from __future__ import annotations

from ottla.raft.log_view import is_up_to_date
from ottla.raft.messages import Vote
from ottla.raft.node import NEVER, Node, State


def grants(node: Node, vote: Vote, *, has_fetched: bool) -> bool:
    """Whether this node, in the epoch of the vote, says yes. `has_fetched`: the leader it follows has
    answered.
    """
    if not node.is_proven or not is_up_to_date(node.log, vote.last_epoch, vote.end_offset):
        return False
    if vote.is_pre_vote:
        return node.state is not State.LEADER and not (node.state is State.FOLLOWER and has_fetched)
    return node.leader_id is None and node.voted in (None, vote.candidate)


class Election:
    """The rounds of one node, and when the next is due."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.granted: set[int] = set()
        self._pending: set[int] = set()
        self._is_over = False
        self._lost_rounds = 0
        self.due_at_ms = (
            NEVER  # unattached and resigned: how long to wait; in a round: its end, or the next one
        )

    def begin(self) -> None:
        """The first wait of a node's life. A short one: a pre-vote disturbs no other node, and its answers
        name the leader.
        """
        node, step_ms = self._node, self._node.settings.election_backoff_ms
        self.due_at_ms = node.now_ms
        if len(node.voters.ids) > 1:
            self.due_at_ms += step_ms + node.jitter(step_ms * len(node.voters.ids))

    def wait(self) -> None:
        """Give a leader, or a candidate, time to show up."""
        timeout_ms = self._node.settings.quorum.election_timeout_ms
        self.due_at_ms = self._node.now_ms + timeout_ms + self._node.jitter(timeout_ms)

    def wait_at_most(self, delay_ms: int) -> None:
        self.due_at_ms = min(self.due_at_ms, self._node.now_ms + delay_ms)

    def wait_a_little(self) -> None:
        """There is no leader any more, and all know it at the same time: not all should stand at once."""
        step_ms = self._node.settings.election_backoff_ms
        self.wait_at_most(step_ms + self._node.jitter(step_ms * len(self._node.voters.ids)))

    def forget_losses(self) -> None:
        """There is a leader: the next election begins without a pause."""
        self._lost_rounds = 0

    def ask(self, *, is_pre_vote: bool) -> None:
        """Begin a round. One's own vote counts when it is persisted; a pre-vote need not be."""
        node = self._node
        self.wait()
        self._is_over = False
        self.granted = {node.node_id} if is_pre_vote else set()
        self._pending = {node.node_id} - self.granted
        for voter_id in node.voters.others(node.node_id):
            self._pending.add(voter_id)
            log = node.log
            directory_id = node.voters.directory_of(voter_id)
            ends = log.last_epoch, log.log_end_offset
            node.send(voter_id, Vote(voter_id, node.epoch, node.identity, *ends, is_pre_vote, directory_id))

    def count(self, voter_id: int, *, is_granted: bool) -> None:
        """A voter has spoken, or will not."""
        self._pending.discard(voter_id)
        if is_granted:
            self.granted.add(voter_id)

    def refused(self) -> None:
        """Somebody said no, perhaps to stand itself. Those who are silent may be dead: wait no whole round
        for them.
        """
        settings = self._node.settings
        self.wait_at_most(settings.election_backoff_ms + self._node.jitter(settings.election_spread_ms))

    @property
    def is_won(self) -> bool:
        return self._node.voters.is_majority(self.granted)

    @property
    def is_lost(self) -> bool:
        """Not even with all who have not spoken yet. Said once: a late vote may still win the round."""
        return not self._is_over and not self._node.voters.is_majority(self.granted | self._pending)

    def pause(self) -> None:
        """A round is lost: let the others try, longer each time."""
        settings = self._node.settings
        longest_ms = min(
            settings.election_backoff_ms << self._lost_rounds, settings.quorum.election_backoff_max_ms
        )
        self._lost_rounds = min(self._lost_rounds + 1, 16)
        self._is_over = True
        self.wait_at_most(settings.election_backoff_ms + self._node.jitter(longest_ms))
