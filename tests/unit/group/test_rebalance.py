"""From one generation to the next: which members are waited for, how long, and which are removed (GRP-1,
GRP-4).
"""

from __future__ import annotations

from tests.unit.group.shell import REBALANCE_MS, SESSION_MS, Shell

from ottla.errors import ErrorCode
from ottla.group.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS
from ottla.group.records import GroupMetadataValue
from ottla.protocol.messages.groups import MemberIdentity


def test_members_that_do_not_join_within_the_largest_rebalance_timeout_are_dropped() -> None:
    shell = Shell()
    leader, follower = shell.form(2)
    ticket = shell.send_join(leader, rebalance_timeout_ms=5_000)
    for _ in range(20):  # the follower is alive, it only does not join: stuck past max.poll.interval
        shell.wait(REBALANCE_MS // 20 - 1)
        assert shell.heartbeat(follower, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert ticket not in shell.answers
    shell.wait(20)
    assert shell.joined(ticket).generation_id == 3
    assert list(shell.group.members) == [leader]
    assert shell.heartbeat(follower, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_does_not_wait_for_a_member_whose_session_ends() -> None:
    shell = Shell()
    leader, _ = shell.form(2)
    ticket = shell.send_join(leader)
    shell.wait(SESSION_MS)
    assert shell.joined(ticket).generation_id == 3
    assert list(shell.group.members) == [leader]


def test_a_member_that_waits_for_others_need_not_heartbeat() -> None:
    shell = Shell()
    leader, follower = shell.form(2)
    ticket = shell.send_join(leader)
    for _ in range(9):
        shell.wait(SESSION_MS - 1)
        shell.heartbeat(follower, 2)
    assert shell.joined(ticket).error_code == 0


def test_when_the_leader_does_not_come_back_the_longest_standing_member_leads() -> None:
    shell = Shell()
    ids = shell.form(3)
    tickets = [shell.send_join(member_id, topics=("u",)) for member_id in ids[1:]]
    shell.wait(SESSION_MS)
    assert {shell.joined(ticket).leader for ticket in tickets} == {ids[1]}
    assert len(shell.joined(tickets[0]).members) == 2


def test_the_leader_leads_again_if_it_comes_back() -> None:
    shell = Shell()
    ids = shell.form(3)
    tickets = [shell.send_join(member_id, topics=("u",)) for member_id in reversed(ids)]
    assert {shell.joined(ticket).leader for ticket in tickets} == {ids[0]}


def test_when_nobody_comes_back_the_group_is_empty_and_the_log_says_so() -> None:
    shell = Shell()
    shell.form(2)
    shell.wait(SESSION_MS)
    assert shell.state() == "Empty"
    assert shell.last_record == GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol=None,
        leader=None,
        current_state_timestamp=shell.now_ms,
    )
    assert shell.joined(shell.send_join(version=3)).generation_id == 4


def test_members_that_never_sync_are_dropped_and_the_others_join_again() -> None:
    shell = Shell()
    leader, follower = shell.form(2)
    shell.send_join(leader)
    shell.send_join(follower)
    shell.sync(leader, 3, {leader: b"all"})
    assert shell.state() == "Stable"
    for _ in range(REBALANCE_MS // 5_000):
        assert shell.heartbeat(follower, 3) == ErrorCode.NONE
        assert shell.heartbeat(leader, 3) == ErrorCode.NONE
        shell.wait(5_000)
    assert shell.heartbeat(follower, 3) == ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.heartbeat(leader, 3) == ErrorCode.REBALANCE_IN_PROGRESS
    assert f"no SyncGroup came from '{follower}'" in shell.notes[-1]


def test_a_leader_that_never_syncs_is_dropped_and_those_who_wait_for_it_join_again() -> None:
    shell = Shell()
    leader, follower = shell.form(2)
    shell.send_join(leader)
    shell.send_join(follower)
    ticket = shell.sync(follower, 3)
    for _ in range(REBALANCE_MS // 5_000):
        shell.heartbeat(leader, 3)
        shell.wait(5_000)
    assert shell.synced(ticket).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert shell.joined(shell.send_join(follower)).leader == follower


def test_whoever_waits_for_an_assignment_is_sent_to_join_again_when_a_member_comes() -> None:
    shell = Shell()
    leader, follower = shell.form(2)
    shell.send_join(leader)
    shell.send_join(follower)
    ticket = shell.sync(follower, 3)
    shell.send_join(version=3)
    assert shell.synced(ticket).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert shell.group.members[follower].assignment == follower.encode()
    shell.wait(SESSION_MS)  # its session goes on from there
    assert follower not in shell.group.members


def test_a_new_member_that_gave_up_does_not_hold_up_the_group_for_ever() -> None:
    shell = Shell()
    (leader,) = shell.form(1, rebalance_timeout_ms=10 * NEW_MEMBER_JOIN_TIMEOUT_MS)
    ticket = shell.send_join(version=3)
    while shell.now_ms % NEW_MEMBER_JOIN_TIMEOUT_MS or ticket not in shell.answers:
        assert shell.heartbeat(leader, 1) in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NONE)
        shell.wait(5_000)
        if ticket in shell.answers:
            break
    assert shell.joined(ticket).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.joined(ticket).member_id == ""


def test_a_group_of_absent_static_members_waits_for_them_until_their_sessions_end() -> None:
    shell = Shell()
    ticket = shell.send_join(instance="i", session_timeout_ms=SESSION_MS, rebalance_timeout_ms=6_000)
    member_id = shell.joined(ticket).member_id
    shell.settle([member_id], 1)
    other = shell.send_join(version=3, rebalance_timeout_ms=6_000)
    shell.leave(MemberIdentity(list(shell.group.members)[1]))
    assert shell.joined(other).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    shell.wait(6_000)
    assert shell.state() == "PreparingRebalance"
    shell.wait(4_000)
    assert shell.state() == "Empty"


def test_a_rebalance_timeout_of_nothing_is_the_next_moment() -> None:
    shell = Shell()
    leader, _ = shell.form(2, rebalance_timeout_ms=0)
    ticket = shell.send_join(leader, rebalance_timeout_ms=0)
    shell.wait(1)
    assert shell.joined(ticket).generation_id == 3
