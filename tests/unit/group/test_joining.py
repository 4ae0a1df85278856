"""JoinGroup: who comes in, when they hear of a generation, and what they hear (GRP-1)."""

from __future__ import annotations

import pytest
from tests.unit.group.shell import (
    GROUP,
    NO_DELAY,
    REBALANCE_MS,
    SESSION_MS,
    Shell,
    subscription,
)

from ottla.config import GroupConfig
from ottla.errors import ErrorCode
from ottla.protocol.messages.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponseMember,
    MemberIdentity,
)


def test_a_new_member_gets_an_id_first_and_joins_with_it() -> None:
    shell = Shell()
    first = shell.joined(shell.send_join(version=4, client="app"))
    assert (first.error_code, first.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "app-1")
    assert shell.state() == "Empty"
    assert not shell.log

    second = shell.joined(shell.send_join("app-1", version=4))
    assert (second.error_code, second.generation_id, second.leader) == (ErrorCode.NONE, 1, "app-1")
    assert shell.state() == "CompletingRebalance"
    assert not shell.group.pending


def test_before_version_4_a_new_member_is_in_at_once() -> None:
    shell = Shell()
    answer = shell.joined(shell.send_join(version=3, client="old"))
    assert (answer.error_code, answer.member_id, answer.generation_id) == (0, "old-1", 1)


def test_an_id_that_nobody_comes_back_with_is_forgotten_after_the_session_timeout() -> None:
    shell = Shell()
    member_id = shell.new_id()
    shell.wait(SESSION_MS - 1)
    assert member_id in shell.group.pending
    shell.wait(1)
    assert shell.joined(shell.send_join(member_id)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    shell.wait(shell.settings.offsets_retention_check_interval_ms)
    assert GROUP not in shell.machine.groups, "nothing is left to remember it by"


def test_a_rebalance_waits_for_an_id_that_was_given_out_as_long_as_it_is_good() -> None:
    shell = Shell()
    (leader,) = shell.form(1)
    pending = shell.new_id()
    rejoin = shell.send_join(leader)
    assert rejoin not in shell.answers
    shell.wait(SESSION_MS)
    assert pending not in shell.group.pending
    assert shell.joined(rejoin).generation_id == 2


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_what_no_group_accepts_is_refused_and_leaves_no_group_behind(
    changes: dict[str, object], error: ErrorCode
) -> None:
    shell = Shell()
    answer = shell.joined(shell.send_join(**changes))  # type: ignore[arg-type]
    assert (answer.error_code, answer.generation_id) == (error, -1)
    assert answer.member_id == changes.get("member_id", "")
    assert not shell.machine.groups


def test_an_empty_group_waits_for_more_members_and_longer_when_they_come() -> None:
    shell = Shell(GroupConfig())
    one, two = shell.new_id(), shell.new_id()
    first = shell.send_join(one)
    shell.wait(2_000)
    second = shell.send_join(two)
    shell.wait(3_999)
    assert first not in shell.answers
    shell.wait(1)
    assert shell.joined(first).generation_id == shell.joined(second).generation_id == 1


def test_the_initial_delay_is_not_extended_beyond_the_rebalance_timeout() -> None:
    shell = Shell(GroupConfig())
    ids = [shell.new_id(session_timeout_ms=60_000) for _ in range(10)]
    tickets = []
    for member_id in ids:
        tickets.append(shell.send_join(member_id, rebalance_timeout_ms=7_000))
        shell.wait(1_000)
    early = [ticket for ticket in tickets if ticket in shell.answers]
    assert len(early) == 7
    assert {shell.joined(ticket).generation_id for ticket in early} == {1}


def test_without_members_that_came_later_the_delay_is_the_setting() -> None:
    shell = Shell(GroupConfig(initial_rebalance_delay_ms=500))
    ticket = shell.send_join(shell.new_id())
    shell.wait(499)
    assert ticket not in shell.answers
    shell.wait(1)
    assert shell.joined(ticket).generation_id == 1


def test_only_the_leader_hears_of_the_other_members() -> None:
    shell = Shell(GroupConfig())
    one, two = shell.new_id(), shell.new_id()
    leader, follower = shell.send_join(one, topics=("a",)), shell.send_join(two, topics=("b",))
    shell.wait(6_000)
    answer = shell.joined(leader)
    assert answer.leader == one
    assert answer.members == [
        JoinGroupResponseMember(one, None, subscription("a")),
        JoinGroupResponseMember(two, None, subscription("b")),
    ]
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert (shell.joined(follower).leader, shell.joined(follower).members) == (one, [])


def test_the_protocol_is_the_one_that_most_members_like_best_among_those_all_speak() -> None:
    shell = Shell(GroupConfig())
    likes = [("sticky", "range"), ("range", "roundrobin", "sticky"), ("sticky", "range", "own")]
    tickets = [shell.send_join(shell.new_id(), protocols=names) for names in likes]
    shell.wait(12_000)
    assert {shell.joined(ticket).protocol_name for ticket in tickets} == {"sticky"}


def test_a_member_that_shares_no_protocol_with_all_others_is_refused() -> None:
    shell = Shell()
    shell.form(1, protocols=("range", "sticky"))
    refused = shell.joined(shell.send_join(protocols=("roundrobin",)))
    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    other_type = shell.joined(shell.send_join(protocols=("range",), protocol_type="connect"))
    assert other_type.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert shell.state() == "Stable"


def test_an_empty_group_can_become_one_of_another_type() -> None:
    shell = Shell()
    (member,) = shell.form(1)
    shell.leave(MemberIdentity(member))
    ticket = shell.send_join(version=3, protocols=("v1",), protocol_type="connect")
    assert shell.joined(ticket).error_code == 0
    assert shell.group.protocol_type == "connect"


def test_a_protocol_named_twice_counts_once() -> None:
    shell = Shell(GroupConfig())
    tickets = [shell.send_join(shell.new_id(), protocols=("range", "range")) for _ in range(2)]
    shell.wait(9_000)
    assert {shell.joined(ticket).protocol_name for ticket in tickets} == {"range"}


def test_a_follower_that_joins_again_unchanged_hears_of_the_current_generation() -> None:
    shell = Shell()
    leader, follower = shell.form(2)
    answer = shell.joined(shell.send_join(follower))
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 2, leader)
    assert answer.members == []
    assert shell.state() == "Stable"


def test_a_leader_that_joins_again_makes_the_group_rebalance() -> None:
    shell = Shell()
    leader, follower = shell.form(2)
    ticket = shell.send_join(leader, reason="new partitions")
    assert ticket not in shell.answers
    assert shell.state() == "PreparingRebalance"
    assert "new partitions" in shell.notes[-1]
    shell.send_join(follower)
    assert shell.joined(ticket).generation_id == 3


def test_a_follower_with_new_metadata_makes_the_group_rebalance() -> None:
    shell = Shell()
    leader, follower = shell.form(2)
    ticket = shell.send_join(follower, topics=("t", "u"))
    assert shell.heartbeat(leader, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    members = shell.joined(shell.send_join(leader)).members
    assert members[1].metadata == subscription("t", "u")
    assert shell.joined(ticket).generation_id == 3


def test_a_member_that_missed_the_answer_gets_it_again_while_the_leader_assigns() -> None:
    shell = Shell(GroupConfig())
    one, two = shell.new_id(), shell.new_id()
    shell.send_join(one)
    shell.send_join(two)
    shell.wait(6_000)
    again = shell.joined(shell.send_join(one))
    assert (again.generation_id, len(again.members)) == (1, 2)
    assert shell.joined(shell.send_join(two)).members == []
    changed = shell.send_join(two, topics=("u",))
    assert changed not in shell.answers
    assert shell.state() == "PreparingRebalance"


def test_a_member_that_asks_again_while_it_waits_is_counted_once_and_each_question_answered_once() -> None:
    shell = Shell()
    leader, _ = shell.form(2)
    first, second = shell.send_join(leader), shell.send_join(leader)
    assert shell.joined(first).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert shell.joined(first).member_id == leader
    assert second not in shell.answers
    assert shell.group.joined_count == 1


def test_version_0_has_one_timeout_for_sessions_and_rebalances() -> None:
    shell = Shell()
    shell.send_join(version=0)
    (member,) = shell.group.members.values()
    assert member.rebalance_timeout_ms == SESSION_MS
    shell.send_join(version=1)
    assert list(shell.group.members.values())[1].rebalance_timeout_ms == REBALANCE_MS


def test_a_group_takes_no_more_members_than_are_allowed() -> None:
    shell = Shell(GroupConfig(initial_rebalance_delay_ms=0, max_size=2))
    leader, follower = shell.form(2)
    refused = shell.joined(shell.send_join())
    assert (refused.error_code, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert shell.joined(shell.send_join(follower)).error_code == 0
    assert shell.state() == "Stable"

    # In a rebalance the first to join have the places.
    shell.leave(MemberIdentity(follower))
    new = [shell.send_join(version=3) for _ in range(2)]
    late = shell.joined(shell.send_join(leader))
    assert late.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert leader not in shell.group.members
    assert {shell.joined(ticket).generation_id for ticket in new} == {3}


def test_a_static_member_comes_back_into_a_full_group() -> None:
    shell = Shell(GroupConfig(initial_rebalance_delay_ms=0, max_size=1))
    ticket = shell.send_join(instance="i")
    shell.settle([shell.joined(ticket).member_id], 1)
    assert shell.joined(shell.send_join(instance="i")).error_code == 0


def test_metadata_outlives_the_frame_that_it_came_in() -> None:
    shell = Shell()
    frame = bytearray(subscription("t"))
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=SESSION_MS,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", memoryview(frame))],
    )
    _, decision = shell.decide(request, 3)
    shell.carry_out(decision)
    frame[:] = bytes(len(frame))
    (member,) = shell.group.members.values()
    assert member.metadata("range") == subscription("t")


def test_members_of_a_loaded_group_that_is_too_large_now_have_to_join_again() -> None:
    shell = Shell()
    shell.form(3)
    shell.settings = GroupConfig(initial_rebalance_delay_ms=0, max_size=2)
    assert shell.restarted().state() == "PreparingRebalance"
    shell.settings = NO_DELAY
    assert shell.restarted().state() == "Stable"
