"""The state that all parts of the machine share: the node's identity, its state, and its pending effects.

Two rules live here.

Promises are persisted first. An epoch and a vote are promises; from the moment they change until they
are on the disk (PersistVote, VotePersisted), everything that this node says is held back, in order. Requests
that are held back when the state changes are dropped, for their answers would be ignored; replies are kept,
for other nodes wait for them.

Answers belong to a state. When the state changes, what was asked in the old one is forgotten, and its answers
are late.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from ottla.model import NO_EPOCH
from ottla.raft.events import (
    AppendLeaderChange,
    AppendRecords,
    AppendVoters,
    Effect,
    Flush,
    Halt,
    HighWatermarkAdvanced,
    LeaderChanged,
    PersistVote,
    Reply,
    ReplyRecords,
    ReplySnapshot,
    ResetLog,
    Send,
    TruncateTo,
)
from ottla.raft.log_view import LogView
from ottla.raft.messages import Answer, ReplicaKey, Request
from ottla.raft.quorum_state import QuorumState
from ottla.raft.settings import RaftSettings
from ottla.raft.voters import VoterSet

NEVER: Final = 2**63 - 1


class State(Enum):
    """Where a node stands."""

    UNATTACHED = "knows no leader"
    PROSPECTIVE = "asks whether it would be elected"
    CANDIDATE = "asks for votes"
    LEADER = "leads"
    FOLLOWER = "fetches from the leader"
    RESIGNED = "has led, and tells the others so"


_OTHERS_LEAD: Final = "another node leads this epoch or a newer one"
_NEWER_EPOCH: Final = "there is a newer epoch"

# Every way there is from one state to another.
TRANSITIONS: Final[Mapping[tuple[State, State], str]] = {
    (State.UNATTACHED, State.PROSPECTIVE): "no leader within the election timeout, or a leader asked for it",
    (State.FOLLOWER, State.PROSPECTIVE): "the leader is silent for the fetch timeout",
    (State.PROSPECTIVE, State.PROSPECTIVE): "no majority would vote for it: a pause, and again",
    (State.PROSPECTIVE, State.CANDIDATE): "a majority would vote for it",
    (State.CANDIDATE, State.PROSPECTIVE): "no majority voted for it: a pause, and again",
    (State.CANDIDATE, State.LEADER): "a majority voted for it",
    (
        State.LEADER,
        State.RESIGNED,
    ): "no majority fetches from it, its disk is full, it is about to stop, or it is no voter any more",
    (State.RESIGNED, State.UNATTACHED): "the election timeout is over, or there is a newer epoch",
    (State.PROSPECTIVE, State.UNATTACHED): f"{_NEWER_EPOCH}, it voted for another, or it is about to stop",
    (State.CANDIDATE, State.UNATTACHED): f"{_NEWER_EPOCH}, or it is about to stop",
    (State.LEADER, State.UNATTACHED): _NEWER_EPOCH,
    (
        State.FOLLOWER,
        State.UNATTACHED,
    ): f"{_NEWER_EPOCH}, the leader resigned, or is silent and this node may not stand",
    (State.UNATTACHED, State.UNATTACHED): f"{_NEWER_EPOCH}, or it voted",
    **{(state, State.FOLLOWER): _OTHERS_LEAD for state in State},
}


class Asked(NamedTuple):
    """A request under way."""

    to: int
    request: Request


class Node:
    """The shared state. `memory` is what the disk remembers; None if it remembers nothing (see
    `vote_recovery`), or if this node never votes. A node that may be made a voter remembers before it is one.
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
        self.identity = identity
        self._configured_voters = voters
        self.log = log
        self.settings = settings
        self.jitter = jitter
        self.state = State.UNATTACHED
        known = memory or QuorumState()
        # The log may have seen a leader that was never written down: without a vote there was no need to.
        self.epoch = max(known.epoch, log.last_epoch)
        self.voted = known.voted if known.epoch == self.epoch else None
        self.leader_id: int | None = None
        self.ended_epoch = NO_EPOCH  # its leader said that it is over: no leader is followed in it
        self.is_proven = memory is not None
        self.forgetful: set[int] = set()  # other voters that fetch without a memory
        self.is_leaving = False
        self._full_until_ms = 0  # the disk had no room: this node does not stand before
        self._halt: Halt | None = None
        self.high_watermark = log.log_start_offset  # what a snapshot holds is committed
        self.is_writing = False  # an effect that changes the log is being carried out
        self.is_flushing = False
        self.now_ms = 0
        self.asked: dict[int, Asked] = {}
        self._request_id = 0
        self._effects: list[Effect] = []
        self._held: list[tuple[int, Send | Reply | ReplyRecords | ReplySnapshot]] = []
        self._changes = 0  # of the memory; numbers PersistVote
        self._persisted = 0
        self._is_changed = False

    # ---- who it is

    @property
    def node_id(self) -> int:
        return self.identity.node_id

    @property
    def voters(self) -> VoterSet:
        """The voters of this moment: those that the log names last, or else those of the settings."""
        logged = self.log.voters
        return self._configured_voters if logged is None else logged.voters

    @property
    def askable_voters(self) -> list[int]:
        """The other nodes that may know the leader: the voters of the log may all be gone, or be this node
        alone.
        """
        return sorted((self.voters.ids | self._configured_voters.ids) - {self.node_id})

    @property
    def is_voter(self) -> bool:
        return self.voters.has(self.identity)

    @property
    def can_vote(self) -> bool:
        """A voter that remembers what it promised."""
        return self.is_proven and self.is_voter

    @property
    def can_stand(self) -> bool:
        may_lead = self.is_voter or self._is_being_removed
        return self.is_proven and may_lead and not self.is_leaving and self.now_ms >= self._full_until_ms

    @property
    def _is_being_removed(self) -> bool:
        """Whether the newest set of voters, which is not known to be committed, is the first without this node.
        Its log may be the only one with that set, and then no other node could be elected.
        """
        logged = self.log.voters
        if logged is None or logged.end_offset <= self.high_watermark:
            return False
        return (self.log.former_voters or self._configured_voters).has(self.identity)

    # ---- where it stands

    def begin_step(self, now_ms: int) -> None:
        """All of the next step happens at this time."""
        self.now_ms = now_ms

    def to(self, state: State) -> None:
        """Change the state: what was asked in the old one is asked no more."""
        assert (self.state, state) in TRANSITIONS, f"there is no way from {self.state} to {state}"
        self.state = state
        self.asked.clear()
        self._held = [held for held in self._held if not isinstance(held[1], Send)]

    def enter_epoch(self, epoch: int) -> None:
        """Enter a newer epoch: its leader is not known, and this node has not voted in it."""
        assert epoch > self.epoch, f"the epoch goes from {self.epoch} back to {epoch}"
        self.epoch, self.voted = epoch, None
        self.memory_changed()

    def vote_for(self, candidate: ReplicaKey) -> None:
        """One vote for each epoch."""
        assert self.voted in (None, candidate), f"{self.voted} has the vote of epoch {self.epoch} already"
        self.voted = candidate
        self.memory_changed()

    def lead_by(self, leader_id: int | None) -> None:
        """Take over the leader of this epoch; None if it is not known."""
        self.leader_id = leader_id
        self.emit(LeaderChanged(leader_id, self.epoch))

    def end_epoch(self, epoch: int) -> None:
        """The leader of this epoch said that the epoch is over."""
        self.ended_epoch = epoch

    def leave(self) -> None:
        """The node is about to stop: it does not stand for election any more."""
        self.is_leaving = True

    def no_room(self) -> None:
        """The disk is full: let others stand for election, and try again later, for they may be full, too."""
        self._full_until_ms = self.now_ms + self.settings.full_disk_pause_ms

    def has_room(self) -> None:
        """The disk took records."""
        self._full_until_ms = 0

    def raise_high_watermark(self, offset: int) -> bool:
        """Move it up, never down."""
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self.emit(HighWatermarkAdvanced(offset))
        return True

    def halt(self, reason: str) -> None:
        """An invariant is broken: nothing is done any more, not even the rest of this step."""
        self._halt = Halt(reason)

    @property
    def is_halted(self) -> bool:
        return self._halt is not None

    # ---- what it remembers

    def prove(self) -> None:
        """The node can vote, although it lost its memory once (see `vote_recovery`)."""
        self.is_proven = True
        self.memory_changed()

    @property
    def may_forget_its_votes(self) -> bool:
        """Whether votes that this node lost with its disk count no more: committed records name the voters by
        their directories, and this directory is not among them.
        """
        if self.is_proven or self.node_id not in self._configured_voters or self.is_voter:
            return False
        logged = self.log.voters
        return logged is not None and logged.end_offset <= self.high_watermark

    def heard_memory(self, node_id: int, *, is_proven: bool) -> None:
        """A node fetches and says whether it remembers its votes."""
        if node_id in self.voters and not is_proven:
            self.forgetful.add(node_id)
        else:
            self.forgetful.discard(node_id)

    def memory_changed(self) -> None:
        """Have it persisted with this step. A node without a vote promises nothing, and writes nothing
        down.
        """
        if self.is_proven and not self._is_changed:
            self._is_changed = True
            self._changes += 1

    def memory_persisted(self, number: int) -> None:
        """Say what was held back for it."""
        self._persisted = max(self._persisted, number)
        while self._held and self._held[0][0] <= self._persisted:
            self._effects.append(self._held.pop(0)[1])

    @property
    def is_persisted(self) -> bool:
        return self._persisted == self._changes

    # ---- what it says

    def emit(self, effect: Effect) -> None:
        """An effect that no other node sees."""
        self._effects.append(effect)

    def send(self, to: int, request: Request, wait_ms: int = 0) -> int:
        """Ask a node; the id tells the answer. `wait_ms` is how long the other may take on purpose."""
        self._request_id += 1
        self.asked[self._request_id] = Asked(to, request)
        self._say(Send(to, self._request_id, request, wait_ms + self.settings.quorum.request_timeout_ms))
        return self._request_id

    def reply(self, ticket: Any, answer: Answer) -> None:
        self._say(Reply(ticket, answer))

    def reply_from_disk(self, effect: ReplyRecords | ReplySnapshot) -> None:
        """An answer whose bytes the shell reads."""
        self._say(effect)

    def flush(self) -> None:
        """Have the log flushed, unless a flush is under way. Only the flushed offset of a voter, or of a node
        that the leader may have made a voter, matters to the leader.
        """
        is_free = self.flushes and not (self.is_flushing or self.is_writing)
        if is_free and self.log.flushed_offset < self.log.log_end_offset:
            self.is_flushing = True
            self.emit(Flush())

    @property
    def flushes(self) -> bool:
        """Whether a fetch of this node says that everything before it is durable."""
        return self.is_proven or self.is_voter

    def flushed(self) -> None:
        """The flush is over."""
        self.is_flushing = False

    def change_log(
        self, effect: AppendLeaderChange | AppendVoters | AppendRecords | TruncateTo | ResetLog
    ) -> None:
        """Have the log changed. Until the shell has done so, nothing is fetched or flushed."""
        self.is_writing = True
        self.emit(effect)

    def log_changed(self) -> None:
        """The log is changed, or the change was refused."""
        self.is_writing = False

    def take_effects(self) -> list[Effect]:
        """All there is to do, the memory first."""
        if self._halt is not None:
            return [self._halt]
        effects, self._effects = self._effects, []
        if self._is_changed:
            self._is_changed = False
            memory = QuorumState(self.epoch, self.voted, self.leader_id)
            return [PersistVote(self._changes, memory), *effects]
        return effects

    def _say(self, effect: Send | Reply | ReplyRecords | ReplySnapshot) -> None:
        if self.is_persisted:
            self._effects.append(effect)
        else:
            self._held.append((self._changes, effect))
