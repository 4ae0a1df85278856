"""SyncGroup: assignments are given out once they are written down (GRP-1)."""

from __future__ import annotations

from tests.unit.group.shell import REBALANCE_MS, SESSION_MS, Shell, subscription

from ottla.errors import ErrorCode
from ottla.group.records import GroupMetadataValue, MemberMetadata
from ottla.protocol.messages.groups import SyncGroupRequest


def completing() -> tuple[Shell, str, str]:
    """A group of two whose third generation waits for its assignment."""
    shell = Shell()
    leader, follower = shell.form(2)
    shell.send_join(leader)
    shell.send_join(follower)
    assert shell.state() == "CompletingRebalance"
    return shell, leader, follower


def test_followers_wait_for_the_leader_and_each_hears_its_own_part() -> None:
    shell, leader, follower = completing()
    waiting = shell.sync(follower, 3)
    assert waiting not in shell.answers
    answer = shell.synced(shell.sync(leader, 3, {leader: b"0,1", follower: b"2,3", "stranger": b"4"}))
    assert (answer.error_code, bytes(answer.assignment)) == (0, b"0,1")
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert shell.synced(waiting).assignment == b"2,3"
    assert shell.state() == "Stable"


def test_a_follower_that_comes_late_is_answered_at_once() -> None:
    shell, leader, follower = completing()
    shell.sync(leader, 3, {follower: b"2,3"})
    assert shell.synced(shell.sync(follower, 3)).assignment == b"2,3"
    assert shell.synced(shell.sync(leader, 3)).assignment == b"", "who was given nothing has nothing"


def test_the_record_of_a_completed_sync_is_the_whole_group() -> None:
    shell, leader, follower = completing()
    shell.sync(leader, 3, {leader: b"x", follower: b"y"})
    members = [
        MemberMetadata(
            member_id=member_id,
            client_id="c",
            client_host="/127.0.0.1",
            rebalance_timeout=60_000,
            session_timeout=SESSION_MS,
            subscription=subscription("t"),
            assignment=assignment,
        )
        for member_id, assignment in ((leader, b"x"), (follower, b"y"))
    ]
    assert shell.last_record == GroupMetadataValue("consumer", 3, "range", leader, shell.now_ms, members)


def test_nothing_is_given_out_if_it_cannot_be_written() -> None:
    shell, leader, follower = completing()
    waiting = shell.sync(follower, 3)
    shell.writes_fail = True
    shell.sync(leader, 3, {leader: b"x", follower: b"y"})
    assert shell.answers[waiting] is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert shell.state() == "CompletingRebalance"
    assert shell.group.members[follower].assignment == follower.encode(), "as of the generation before"

    shell.writes_fail = False
    again = shell.sync(follower, 3)
    shell.sync(leader, 3, {leader: b"x", follower: b"z"})
    assert shell.synced(again).assignment == b"z"


def test_a_generation_whose_assignment_is_never_written_ends_with_the_rebalance_timeout() -> None:
    shell, leader, follower = completing()
    shell.writes_fail = True
    shell.sync(follower, 3)
    shell.sync(leader, 3, {leader: b"x"})
    for _ in range(REBALANCE_MS // 5_000):
        shell.heartbeat(leader, 3)
        shell.heartbeat(follower, 3)
        shell.wait(5_000)
    assert shell.heartbeat(leader, 3) == ErrorCode.REBALANCE_IN_PROGRESS


def test_only_members_of_the_generation_are_heard() -> None:
    shell, leader, follower = completing()
    errors = [
        shell.synced(shell.sync("stranger", 3)).error_code,
        shell.synced(shell.sync(follower, 2)).error_code,
        shell.synced(shell.sync(follower, 3, protocol_name="sticky")).error_code,
        shell.synced(shell.sync(follower, 3, protocol_type=None)).error_code,
        shell.synced(shell.sync(follower, 3, group_instance_id="nobody")).error_code,
        shell.ask(SyncGroupRequest(group_id="")).error_code,
        shell.ask(SyncGroupRequest(group_id="no such group")).error_code,
    ]
    assert errors == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    old_version = shell.sync(follower, 3, version=4)
    shell.send_join(leader, topics=("new",))
    assert shell.synced(old_version).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert shell.synced(shell.sync(follower, 3)).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_asks_again_while_it_waits_gets_each_question_answered_once() -> None:
    shell, leader, follower = completing()
    first, second = shell.sync(follower, 3), shell.sync(follower, 3)
    assert shell.synced(first).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    shell.sync(leader, 3, {follower: b"y"})
    assert shell.synced(second).assignment == b"y"


def test_a_member_that_waits_for_the_leader_need_not_heartbeat_and_must_afterwards() -> None:
    shell, leader, follower = completing()
    shell.sync(follower, 3)
    shell.wait(SESSION_MS - 1)
    shell.heartbeat(leader, 3)
    shell.wait(SESSION_MS - 1)
    shell.sync(leader, 3)
    assert shell.state() == "Stable"
    shell.wait(SESSION_MS - 1)
    assert follower in shell.group.members
    shell.wait(1)
    assert shell.state() == "Empty"
