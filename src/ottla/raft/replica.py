"""A member of the metadata quorum, as a machine: `step(event, now_ms)` answers what should happen next.

The quorum keeps one log on several nodes, KRaft style (KIP-595): one leader for each epoch, elected by a
majority of voters; followers and observers pull. `node` has the table of states and the two rules about
requests and replies, `election` the votes, `leadership` the leader, `following` the follower, `vote_recovery`
the return of a voter that lost its memory, `events` the duties of the shell. `docs/raft.md` says why it is
safe.

Rules
- A message with a newer epoch takes this node there, whatever it does; one with an older epoch is refused,
  and told the newer.
- A node never leads an epoch twice: one that restarts in an epoch it led is not its leader any more.
- It stands for election only after a majority said that it would vote for it.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.errors import ErrorCode
from ottla.raft.election import Election
from ottla.raft.events import (
    Answered,
    AppendRefused,
    ChangeVoters,
    Disconnected,
    Effect,
    Event,
    Flushed,
    Leave,
    LogChanged,
    LogFull,
    Received,
    SnapshotReady,
    SnapshotRefused,
    Tick,
    Unanswered,
    VotePersisted,
)
from ottla.raft.following import Following
from ottla.raft.leadership import Leadership
from ottla.raft.log_view import LogView
from ottla.raft.membership import with_added, with_removed
from ottla.raft.messages import (
    Answer,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    ReplicaKey,
    Vote,
    VoteAnswer,
)
from ottla.raft.node import NEVER, Asked, Node, State
from ottla.raft.quorum_state import QuorumState
from ottla.raft.request_handling import Questions
from ottla.raft.settings import RaftSettings
from ottla.raft.transitions import Transitions
from ottla.raft.voters import VoterNode, VoterSet


class RaftReplica:
    """The machine. `memory` is what `quorum-state` says, None if there is none; `jitter(n)` draws from 0 to n
    - 1.
    """

    def __init__(
        self,
        identity: ReplicaKey,
        voters: VoterSet,
        log: LogView,
        memory: QuorumState | None,
        settings: RaftSettings,
        jitter: Callable[[int], int],
    ) -> None:
        self._node = Node(identity, voters, log, memory, settings, jitter)
        self._election = Election(self._node)
        self._leadership = Leadership(self._node)
        self._following = Following(self._node)
        parts = (self._election, self._leadership, self._following)
        self._transitions = Transitions(self._node, *parts)
        self._questions = Questions(self._node, self._transitions, *parts)

    # ---- what it is

    @property
    def node_id(self) -> int:
        return self._node.node_id

    @property
    def state(self) -> State:
        return self._node.state

    @property
    def epoch(self) -> int:
        return self._node.epoch

    @property
    def leader_id(self) -> int | None:
        return self._node.leader_id

    @property
    def high_watermark(self) -> int:
        """Everything below is committed, for ever."""
        return self._node.high_watermark

    @property
    def is_leader(self) -> bool:
        """Whether the shell may append, with this epoch; LogChanged tells the machine of it."""
        return self._node.state is State.LEADER

    @property
    def is_established(self) -> bool:
        """Whether it leads, and has committed a record of its epoch."""
        return self.is_leader and self._leadership.is_established

    @property
    def can_vote(self) -> bool:
        return self._node.can_vote

    @property
    def forgetful_voters(self) -> list[int]:
        """The voters without a memory, as far as is known here. Where they are a majority, nobody is elected."""
        node = self._node
        is_one = node.is_voter and not node.can_vote
        return sorted({*node.forgetful, node.node_id} if is_one else node.forgetful)

    @property
    def leadership(self) -> Leadership:
        """The leader's view of the other nodes; for descriptions."""
        return self._leadership

    @property
    def next_deadline_ms(self) -> int | None:
        """When to `step` next if nothing else happens."""
        node = self._node
        match node.state:
            case State.LEADER:
                deadline_ms = self._leadership.next_deadline_ms
            case State.FOLLOWER:
                deadline_ms = self._following.next_deadline_ms
            case State.UNATTACHED if not node.can_stand:
                deadline_ms = self._following.next_deadline_ms
            case _:
                deadline_ms = self._election.due_at_ms
        return None if deadline_ms == NEVER or node.is_halted else deadline_ms

    @property
    def voters(self) -> VoterSet:
        """The voters of this moment."""
        return self._node.voters

    def voters_with(self, voter: VoterNode) -> VoterSet:
        """The voters and one more; KafkaError if it cannot be added. For ChangeVoters in the same moment."""
        return with_added(self._node, self._leadership, voter)

    def voters_without(self, key: ReplicaKey) -> VoterSet:
        """The voters and one less; KafkaError if it cannot be removed. For ChangeVoters in the same moment."""
        return with_removed(self._node, self._leadership, key)

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """The effects of the event, and of everything else that is due at this time."""
        node = self._node
        if node.is_halted:
            return []
        node.begin_step(now_ms)
        # Before anything is heard: what waited while the process stood still is no sign of life.
        self._check_quorum()
        self._hear(event)
        self._due()
        return node.take_effects()

    # ---- what it hears

    def _hear(self, event: Event) -> None:
        node = self._node
        match event:
            case Received(ticket, request):
                self._questions.answer(ticket, request)
            case Answered(request_id, answer):
                asked = node.asked.pop(request_id, None)
                if asked is not None:
                    self._answered(asked, answer)
            case Unanswered(request_id):
                asked = node.asked.pop(request_id, None)
                if asked is not None:
                    self._unanswered(asked)
            case LogChanged():
                self._log_changed()
            case Flushed():
                self._flushed()
            case VotePersisted(number):
                self._persisted(number)
            case _:
                self._told(event)

    def _told(self, event: Event) -> None:
        """Handle the rare events."""
        node = self._node
        match event:
            case AppendRefused(is_full):
                node.log_changed()
                if is_full:
                    node.no_room()
                self._following.retry_later()
            case LogFull():
                self._log_full()
            case SnapshotReady(attempt):
                self._following.snapshot_ready(attempt)
            case SnapshotRefused(attempt):
                self._following.snapshot_refused(attempt)
            case Disconnected(node_id):
                if node.state is State.FOLLOWER and node.leader_id == node_id:
                    self._following.leader_disconnected()
            case Leave():
                self._leave()
            case ChangeVoters(voters):
                if node.state is State.LEADER:
                    self._leadership.change_voters(voters)
            case Tick():
                pass

    def _answered(self, asked: Asked, answer: Answer) -> None:
        node = self._node
        before = (node.state, node.epoch)
        self._transitions.meet(answer.epoch, answer.leader_id)
        if (node.state, node.epoch) != before:
            return
        if answer.epoch < node.epoch:
            # A node that was told of this epoch and answers from an older one says nothing.
            self._unanswered(asked)
            return
        match asked.request, answer:
            case Vote(), VoteAnswer():
                self._voted(asked.to, answer)
            case Fetch(), FetchAnswer():
                self._fetched(asked.request, answer)
            case FetchSnapshot(), FetchSnapshotAnswer():
                self._following.snapshot_fetched(asked.request, answer)

    def _voted(self, voter_id: int, answer: VoteAnswer) -> None:
        self._election.count(voter_id, is_granted=answer.is_granted)
        if not answer.is_granted:
            self._election.refused()
        self._transitions.conclude()

    def _fetched(self, fetch: Fetch, answer: FetchAnswer) -> None:
        node = self._node
        if node.state is not State.FOLLOWER or answer.error not in (
            ErrorCode.NONE,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ):
            self._following.retry_later()
        elif answer.error is ErrorCode.NONE:
            self._following.fetched(fetch, answer)
        else:
            # The leader itself says so: it has resigned, or it has restarted. No need to wait for long.
            node.end_epoch(node.epoch)
            self._transitions.unattach()
            self._election.wait_a_little()

    def _unanswered(self, asked: Asked) -> None:
        match asked.request:
            case Vote():
                self._election.count(asked.to, is_granted=False)
                self._transitions.conclude()
            case Fetch() | FetchSnapshot():
                self._following.retry_later()

    def _log_changed(self) -> None:
        self._node.log_changed()
        if self._node.state is State.LEADER:
            self._leadership.log_changed()
        elif self._node.state is State.FOLLOWER:
            self._node.has_room()
            self._following.log_changed()

    def _flushed(self) -> None:
        self._node.flushed()
        if self._node.state is State.LEADER:
            self._leadership.commit()
        elif self._node.state is State.FOLLOWER:
            self._following.flushed()

    def _persisted(self, number: int) -> None:
        node = self._node
        node.memory_persisted(number)
        if node.state is State.CANDIDATE and node.is_persisted:
            self._election.count(node.node_id, is_granted=True)
            self._transitions.conclude()

    def _log_full(self) -> None:
        node = self._node
        node.log_changed()
        if node.state is State.LEADER and len(node.voters.ids) > 1:
            node.no_room()
            self._transitions.resign()

    def _leave(self) -> None:
        node = self._node
        node.leave()
        if node.state is State.LEADER:
            self._transitions.resign()
        elif node.state in (State.PROSPECTIVE, State.CANDIDATE):
            self._transitions.unattach()

    # ---- what is due

    def _check_quorum(self) -> None:
        if self._node.state is State.LEADER:
            self._leadership.take_voters()
            if self._leadership.is_cut_off():
                self._transitions.resign()

    def _due(self) -> None:
        node = self._node
        match node.state:
            case State.LEADER if self._leadership.is_removed:
                self._transitions.resign()
            case State.LEADER:
                self._leadership.announce()
                self._leadership.answer_due()
            case State.FOLLOWER:
                if node.now_ms >= self._following.deadline_ms:
                    self._transitions.lose_leader()
            case _:
                self._election_due()
        node.flush()
        if node.state is State.FOLLOWER or (node.state is State.UNATTACHED and not node.can_stand):
            self._following.fetch_if_due()

    def _election_due(self) -> None:
        node = self._node
        if self._election.due_at_ms == NEVER:
            self._election.begin()
        if node.now_ms < self._election.due_at_ms:
            return
        if node.state is State.RESIGNED:
            self._transitions.unattach()
        elif node.can_stand:
            self._transitions.prospect()
