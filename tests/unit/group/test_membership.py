"""Heartbeat and LeaveGroup: staying in a group, and going (GRP-1, GRP-4)."""

from __future__ import annotations

import pytest
from tests.unit.group.shell import GROUP, SESSION_MS, Shell

from ottla.errors import ErrorCode
from ottla.protocol.messages.groups import (
    HeartbeatRequest,
    LeaveGroupRequest,
    MemberIdentity,
    MemberResponse,
)


def test_a_member_that_heartbeats_stays() -> None:
    shell = Shell()
    ids = shell.form(2)
    for _ in range(10):
        shell.wait(SESSION_MS - 1)
        assert [shell.heartbeat(member_id, 2) for member_id in ids] == [ErrorCode.NONE] * 2
    assert shell.state() == "Stable"


def test_a_member_that_does_not_is_gone_after_the_session_timeout_and_the_others_rebalance() -> None:
    shell = Shell()
    leader, follower = shell.form(2)
    shell.wait(SESSION_MS - 1)
    assert shell.heartbeat(leader, 2) == ErrorCode.NONE
    shell.wait(1)
    assert list(shell.group.members) == [leader]
    assert shell.heartbeat(leader, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert f"the session of '{follower}' ended" in shell.notes[-1]


def test_a_heartbeat_says_what_is_wrong_with_the_one_who_sends_it() -> None:
    shell = Shell()
    leader, _ = shell.form(2)
    assert shell.heartbeat("stranger", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.heartbeat(leader, 1) == ErrorCode.ILLEGAL_GENERATION
    assert shell.heartbeat(leader, 2, "nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.ask(HeartbeatRequest("")).error_code == ErrorCode.INVALID_GROUP_ID
    assert shell.ask(HeartbeatRequest("no such group")).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_are_fine_while_the_leader_assigns() -> None:
    shell = Shell()
    ticket = shell.send_join(version=3)
    assert shell.heartbeat(shell.joined(ticket).member_id, 1) == ErrorCode.NONE


def test_a_member_that_leaves_is_not_waited_for() -> None:
    shell = Shell()
    leader, follower = shell.form(2)
    assert shell.leave(MemberIdentity(follower, reason="closing")) == [ErrorCode.NONE]
    assert shell.heartbeat(leader, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert "left (closing)" in shell.notes[-1]
    assert shell.joined(shell.send_join(leader)).generation_id == 3


def test_when_the_last_member_leaves_the_group_is_empty_at_once() -> None:
    shell = Shell()
    ids = shell.form(2)
    assert shell.leave(*map(MemberIdentity, ids)) == [0, 0]
    assert shell.state() == "Empty"
    assert shell.last_record.members == []
    assert shell.heartbeat(ids[0], 3) == ErrorCode.UNKNOWN_MEMBER_ID


def test_each_of_several_that_leave_is_answered_by_itself() -> None:
    shell = Shell()
    (leader,) = shell.form(1)
    static = shell.send_join(instance="i")
    shell.send_join(leader)
    shell.settle([leader, shell.joined(static).member_id], 2)
    errors = shell.leave(
        MemberIdentity("stranger"),
        MemberIdentity("", "nobody"),
        MemberIdentity("stranger", "i"),
        MemberIdentity(""),
    )
    unknown, fenced = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
    assert errors == [unknown, unknown, fenced, unknown]
    assert shell.state() == "Stable"
    assert shell.leave(MemberIdentity("", "i"), MemberIdentity("", "i")) == [0, unknown]
    assert list(shell.group.members) == [leader]


@pytest.mark.parametrize("version", [0, 2])
def test_before_version_3_one_member_leaves_and_its_error_is_the_answers(version: int) -> None:
    shell = Shell()
    (leader,) = shell.form(1)
    wrong = shell.ask(LeaveGroupRequest(GROUP, "stranger"), version)
    assert wrong.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.ask(LeaveGroupRequest(GROUP, leader), version).error_code == 0
    assert shell.state() == "Empty"


def test_a_group_that_is_not_there_has_no_members() -> None:
    shell = Shell()
    answer = shell.ask(LeaveGroupRequest("none", members=[MemberIdentity("m", "i")]))
    assert answer.error_code == 0
    assert answer.members == [MemberResponse("m", "i", ErrorCode.UNKNOWN_MEMBER_ID)]
    assert shell.ask(LeaveGroupRequest("")).error_code == ErrorCode.INVALID_GROUP_ID


def test_whoever_waits_in_the_name_of_a_member_that_left_is_told() -> None:
    shell = Shell()
    leader, follower = shell.form(2)
    join = shell.send_join(leader)
    shell.leave(MemberIdentity(leader))
    assert shell.joined(join).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    shell.send_join(follower)
    shell.send_join(version=3)
    other = shell.send_join(follower)
    assert shell.joined(other).generation_id == 4
    new = next(member_id for member_id in shell.group.members if member_id != follower)
    sync = shell.sync(new, 4)
    shell.leave(MemberIdentity(new))
    assert shell.synced(sync).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_was_given_out_can_be_given_back_without_a_rebalance() -> None:
    shell = Shell()
    (leader,) = shell.form(1)
    pending = shell.new_id()
    assert shell.leave(MemberIdentity(pending)) == [0]
    assert shell.state() == "Stable"

    pending = shell.new_id()
    ticket = shell.send_join(leader)
    assert ticket not in shell.answers
    shell.leave(MemberIdentity(pending))
    assert shell.joined(ticket).generation_id == 2


def test_an_id_given_back_to_a_group_of_nobody_leaves_nothing() -> None:
    shell = Shell()
    shell.leave(MemberIdentity(shell.new_id()))
    assert not shell.machine.groups
    assert not shell.log
