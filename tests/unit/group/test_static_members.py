"""Static members: a restart moves nothing, and a former self is fenced (GRP-7)."""

from __future__ import annotations

from struct import pack

from tests.unit.group.shell import GROUP, REBALANCE_MS, SESSION_MS, Shell, subscription

from ottla.errors import ErrorCode
from ottla.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponseMember,
    MemberIdentity,
    SyncGroupRequest,
)


def static_pair() -> tuple[Shell, str, str]:
    """A stable group of the static members i1, which leads, and i2."""
    shell = Shell()
    one = shell.joined(shell.send_join(instance="i1")).member_id
    second = shell.send_join(instance="i2")
    shell.send_join(one, instance="i1")
    two = shell.joined(second).member_id
    shell.settle([one, two], 2)
    return shell, one, two


def test_a_static_member_needs_no_id_first_and_its_id_tells_its_name() -> None:
    shell = Shell()
    answer = shell.joined(shell.send_join(instance="i1"))
    assert (answer.error_code, answer.member_id) == (0, "i1-1")
    assert answer.members[0].group_instance_id == "i1"


def test_a_restarted_follower_gets_its_assignment_back_and_nobody_else_notices() -> None:
    shell, one, two = static_pair()
    answer = shell.joined(shell.send_join(instance="i2"))
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 2, one)
    assert not answer.skip_assignment
    assert answer.member_id != two
    assert shell.synced(shell.sync(answer.member_id, 2, group_instance_id="i2")).assignment == two.encode()
    assert shell.heartbeat(one, 2, "i1") == ErrorCode.NONE
    assert shell.state() == "Stable"
    assert [member.member_id for member in shell.last_record.members] == [one, answer.member_id]


def test_the_former_self_of_a_restarted_member_is_fenced() -> None:
    shell, _, two = static_pair()
    shell.send_join(instance="i2")
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert shell.heartbeat(two, 2, "i2") == fenced
    assert shell.synced(shell.sync(two, 2, group_instance_id="i2")).error_code == fenced
    assert shell.commit(5, generation=2, member_id=two, group_instance_id="i2") == fenced
    assert shell.joined(shell.send_join(two, instance="i2")).error_code == fenced
    assert shell.leave(MemberIdentity(two, "i2")) == [fenced]
    assert shell.heartbeat(two, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_restarted_leader_is_told_not_to_assign() -> None:
    shell, _, two = static_pair()
    answer = shell.joined(shell.send_join(instance="i1"))
    assert answer.leader == answer.member_id == shell.group.leader
    assert answer.skip_assignment
    assert answer.members == [
        JoinGroupResponseMember(answer.member_id, "i1", subscription("t")),
        JoinGroupResponseMember(two, "i2", subscription("t")),
    ]


def test_a_restarted_leader_of_an_older_version_takes_itself_for_a_follower() -> None:
    shell, one, _ = static_pair()
    answer = shell.joined(shell.send_join(instance="i1", version=8))
    assert (answer.leader, answer.members, answer.skip_assignment) == (one, [], False)
    assert shell.group.leader == answer.member_id
    assert shell.synced(shell.sync(answer.member_id, 2)).assignment == one.encode()


def test_a_restart_survives_the_loss_of_the_coordinator() -> None:
    shell, _, two = static_pair()
    answer = shell.joined(shell.send_join(instance="i2"))
    other = shell.restarted()
    assert other.heartbeat(two, 2, "i2") == ErrorCode.FENCED_INSTANCE_ID
    assert other.heartbeat(answer.member_id, 2, "i2") == ErrorCode.NONE


def test_a_restart_that_cannot_be_written_did_not_happen() -> None:
    shell, _, two = static_pair()
    shell.writes_fail = True
    ticket = shell.send_join(instance="i2")
    assert shell.answers[ticket] is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert shell.heartbeat(two, 2, "i2") == ErrorCode.NONE
    shell.wait(SESSION_MS - 1)
    shell.heartbeat(two, 2, "i2")
    shell.writes_fail = False
    shell.wait(1)
    assert list(shell.group.members) == [two]
    assert shell.state() == "PreparingRebalance", "i1 was not heard of"


def test_a_static_member_keeps_its_place_until_its_session_ends() -> None:
    shell, one, two = static_pair()
    shell.wait(SESSION_MS - 1)
    shell.heartbeat(one, 2, "i1")
    assert two in shell.group.members
    shell.wait(1)
    assert shell.state() == "PreparingRebalance"
    assert list(shell.group.members) == [one]


def test_a_restarted_member_has_a_whole_session_again() -> None:
    shell, one, _ = static_pair()
    shell.wait(SESSION_MS - 1)
    shell.heartbeat(one, 2, "i1")
    restarted = shell.joined(shell.send_join(instance="i2")).member_id
    shell.wait(SESSION_MS - 2)
    shell.heartbeat(one, 2, "i1")
    assert shell.state() == "Stable"
    assert restarted in shell.group.members
    shell.wait(2)
    assert restarted not in shell.group.members


def test_other_topics_make_the_group_rebalance() -> None:
    shell, one, two = static_pair()
    ticket = shell.send_join(instance="i2", topics=("t", "u"))
    assert ticket not in shell.answers
    assert shell.heartbeat(one, 2, "i1") == ErrorCode.REBALANCE_IN_PROGRESS
    assert shell.heartbeat(two, 2, "i2") == ErrorCode.FENCED_INSTANCE_ID
    assert len(shell.joined(shell.send_join(one, instance="i1")).members) == 2
    assert shell.joined(ticket).generation_id == 3


def test_what_a_member_owned_before_the_restart_does_not_make_the_group_rebalance() -> None:
    shell, _, _ = static_pair()
    owned = pack(">ih1sii", 1, 1, b"t", 1, 0)
    protocols = [JoinGroupRequestProtocol("range", subscription("t", version=2, rest=owned))]
    request = JoinGroupRequest(GROUP, SESSION_MS, REBALANCE_MS, "", "i2", "consumer", protocols)
    assert shell.ask(request).generation_id == 2


def test_of_other_protocol_types_any_change_makes_the_group_rebalance() -> None:
    shell = Shell()
    first = shell.joined(shell.send_join(instance="i", protocol_type="connect"))
    shell.sync(first.member_id, 1, {}, protocol_type="connect")
    again = shell.joined(shell.send_join(instance="i", protocol_type="connect"))
    assert again.generation_id == 1
    changed = shell.joined(shell.send_join(instance="i", protocol_type="connect", topics=("u",)))
    assert changed.generation_id == 2


def test_a_vote_that_would_end_otherwise_makes_the_group_rebalance() -> None:
    shell = Shell()
    one = shell.joined(shell.send_join(instance="i1", protocols=("range", "sticky"))).member_id
    shell.settle([one], 1)
    ticket = shell.send_join(instance="i1", protocols=("sticky", "range"))
    assert shell.joined(ticket).generation_id == 2
    assert shell.joined(ticket).protocol_name == "sticky"


def test_a_restart_in_the_middle_of_a_rebalance_fences_whoever_waits() -> None:
    shell, one, two = static_pair()
    waiting = shell.send_join(one, instance="i1")
    restarted = shell.send_join(instance="i1")
    assert shell.joined(waiting).error_code == ErrorCode.FENCED_INSTANCE_ID
    shell.send_join(two, instance="i2")
    answer = shell.joined(restarted)
    assert (answer.generation_id, answer.leader) == (3, answer.member_id)

    syncing = shell.sync(two, 3, group_instance_id="i2")
    again = shell.send_join(instance="i2")
    assert shell.synced(syncing).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert again not in shell.answers
    assert shell.state() == "PreparingRebalance"


def test_a_static_member_that_misses_a_rebalance_still_has_a_part_in_it() -> None:
    shell = Shell()
    one = shell.joined(shell.send_join(instance="i1", rebalance_timeout_ms=5_000)).member_id
    second = shell.send_join(instance="i2", rebalance_timeout_ms=5_000)
    shell.send_join(one, instance="i1", rebalance_timeout_ms=5_000)
    two = shell.joined(second).member_id
    shell.settle([one, two], 2)

    ticket = shell.send_join(one, instance="i1", rebalance_timeout_ms=5_000)
    shell.wait(5_000)
    assert [member.member_id for member in shell.joined(ticket).members] == [one, two]
    shell.sync(one, 3, {one: b"x", two: b"y"})
    back = shell.joined(shell.send_join(instance="i2")).member_id
    assert shell.synced(shell.sync(back, 3)).assignment == b"y"
    shell.wait(5_000)
    assert shell.state() == "Stable", "nobody who was away is missed for not having synced"


def test_an_unknown_instance_is_an_unknown_member() -> None:
    shell, one, _ = static_pair()
    assert shell.heartbeat(one, 2, "i9") == ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.joined(shell.send_join(one, instance="i9")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    request = SyncGroupRequest(GROUP, 2, one, "i9", "consumer", "range")
    assert shell.ask(request).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.ask(HeartbeatRequest(GROUP, 2, one, None)).error_code == ErrorCode.NONE
