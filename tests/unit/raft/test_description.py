"""A leader's description of its quorum."""

from __future__ import annotations

from tests.unit.raft.members import Member, key

from ottla.errors import ErrorCode
from ottla.protocol.messages.quorum import DescribeQuorumResponsePartitionData, ReplicaState
from ottla.raft.description import describe_quorum


def described(member: Member) -> DescribeQuorumResponsePartitionData:
    directory_id = key(member.replica_id).directory_id
    response = describe_quorum(member.replica, member.log.log_end_offset, directory_id, member.now_ms, 5)
    return response.topics[0].partitions[0]


def test_a_leader_names_its_voters_and_observers_and_how_far_they_are() -> None:
    member = Member()
    member.become_leader()
    member.ask(member.fetch(3, 1))
    member.now_ms += 100
    member.ask(member.fetch(9, 0))
    partition = described(member)
    then_ms, now_ms = member.now_ms - 100 + 5, member.now_ms + 5
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 1, 1)
    assert partition.current_voters == [
        ReplicaState(1, key(1).directory_id, 1, now_ms, now_ms),
        ReplicaState(2, log_end_offset=-1),
        ReplicaState(3, key(3).directory_id, 1, then_ms, then_ms),
    ]
    assert partition.observers == [ReplicaState(9, key(9).directory_id, 0, now_ms, -1)]


def test_anybody_else_says_that_it_does_not_lead() -> None:
    partition = described(Member())
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.leader_id == -1
