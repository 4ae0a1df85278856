"""Members of groups, each with a blocking connection of its own, and requests about offsets in any
version.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tests.integration.peer import Peer

from ottla.errors import ErrorCode
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from ottla.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

SESSION_MS = 30_000
DELAY_MS = 100
SETTINGS = {"group.initial.rebalance.delay.ms": str(DELAY_MS)}


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions that came together, more or less."""

    join: int
    sync: int
    heartbeat: int
    leave: int

    @property
    def needs_id_first(self) -> bool:
        return self.join >= 4


GENERATIONS = [Versions(0, 0, 0, 0), Versions(4, 2, 2, 2), Versions(5, 3, 3, 3), Versions(9, 5, 4, 5)]
NEWEST = GENERATIONS[-1]


class Member:
    """A member with a connection of its own."""

    def __init__(
        self, port: int, group: str, versions: Versions = NEWEST, instance: str | None = None
    ) -> None:
        self.peer = Peer(port)
        self.group = group
        self.versions = versions
        self.instance = instance
        self.member_id = ""
        self.generation = -1

    def send_join(self) -> None:
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", b"what it says")],
        )
        self.peer.send(ApiKey.JOIN_GROUP, self.versions.join, request)

    def receive_join(self) -> JoinGroupResponse:
        _, answer = self.peer.receive(ApiKey.JOIN_GROUP, self.versions.join)
        assert isinstance(answer, JoinGroupResponse)
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def ask_for_id(self) -> None:
        self.send_join()
        assert self.receive_join().error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert self.member_id

    def send_sync(self, *given: Member) -> None:
        knows_protocol = self.versions.sync >= 5
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer" if knows_protocol else None,
            protocol_name="range" if knows_protocol else None,
            assignments=[
                SyncGroupRequestAssignment(member.member_id, member.member_id.encode()) for member in given
            ],
        )
        self.peer.send(ApiKey.SYNC_GROUP, self.versions.sync, request)

    def receive_sync(self) -> SyncGroupResponse:
        _, answer = self.peer.receive(ApiKey.SYNC_GROUP, self.versions.sync)
        assert isinstance(answer, SyncGroupResponse)
        return answer

    def heartbeat(self) -> int:
        request = HeartbeatRequest(self.group, self.generation, self.member_id, self.instance)
        error: int = self.peer.ask(ApiKey.HEARTBEAT, self.versions.heartbeat, request).error_code
        return error

    def leave(self) -> int:
        request = LeaveGroupRequest(self.group, self.member_id)
        if self.versions.leave >= 3:
            request = LeaveGroupRequest(self.group, members=[MemberIdentity(self.member_id, self.instance)])
        answer = self.peer.ask(ApiKey.LEAVE_GROUP, self.versions.leave, request)
        error: int = answer.error_code or sum(one.error_code for one in answer.members)
        return error

    def commit(self, topic: str, offset: int) -> int:
        request = commit_request(self.group, topic, {0: offset}, self.generation, self.member_id)
        return errors_of(self.peer.ask(ApiKey.OFFSET_COMMIT, 9, request))[0]


@contextlib.contextmanager
def members(
    port: int, group: str, count: int, versions: Versions = NEWEST, static: bool = False
) -> Iterator[list[Member]]:
    made = [
        Member(port, group, versions, f"instance-{number}" if static else None) for number in range(count)
    ]
    try:
        yield made
    finally:
        for member in made:
            member.peer.socket.close()


def joined(some: Sequence[Member]) -> list[JoinGroupResponse]:
    """All of them join at once."""
    for member in some:
        if member.versions.needs_id_first and not member.member_id and member.instance is None:
            member.ask_for_id()
    for member in some:
        member.send_join()
    return [member.receive_join() for member in some]


def leader_of(some: Sequence[Member], answers: Sequence[JoinGroupResponse]) -> Member:
    (leader,) = {answer.leader for answer in answers}
    return next(member for member in some if member.member_id == leader)


def synced(some: Sequence[Member], leader: Member) -> list[bytes]:
    """All of them sync, the leader last; each gets its own name."""
    for member in some:
        if member is not leader:
            member.send_sync()
    leader.send_sync(*some)
    answers = [member.receive_sync() for member in some]
    assert {answer.error_code for answer in answers} == {0}
    return [bytes(answer.assignment) for answer in answers]


def formed(some: Sequence[Member]) -> Member:
    """A stable group of all of them; its leader."""
    answers = joined(some)
    assert {answer.error_code for answer in answers} == {0}
    leader = leader_of(some, answers)
    assert synced(some, leader) == [member.member_id.encode() for member in some]
    return leader


def commit_request(
    group: str,
    topic: str | UUID,
    offsets: dict[int, int],
    generation: int = -1,
    member_id: str = "",
    metadata: str = "",
) -> OffsetCommitRequest:
    items = [
        OffsetCommitRequestPartition(partition, offset, 3, metadata) for partition, offset in offsets.items()
    ]
    name, topic_id = (topic, ZERO_UUID) if isinstance(topic, str) else ("", topic)
    return OffsetCommitRequest(
        group, generation, member_id, topics=[OffsetCommitRequestTopic(name, topic_id, items)]
    )


def errors_of(answer: OffsetCommitResponse) -> list[int]:
    return [partition.error_code for topic in answer.topics for partition in topic.partitions]


def fetched(peer: Peer, group: str, topic: str | None, version: int, partitions: Sequence[int] = (0,)) -> Any:
    """The topics of a group's answer, in any version."""
    if version >= 8:
        named = [OffsetFetchRequestTopics(topic or "", partition_indexes=list(partitions))]
        wanted = OffsetFetchRequestGroup(group, topics=None if topic is None else named)
        found = peer.ask(ApiKey.OFFSET_FETCH, version, OffsetFetchRequest(groups=[wanted])).groups[0]
    else:
        old = [OffsetFetchRequestTopic(topic or "", list(partitions))]
        request = OffsetFetchRequest(group, None if topic is None else old)
        found = peer.ask(ApiKey.OFFSET_FETCH, version, request)
    assert found.error_code == 0
    return found.topics


def offset_of(peer: Peer, group: str, topic: str, partition: int = 0) -> int:
    (found,) = fetched(peer, group, topic, 9, [partition])
    offset: int = found.partitions[0].committed_offset
    return offset
