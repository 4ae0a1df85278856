"""A coordinator whose decisions are committed at once, on a clock that only moves when told to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from struct import pack
from typing import Any

from ottla.config import GroupConfig
from ottla.errors import ErrorCode
from ottla.group.classic import ClassicGroup
from ottla.group.coordinator import Decision, GroupCoordinator, GroupRequestContext
from ottla.group.records import GroupRecord, decode_record
from ottla.model import NO_PRODUCER_ID
from ottla.protocol.codec import decode, encode
from ottla.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from ottla.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from ottla.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

GROUP = "orders"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
START_MS = 1_000_000
NO_DELAY = GroupConfig(initial_rebalance_delay_ms=0)

LATEST = {
    JoinGroupRequest: 9,
    SyncGroupRequest: 5,
    HeartbeatRequest: 4,
    LeaveGroupRequest: 5,
    OffsetCommitRequest: 9,
    OffsetFetchRequest: 7,
    TxnOffsetCommitRequest: 5,
}


def subscription(*topics: str, version: int = 1, rest: bytes = b"") -> bytes:
    """A consumer's subscription: its topics, and the bytes after them."""
    named = b"".join(pack(">h", len(topic.encode())) + topic.encode() for topic in topics)
    return pack(">hi", version, len(topics)) + named + pack(">i", -1) + rest


def numbered_ids() -> Callable[[str], str]:
    """Member ids that are different each time and the same in each run."""
    numbers = count(1)
    return lambda name: f"{name}-{next(numbers)}"


def replay_history(machine: GroupCoordinator, history: Sequence[tuple[GroupRecord | bool, int]]) -> None:
    """Give a machine the records and markers of a log."""
    for entry, producer_id in history:
        if isinstance(entry, bool):
            machine.replay_end_of_transaction(producer_id, is_commit=entry)
        else:
            machine.replay(*entry, producer_id)


class Shell:
    """The machine, its log in memory, and the answers that came. A ticket is a number."""

    def __init__(self, settings: GroupConfig = NO_DELAY) -> None:
        self.settings = settings
        self.now_ms = START_MS
        self.log: list[GroupRecord] = []
        # The same in order, each with its producer, or -1; a marker is whether it commits.
        self.history: list[tuple[GroupRecord | bool, int]] = []
        self.answers: dict[int, Any] = {}
        self.notes: list[str] = []
        self.writes_fail = False
        self.lost_records: list[GroupRecord] = []
        self.on_answer: Callable[[int], None] = lambda ticket: None
        self._new_member_id = numbered_ids()
        self._tickets = count(1)
        self.machine = GroupCoordinator(settings, self._new_member_id)
        self.machine.loaded(self.now_ms)

    def decide(self, request: Any, version: int | None = None, *, client: str = "c") -> tuple[int, Decision]:
        """Ask, as if over the wire: in this version's fields, and with views of a frame. Nothing is carried
        out yet.
        """
        if type(request) in LATEST:
            version = LATEST[type(request)] if version is None else version
            request = decode(type(request), encode(request, version), version)
        ticket = next(self._tickets)
        context = GroupRequestContext(version or 0, client, "/127.0.0.1", ticket)
        return ticket, self.machine.command(request, context, self.now_ms)

    def send(self, request: Any, version: int | None = None, *, client: str = "c") -> int:
        """Ask and carry out; the ticket of the answer, which may not be there yet."""
        ticket, decision = self.decide(request, version, client=client)
        is_written = self.carry_out(decision)
        if decision.response is not None:
            self._answer(ticket, decision.response if is_written else ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return ticket

    def ask(self, request: Any, version: int | None = None, *, client: str = "c") -> Any:
        """Ask something that is answered at once."""
        return self.answers[self.send(request, version, client=client)]

    def carry_out(self, decision: Decision) -> bool:
        """Append, replay, answer; False if the disk is full."""
        self.notes += decision.notes
        if decision.records and self.writes_fail:
            self.lost_records += decision.records
            for ticket, _ in decision.completions:
                self._answer(ticket, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return False
        producer_id = NO_PRODUCER_ID if decision.transaction is None else decision.transaction.producer_id
        for record in decision.records:
            self.log.append(record)
            self.history.append((record, producer_id))
            self.machine.replay(*record, producer_id)
        for ticket, response in decision.completions:
            self._answer(ticket, response)
        return True

    def _answer(self, ticket: int, response: Any) -> None:
        assert ticket not in self.answers, "answered twice"
        self.answers[ticket] = response
        self.on_answer(ticket)

    def wait(self, duration_ms: int) -> None:
        """Let time pass, stopping at every deadline."""
        end_ms = self.now_ms + duration_ms
        while (deadline_ms := self.machine.next_deadline_ms) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            for decision in self.machine.tick(self.now_ms):
                self.carry_out(decision)
        self.now_ms = end_ms

    def restarted(self) -> Shell:
        """Another coordinator, which knows what is in the log and nothing else."""
        other = Shell(self.settings)
        other.now_ms = self.now_ms
        other.machine = GroupCoordinator(self.settings, self._new_member_id)
        other.log, other.history = list(self.log), list(self.history)
        replay_history(other.machine, other.history)
        other.machine.loaded(self.now_ms)
        return other

    @property
    def group(self) -> ClassicGroup:
        return self.machine.groups[GROUP]

    def state(self) -> str:
        """Kafka's name for the state that the group is in."""
        return self.group.state.value

    @property
    def last_record(self) -> Any:
        """The value that was written last."""
        decoded = decode_record(*self.log[-1])
        assert decoded is not None
        return decoded[1]

    # Members

    def send_join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        topics: Sequence[str] = ("t",),
        protocols: Sequence[str] = ("range",),
        version: int = 9,
        client: str = "c",
        **more: Any,
    ) -> int:
        request = JoinGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name, subscription(*topics)) for name in protocols],
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
        )
        for name, value in more.items():
            setattr(request, name, value)
        return self.send(request, version, client=client)

    def joined(self, ticket: int) -> JoinGroupResponse:
        answer = self.answers[ticket]
        assert isinstance(answer, JoinGroupResponse)
        return answer

    def new_id(self, **more: Any) -> str:
        """The id that a new member gets before it is one."""
        answer = self.joined(self.send_join(**more))
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return answer.member_id

    def sync(
        self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None, **more: Any
    ) -> int:
        version = more.pop("version", 5)
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequestAssignment(name, data) for name, data in (assignments or {}).items()
            ],
        )
        for name, value in more.items():
            setattr(request, name, value)
        return self.send(request, version)

    def synced(self, ticket: int) -> SyncGroupResponse:
        answer = self.answers[ticket]
        assert isinstance(answer, SyncGroupResponse)
        return answer

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        request = HeartbeatRequest(GROUP, generation, member_id, instance)
        return ErrorCode(self.ask(request).error_code)

    def leave(self, *members: MemberIdentity) -> list[int]:
        answer = self.ask(LeaveGroupRequest(GROUP, members=list(members)))
        assert isinstance(answer, LeaveGroupResponse)
        assert answer.error_code == 0
        return [member.error_code for member in answer.members]

    def commit(
        self,
        offset: int,
        *,
        generation: int = -1,
        member_id: str = "",
        group: str = GROUP,
        topic: str = "t",
        partition: int = 0,
        version: int = 9,
        **more: Any,
    ) -> ErrorCode:
        item = OffsetCommitRequestPartition(partition, offset, 3, more.pop("metadata", "m"))
        named = OffsetCommitRequestTopic(topic, partitions=[item])
        request = OffsetCommitRequest(group, generation, member_id, topics=[named])
        for name, value in more.items():
            setattr(request, name, value)
        answer = self.ask(request, version)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def commit_within(
        self,
        producer_id: int,
        offset: int,
        *,
        group: str = GROUP,
        topic: str = "t",
        partition: int = 0,
        version: int = 5,
        **more: Any,
    ) -> ErrorCode:
        """Commit within a producer's transaction."""
        item = TxnOffsetCommitRequestPartition(partition, offset, 3, more.pop("metadata", "m"))
        named = TxnOffsetCommitRequestTopic(topic, [item])
        request = TxnOffsetCommitRequest("txn", group, producer_id, 0, topics=[named])
        for name, value in more.items():
            setattr(request, name, value)
        answer = self.ask(request, version)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def end_transaction(self, producer_id: int, *, is_commit: bool = True) -> None:
        """A marker comes into the log."""
        self.history.append((is_commit, producer_id))
        self.machine.replay_end_of_transaction(producer_id, is_commit=is_commit)

    def stable_error(self, partition: int = 0, *, topic: str = "t", group: str = GROUP) -> ErrorCode:
        """The answer to a reader that requires a stable offset."""
        asked = [OffsetFetchRequestTopic(topic, [partition])]
        found = self.ask(OffsetFetchRequest(group, asked, require_stable=True)).topics[0].partitions[0]
        assert not found.error_code or found.committed_offset == -1
        return ErrorCode(found.error_code)

    def committed(self, partition: int = 0, *, topic: str = "t", group: str = GROUP) -> int:
        request = OffsetFetchRequest(group, [OffsetFetchRequestTopic(topic, [partition])])
        answer = self.ask(request)
        assert answer.error_code == 0
        found = answer.topics[0].partitions[0]
        assert found.error_code == 0
        return int(found.committed_offset)

    def form(self, count_: int = 2, **more: Any) -> list[str]:
        """A stable group with this number of dynamic members; the first leads. Each has its own name as
        assignment.
        """
        ids = [self.new_id(**more) for _ in range(count_)]
        tickets = [self.send_join(member_id, **more) for member_id in ids]
        self.wait(self.settings.initial_rebalance_delay_ms * (count_ + 1))
        if (
            tickets[-1] not in self.answers
        ):  # without the delay the first one was alone, and has to come again
            self.send_join(ids[0], **more)
        self.settle(ids, self.joined(tickets[-1]).generation_id)
        return ids

    def settle(self, ids: Sequence[str], generation: int) -> None:
        """The members of a generation sync, the leader last."""
        leader = self.group.leader
        shares = {member_id: member_id.encode() for member_id in ids}
        tickets = [self.sync(member_id, generation) for member_id in ids if member_id != leader]
        tickets.append(self.sync(leader or "", generation, shares))
        assert all(self.synced(ticket).error_code == 0 for ticket in tickets)
