"""Members whose messages lie on a table until the test hands them over: for stories that chance would not
tell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from tests.quorum.model_disk import Entry, SimulatedLog
from tests.unit.raft.members import Member, flush

from ottla.raft.events import (
    Answered,
    AppendLeaderChange,
    AppendRecords,
    Event,
    Flush,
    Flushed,
    LogChanged,
    PersistVote,
    Received,
    Reply,
    ReplyRecords,
    Send,
    TruncateTo,
    VotePersisted,
)
from ottla.raft.messages import Fetch, Vote
from ottla.raft.quorum_state import QuorumState


class Message(NamedTuple):
    """A question on its way, or the answer to it."""

    sender: int
    receiver: int
    question: Any
    is_answer: bool
    event: Event


def is_vote(message: Message) -> bool:
    return isinstance(message.question, Vote) and not message.question.is_pre_vote


def asks_for_more(message: Message) -> bool:
    """A fetch behind the first record: it says that the first is flushed."""
    return isinstance(message.question, Fetch) and message.question.fetch_offset > 0 and not message.is_answer


class Table:
    """Disks are instant here; what takes its time are messages, and each member's clock is its own."""

    def __init__(self, *node_ids: int) -> None:
        self._node_ids = node_ids
        self.messages: list[Message] = []
        self._questions: dict[Any, Any] = {}
        self._tickets = 0
        self.members = {node_id: self._seat(node_id, QuorumState()) for node_id in node_ids}

    def _seat(self, node_id: int, memory: QuorumState | None) -> Member:
        member = Member(self._node_ids, node_id=node_id, memory=memory, log=SimulatedLog())
        self.members = {**getattr(self, "members", {}), node_id: member}
        self._carry_out(node_id, member.effects)
        return member

    def lose_disk(self, node_id: int) -> None:
        """It comes back with nothing; what was on the way to it is lost, what it said is not."""
        self.messages = [message for message in self.messages if message.receiver != node_id]
        self._seat(node_id, None)

    def hear(self, node_id: int, event: Event) -> None:
        self._carry_out(node_id, self.members[node_id].hear(event))

    def wait(self, node_id: int, ms: int) -> None:
        self._carry_out(node_id, self.members[node_id].wait(ms))

    def hand_over(self, *nodes: int, keep: Callable[[Message], bool] = lambda message: False) -> None:
        """Deliver what these say to each other, and what they say to that, until they are silent."""
        for _ in range(200):
            due = [
                message
                for message in self.messages
                if message.sender in nodes and message.receiver in nodes and not keep(message)
            ]
            if not due:
                return
            self.messages.remove(due[0])
            self.hear(due[0].receiver, due[0].event)
        raise AssertionError("they do not stop talking")

    def drop(self, keep: Callable[[Message], bool] = lambda message: False) -> None:
        """Lose what lies on the table."""
        self.messages = [message for message in self.messages if keep(message)]

    def leaders(self) -> dict[int, int]:
        """The leader and its epoch."""
        return {
            node_id: member.replica.epoch
            for node_id, member in self.members.items()
            if member.replica.is_leader
        }

    def _carry_out(self, node_id: int, effects: list[Any]) -> None:
        is_changed = False
        after: list[Event] = []
        for effect in effects:
            is_changed |= isinstance(effect, AppendLeaderChange | AppendRecords | TruncateTo)
            event = self._do(node_id, effect)
            if event is not None:
                after.append(event)
        for event in (*([LogChanged()] if is_changed else []), *after):
            self.hear(node_id, event)

    def _do(self, node_id: int, effect: Any) -> Event | None:
        log = self.members[node_id].log
        match effect:
            case Send():
                self._tickets += 1
                self._questions[self._tickets] = (node_id, effect)
                event = Received(self._tickets, effect.request)
                self.messages.append(Message(node_id, effect.to, effect.request, False, event))
            case Reply():
                self._answer(node_id, effect.ticket, effect.answer)
            case ReplyRecords():
                records = log.read(effect.offset, effect.max_bytes)
                self._answer(node_id, effect.ticket, replace(effect.answer, records=records))
            case PersistVote():
                return VotePersisted(effect.number)
            case Flush():
                flush(log)
                return Flushed()
            case AppendLeaderChange():
                log.append(Entry(effect.epoch, 0))
            case AppendRecords():
                log.append_records(effect.records)
            case TruncateTo():
                log.truncate(effect.offset)
        return None

    def _answer(self, node_id: int, ticket: int, answer: Any) -> None:
        asker, send = self._questions[ticket]
        event = Answered(send.request_id, answer)
        self.messages.append(Message(node_id, asker, send.request, True, event))
