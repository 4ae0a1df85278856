"""Groups from outside: describe, list, delete (GRP-3)."""

from __future__ import annotations

from tests.unit.group.shell import GROUP, Shell, subscription

from ottla.errors import ErrorCode
from ottla.protocol.messages.group_admin import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    ListedGroup,
    ListGroupsRequest,
)
from ottla.protocol.messages.groups import MemberIdentity


def described(shell: Shell, group_id: str, version: int = 6) -> DescribedGroup:
    (found,) = shell.ask(DescribeGroupsRequest([group_id]), version).groups
    assert isinstance(found, DescribedGroup)
    return found


def test_a_stable_group_is_described_with_metadata_and_assignments() -> None:
    shell = Shell()
    leader, follower = shell.form(2)
    members = [
        DescribedGroupMember(member_id, None, "c", "/127.0.0.1", subscription("t"), member_id.encode())
        for member_id in (leader, follower)
    ]
    assert described(shell, GROUP) == DescribedGroup(0, None, GROUP, "Stable", "consumer", "range", members)


def test_while_it_rebalances_a_group_has_no_protocol() -> None:
    shell = Shell()
    leader, follower = shell.form(2)
    shell.send_join(leader)
    found = described(shell, GROUP)
    assert (found.group_state, found.protocol_data) == ("PreparingRebalance", "")
    assert {bytes(member.member_metadata) for member in found.members} == {b""}
    shell.send_join(follower)
    assert described(shell, GROUP).group_state == "CompletingRebalance"


def test_a_group_that_is_not_there_is_dead_and_from_version_6_on_an_error() -> None:
    shell = Shell()
    old = described(shell, "none", 5)
    assert (old.error_code, old.group_state, old.error_message) == (0, "Dead", None)
    new = described(shell, "none", 6)
    assert (new.error_code, new.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert new.error_message == "There is no group 'none'."


def listed(shell: Shell, states: list[str] | None = None, types: list[str] | None = None) -> set[str]:
    answer = shell.ask(ListGroupsRequest(states or [], types or []), 5)
    return {group.group_id for group in answer.groups}


def test_groups_are_listed_by_state_and_type_whatever_the_case() -> None:
    shell = Shell()
    shell.form(1)
    shell.commit(1, group="simple")
    answer = shell.ask(ListGroupsRequest(), 5)
    assert ListedGroup(GROUP, "consumer", "Stable", "classic") in answer.groups
    assert ListedGroup("simple", "", "Empty", "classic") in answer.groups
    assert listed(shell, ["stable"]) == listed(shell, ["Stable", "Dead"], ["Classic"]) == {GROUP}
    assert listed(shell, ["empty", "STABLE"]) == {GROUP, "simple"}
    assert listed(shell, ["nonsense"]) == listed(shell, types=["consumer"]) == set()


def test_only_a_group_without_members_is_deleted_and_its_offsets_with_it() -> None:
    shell = Shell()
    (leader,) = shell.form(1)
    shell.commit(5, generation=1, member_id=leader)
    shell.commit(6, group="simple", partition=2)

    names = [GROUP, "simple", "none", "simple"]
    answer = shell.ask(DeleteGroupsRequest(names), 2)
    assert answer.results == [
        DeletableGroupResult(GROUP, ErrorCode.NON_EMPTY_GROUP),
        DeletableGroupResult("simple", ErrorCode.NONE),
        DeletableGroupResult("none", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert list(shell.machine.groups) == [GROUP]

    shell.leave(MemberIdentity(leader))
    assert shell.ask(DeleteGroupsRequest([GROUP]), 2).results == [DeletableGroupResult(GROUP)]
    assert not shell.machine.groups
    assert [record.value for record in shell.log[-2:]] == [None, None]
    assert not shell.restarted().machine.groups
    assert shell.joined(shell.send_join(version=3)).generation_id == 1


def test_what_could_only_be_deleted_in_part_is_still_there() -> None:
    shell = Shell()
    (leader,) = shell.form(1)
    shell.commit(5, generation=1, member_id=leader)
    shell.leave(MemberIdentity(leader))
    _, decision = shell.decide(DeleteGroupsRequest([GROUP]), 2)
    shell.machine.replay(*decision.records[0])
    assert shell.committed() == -1
    assert GROUP in shell.machine.groups
