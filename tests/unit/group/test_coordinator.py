"""The machine as a whole: what it answers, what it keeps, and how it is handed over."""

from __future__ import annotations

import pytest
from tests.unit.group.shell import GROUP, SESSION_MS, START_MS, Shell

from ottla.config import GroupConfig
from ottla.errors import ErrorCode
from ottla.group.coordinator import GroupCoordinator, GroupRequestContext
from ottla.group.records import GroupMetadataValue, OffsetCommitValue, group_record, offset_record
from ottla.protocol.messages.group_admin import DeleteGroupsRequest
from ottla.protocol.messages.groups import HeartbeatRequest, JoinGroupResponse, SyncGroupResponse


def test_what_is_no_command_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError, match="str is not a command"):
        Shell().decide("join")


def test_a_deferred_request_has_no_response_and_one_that_completes_the_round_has_its_own() -> None:
    shell = Shell()
    leader, follower = shell.form(2)
    waiting = shell.send_join(leader)
    assert waiting not in shell.answers
    ticket = shell.send_join(follower, topics=("u",))
    assert {type(shell.answers[one]) for one in (waiting, ticket)} == {JoinGroupResponse}


def test_a_loaded_group_is_stable_and_its_members_have_a_session_to_be_heard_of() -> None:
    shell = Shell()
    ids = shell.form(2)
    shell.commit(5, generation=2, member_id=ids[0])
    shell.wait(SESSION_MS - 1)
    other = shell.restarted()
    assert other.state() == "Stable"
    other.wait(SESSION_MS - 1)
    assert [other.heartbeat(member_id, 2) for member_id in ids] == [0, 0]
    assert other.committed() == 5
    assert other.synced(other.sync(ids[1], 2)).assignment == ids[1].encode()
    other.wait(SESSION_MS)
    assert other.state() == "Empty"


def test_of_several_records_of_a_member_the_last_one_counts() -> None:
    shell = Shell()
    (member_id,) = shell.form(1, topics=("t",))
    shell.send_join(member_id, topics=("u",))
    shell.settle([member_id], 2)
    other = shell.restarted()
    assert other.group.subscribed_topics == shell.group.subscribed_topics == frozenset({"u"})


def test_a_rebalance_is_lost_with_the_coordinator_and_begins_again() -> None:
    shell = Shell()
    leader, follower = shell.form(2)
    shell.send_join(leader)
    shell.send_join(follower)
    other = shell.restarted()
    assert other.group.generation == 2
    assert other.synced(other.sync(leader, 3)).error_code == ErrorCode.ILLEGAL_GENERATION
    assert other.commit(1, generation=3, member_id=leader) == ErrorCode.ILLEGAL_GENERATION
    ticket = other.send_join(leader)
    assert other.joined(other.send_join(follower)).generation_id == other.joined(ticket).generation_id == 3


def test_when_the_coordinator_moves_everybody_who_waits_is_sent_there() -> None:
    shell = Shell()
    leader, follower = shell.form(2)
    join = shell.send_join(leader)
    (decision,) = shell.machine.unload()
    shell.carry_out(decision)
    assert shell.joined(join).error_code == ErrorCode.NOT_COORDINATOR
    assert shell.joined(join).member_id == leader
    assert not shell.machine.groups
    assert shell.machine.next_deadline_ms is None

    shell = Shell()
    leader, follower = shell.form(2)
    shell.send_join(leader)
    shell.send_join(follower)
    sync = shell.sync(follower, 3)
    (decision,) = shell.machine.unload()
    assert decision.completions == [(sync, SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))]


def test_heartbeats_do_not_grow_the_queue_of_deadlines() -> None:
    shell = Shell()
    (leader,) = shell.form(1)
    context = GroupRequestContext(4, "c", "/h", 0)
    ticks = 0
    for moment_ms in range(START_MS, START_MS + 4 * SESSION_MS, 10):
        shell.machine.command(HeartbeatRequest(GROUP, 1, leader), context, moment_ms)
        if (shell.machine.next_deadline_ms or 0) <= moment_ms:
            assert not list(shell.machine.tick(moment_ms))
            ticks += 1
    assert ticks == 3, "once per session timeout it is looked whether the member is alive"


def test_a_group_that_cannot_be_written_empty_is_empty_all_the_same_and_comes_back() -> None:
    shell = Shell()
    shell.form(1)
    shell.writes_fail = True
    shell.wait(SESSION_MS)
    assert shell.state() == "Empty"
    shell.writes_fail = False
    answer = shell.joined(shell.send_join(version=3))
    assert answer.generation_id == 3
    shell.settle([answer.member_id], 3)


def test_offsets_without_a_tombstone_outlive_their_groups() -> None:
    machine = GroupCoordinator(GroupConfig(), str)
    machine.replay(*offset_record("g", "t", 0, OffsetCommitValue(5)))
    machine.replay(*group_record("g", GroupMetadataValue("consumer", 4, None, None, 9)))
    assert machine.groups["g"].generation == 4
    machine.replay(*group_record("g", None))
    assert machine.groups["g"].protocol_type is None
    assert [value.offset for _, _, value in machine.groups["g"].offsets.items()] == [5]
    machine.replay(*offset_record("g", "t", 0, None))
    assert not machine.groups


def test_an_id_given_out_by_a_group_that_was_deleted_is_unknown_and_its_deadline_harmless() -> None:
    shell = Shell()
    shell.commit(1)
    pending = shell.new_id()
    shell.ask(DeleteGroupsRequest([GROUP]), 2)
    assert shell.joined(shell.send_join(pending)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    shell.wait(2 * SESSION_MS)
    assert not shell.machine.groups
