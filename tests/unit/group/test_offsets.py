"""OffsetCommit and OffsetDelete: which requests may change a group's offsets (GRP-3)."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.unit.group.shell import GROUP, SESSION_MS, Shell

from ottla.errors import ErrorCode
from ottla.group.coordinator import GroupRequestContext, TopicsDeleted
from ottla.group.records import OffsetCommitKey, OffsetCommitValue, decode_record
from ottla.protocol.messages.groups import MemberIdentity
from ottla.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def deletion(group: str, **partitions: list[int]) -> OffsetDeleteRequest:
    topics = [
        OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(index) for index in indexes])
        for name, indexes in partitions.items()
    ]
    return OffsetDeleteRequest(group, topics)


def test_anybody_commits_to_a_group_without_members() -> None:
    shell = Shell()
    assert shell.commit(5, group="simple") == ErrorCode.NONE
    assert shell.commit(6, group="simple", member_id="whoever", partition=1) == ErrorCode.NONE
    assert (shell.committed(0, group="simple"), shell.committed(1, group="simple")) == (5, 6)
    assert shell.machine.groups["simple"].protocol_type is None


@pytest.mark.parametrize(("version", "error"), [(2, 22), (8, 22), (9, 69)])
def test_a_generation_of_a_group_that_is_not_there_is_refused(version: int, error: int) -> None:
    shell = Shell()
    assert shell.commit(5, generation=1, member_id="m", version=version) == error
    assert not shell.machine.groups


def test_a_member_of_the_current_generation_commits() -> None:
    shell = Shell()
    leader, _ = shell.form(2)
    assert shell.commit(5, generation=2, member_id=leader) == ErrorCode.NONE
    assert shell.committed() == 5


def test_nobody_else_does() -> None:
    shell = Shell()
    leader, _ = shell.form(2)
    assert shell.commit(5, generation=1, member_id=leader) == ErrorCode.ILLEGAL_GENERATION
    assert shell.commit(5, generation=3, member_id=leader) == ErrorCode.ILLEGAL_GENERATION
    assert shell.commit(5, generation=-1, member_id=leader) == ErrorCode.ILLEGAL_GENERATION
    assert shell.commit(5, generation=2, member_id="stranger") == ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.commit(5) == ErrorCode.UNKNOWN_MEMBER_ID
    assert (
        shell.commit(5, generation=2, member_id=leader, group_instance_id="i") == ErrorCode.UNKNOWN_MEMBER_ID
    )
    assert shell.committed() == -1


def test_members_commit_before_they_join_again_and_not_before_they_are_assigned() -> None:
    shell = Shell()
    leader, follower = shell.form(2)
    shell.send_join(leader)
    assert shell.state() == "PreparingRebalance"
    assert shell.commit(7, generation=2, member_id=follower) == ErrorCode.NONE
    shell.send_join(follower)
    assert shell.commit(8, generation=2, member_id=follower) == ErrorCode.ILLEGAL_GENERATION
    assert shell.commit(8, generation=3, member_id=follower) == ErrorCode.REBALANCE_IN_PROGRESS
    shell.settle([leader, follower], 3)
    assert shell.commit(8, generation=3, member_id=follower) == ErrorCode.NONE


def test_a_commit_is_a_sign_of_life() -> None:
    shell = Shell()
    (leader,) = shell.form(1)
    for _ in range(3):
        shell.wait(SESSION_MS - 1)
        shell.commit(1, generation=1, member_id=leader)
    assert shell.state() == "Stable"


def test_after_everybody_left_their_commits_are_refused_and_an_admins_accepted() -> None:
    shell = Shell()
    (leader,) = shell.form(1)
    shell.leave(MemberIdentity(leader))
    assert shell.commit(9, generation=1, member_id=leader) == ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.commit(9) == ErrorCode.NONE


def test_the_record_is_what_kafka_writes() -> None:
    shell = Shell()
    topic_id = UUID(int=77)
    topic = OffsetCommitRequestTopic("t", topic_id, [OffsetCommitRequestPartition(3, 42, 6, None)])
    request = OffsetCommitRequest(
        GROUP, topics=[topic]
    )  # as the shell passes it on: with the name and the id
    decision = shell.machine.command(request, GroupRequestContext(10, "c", "/h", 1), shell.now_ms)
    assert decision.response.topics[0].topic_id == topic_id
    (record,) = decision.records
    value = OffsetCommitValue(42, 6, "", shell.now_ms, topic_id=topic_id)
    assert decode_record(*record) == (OffsetCommitKey(GROUP, "t", 3), value)
    assert record.value is not None
    assert record.value[:2] == b"\0\4"


def test_a_retention_time_of_its_own_is_kept_as_the_time_of_expiry() -> None:
    shell = Shell()
    shell.commit(5, version=4, retention_time_ms=1_000)
    assert shell.last_record.expire_timestamp == shell.now_ms + 1_000
    assert shell.log[-1].value is not None
    assert shell.log[-1].value[:2] == b"\0\1"
    shell.commit(5, version=4)
    assert shell.last_record.expire_timestamp == -1
    shell.commit(5, version=4, retention_time_ms=2**63 - 1)
    assert shell.last_record.expire_timestamp == 2**63 - 1


def test_metadata_that_is_too_long_is_refused_for_its_partition_alone() -> None:
    shell = Shell()
    items = [
        OffsetCommitRequestPartition(0, 1, -1, "é" * 4096),
        OffsetCommitRequestPartition(1, 1, -1, "é" * 4097),
    ]
    answer = shell.ask(OffsetCommitRequest(GROUP, topics=[OffsetCommitRequestTopic("t", partitions=items)]))
    errors = [item.error_code for item in answer.topics[0].partitions]
    assert errors == [ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert (shell.committed(0), shell.committed(1)) == (1, -1)


def test_a_commit_that_cannot_be_written_did_not_happen() -> None:
    shell = Shell()
    shell.commit(5)
    shell.writes_fail = True
    _, decision = shell.decide(
        OffsetCommitRequest(
            GROUP,
            topics=[OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 6)])],
        )
    )
    assert not shell.carry_out(decision)
    assert shell.committed() == 5


def test_offsets_are_deleted_unless_somebody_subscribes_to_their_topic() -> None:
    shell = Shell()
    (leader,) = shell.form(1, topics=("t",))
    for topic in ("t", "old"):
        shell.commit(5, generation=1, member_id=leader, topic=topic)
    answer = shell.ask(deletion(GROUP, t=[0], old=[0, 0, 7]), 0)
    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert answer == OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic("t", [OffsetDeleteResponsePartition(0, subscribed)]),
            OffsetDeleteResponseTopic("old", [OffsetDeleteResponsePartition(index) for index in (0, 0, 7)]),
        ]
    )
    assert (shell.committed(topic="t"), shell.committed(topic="old")) == (5, -1)
    assert [record.value for record in shell.log[-1:]] == [None]

    shell.leave(MemberIdentity(leader))
    shell.ask(deletion(GROUP, t=[0]), 0)
    assert shell.committed(topic="t") == -1


def test_offsets_of_members_that_are_no_consumers_are_not_deleted() -> None:
    shell = Shell()
    shell.commit(5)
    shell.send_join(version=3, protocol_type="connect")
    assert shell.ask(deletion(GROUP, t=[0]), 0).error_code == ErrorCode.NON_EMPTY_GROUP


def test_what_cannot_be_read_of_a_subscription_counts_as_subscribed() -> None:
    shell = Shell()
    shell.commit(5)
    shell.send_join(version=3, topics=("x",))
    (member,) = shell.group.members.values()
    shell.group.update_protocols(member, (("range", b"garbage"),))
    shell.group.refresh_subscribed_topics()
    answer = shell.ask(deletion(GROUP, t=[0]), 0)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def test_there_is_nothing_to_delete_in_a_group_that_is_not_there() -> None:
    shell = Shell()
    assert shell.ask(deletion("none", t=[0]), 0).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert shell.ask(deletion("", t=[0]), 0).error_code == ErrorCode.INVALID_GROUP_ID


def test_a_deleted_topics_offsets_are_forgotten_by_all_groups() -> None:
    shell = Shell()
    for group in ("a", "b"):
        for topic in ("gone", "here"):
            shell.commit(5, group=group, topic=topic)
    shell.commit(5, group="c", topic="gone")
    shell.send(TopicsDeleted(frozenset({"gone", "never"})))
    assert [shell.committed(topic="gone", group=group) for group in "abc"] == [-1, -1, -1]
    assert shell.committed(topic="here", group="b") == 5
    assert sorted(shell.machine.groups) == ["a", "b"], "a group of nothing is no group"
