"""A member of a quorum under test: a machine, the log that it sees, and a clock that the test turns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar
from uuid import UUID

from tests.quorum.model_disk import Entry, SimulatedLog

from ottla.errors import ErrorCode
from ottla.raft.events import (
    Answered,
    Effect,
    Event,
    Flushed,
    LogChanged,
    PersistVote,
    Received,
    Reply,
    Send,
    Tick,
    VotePersisted,
)
from ottla.raft.messages import (
    Answer,
    BeginEpoch,
    Fetch,
    FetchAnswer,
    ReplicaKey,
    Request,
    Vote,
    VoteAnswer,
)
from ottla.raft.node import State
from ottla.raft.quorum_state import QuorumState
from ottla.raft.replica import RaftReplica
from ottla.raft.settings import RaftSettings
from ottla.raft.voters import VoterSet

SETTINGS = RaftSettings()
T = TypeVar("T")


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, UUID(int=node_id))


def log_of(*epochs: int, flushed: bool = True) -> SimulatedLog:
    """A log with one record of each epoch named."""
    log = SimulatedLog()
    for offset, epoch in enumerate(epochs):
        log.append(Entry(epoch, offset))
    if flushed:
        flush(log)
    return log


def flush(log: SimulatedLog) -> None:
    log.begin_flush()
    log.end_flush()


class Member:
    """Node 1 of the voters, unless another is asked for. Nothing is random: jitter is nothing."""

    def __init__(
        self,
        voters: Iterable[int] = (1, 2, 3),
        *,
        node_id: int = 1,
        memory: QuorumState | None = QuorumState(),  # noqa: B008 - frozen
        log: SimulatedLog | None = None,
        settings: RaftSettings = SETTINGS,
    ) -> None:
        self.log = log if log is not None else SimulatedLog()
        self.now_ms = 1_000_000
        self.replica = RaftReplica(key(node_id), VoterSet(voters), self.log, memory, settings, lambda n: 0)
        self.effects: list[Effect] = []
        self.under_way = Send(0, 0, BeginEpoch(0, 0, 0), 0)
        self.hear(Tick())

    def hear(self, event: Event) -> list[Effect]:
        self.effects = self.replica.step(event, self.now_ms)
        for send in self.all(Send):
            self.under_way = send  # the last question that was asked
        return self.effects

    def wait(self, ms: int) -> list[Effect]:
        self.now_ms += ms
        return self.hear(Tick())

    def wait_for_deadline(self) -> list[Effect]:
        deadline_ms = self.replica.next_deadline_ms
        assert deadline_ms is not None
        return self.wait(max(deadline_ms - self.now_ms, 0))

    def ask(self, request: Request, ticket: object = "ticket") -> list[Effect]:
        return self.hear(Received(ticket, request))

    def asked(self, request: Request) -> Answer:
        """The answer to a request that is answered at once."""
        self.ask(request)
        return self.the(Reply).answer

    def votes(self, vote: Vote) -> bool:
        """Whether it says yes, once it has written that down."""
        self.ask(vote)
        if self.all(PersistVote):
            self.persist()
        answer = self.the(Reply).answer
        assert isinstance(answer, VoteAnswer)
        return answer.is_granted

    def answer(self, send: Send, answer: Answer) -> list[Effect]:
        return self.hear(Answered(send.request_id, answer))

    def persist(self) -> list[Effect]:
        """The disk has written what the last step asked for."""
        return self.hear(VotePersisted(self.the(PersistVote).number))

    def the(self, kind: type[T]) -> T:
        """The one effect of this kind among the last ones."""
        (found,) = [effect for effect in self.effects if isinstance(effect, kind)]
        return found

    def all(self, kind: type[T]) -> list[T]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def sent(self, kind: type[T]) -> list[T]:
        return [effect.request for effect in self.all(Send) if isinstance(effect.request, kind)]

    # ---- the ways to get somewhere

    def become_prospective(self) -> list[Send]:
        self.wait(10 * SETTINGS.quorum.fetch_timeout_ms)
        assert self.replica.state is State.PROSPECTIVE
        return self.all(Send)

    def become_candidate(self) -> list[Send]:
        """Elected beforehand by one other; its own vote is persisted."""
        self.answer(self.become_prospective()[0], self.granted())
        assert self.replica.state is State.CANDIDATE
        self.persist()
        return self.all(Send)

    def become_leader(self) -> list[Effect]:
        """The record of its epoch is written and flushed, but no other node has it yet."""
        self.answer(self.become_candidate()[0], self.granted())
        assert self.replica.is_leader
        self.append()
        self.flush()
        return self.effects

    def append(self, count: int = 1) -> list[Effect]:
        for _ in range(count):
            self.log.append(Entry(self.replica.epoch, self.log.log_end_offset))
        return self.hear(LogChanged())

    def flush(self) -> list[Effect]:
        flush(self.log)
        return self.hear(Flushed())

    def become_follower(self, leader_id: int = 2, epoch: int = 1) -> Send:
        """It follows, and its first fetch is under way."""
        self.ask(BeginEpoch(self.replica_id, epoch, leader_id))
        if self.all(PersistVote):
            self.persist()
        assert self.replica.state is State.FOLLOWER
        return next(send for send in self.all(Send) if isinstance(send.request, Fetch))

    def state(self) -> State:
        return self.replica.state

    @property
    def replica_id(self) -> int:
        return self.replica.node_id

    # ---- what others say

    def granted(self) -> VoteAnswer:
        return VoteAnswer(ErrorCode.NONE, self.replica.epoch, None, True)

    def refused(self, leader_id: int | None = None) -> VoteAnswer:
        return VoteAnswer(ErrorCode.NONE, self.replica.epoch, leader_id, False)

    def vote(self, candidate: int = 2, *, epoch: int, last_epoch: int = -1, end_offset: int = 0) -> Vote:
        return Vote(self.replica_id, epoch, key(candidate), last_epoch, end_offset, False)

    def pre_vote(self, candidate: int = 2, *, epoch: int, last_epoch: int = -1, end_offset: int = 0) -> Vote:
        return Vote(self.replica_id, epoch, key(candidate), last_epoch, end_offset, True)

    def fetch(
        self, node_id: int, offset: int, *, is_proven: bool = True, high_watermark: int = 0, **changes: Any
    ) -> Fetch:
        """A fetch of this node's epoch, by a node whose log agrees with this node's."""
        fields: dict[str, Any] = {
            "replica": key(node_id),
            "is_proven": is_proven,
            "epoch": self.replica.epoch,
            "fetch_offset": offset,
            "last_fetched_epoch": self.log.epoch_before(offset),
            "high_watermark": high_watermark,
            "max_wait_ms": 500,
            "max_bytes": 1 << 20,
        }
        return Fetch(**{**fields, **changes})

    def fetched(self, **fields: Any) -> FetchAnswer:
        """An answer of the leader that this node follows."""
        return FetchAnswer(ErrorCode.NONE, self.replica.epoch, self.replica.leader_id, **fields)
