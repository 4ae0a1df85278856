"""Groups from outside: DescribeGroups, versions 0 to 6, ListGroups, 0 to 5, DeleteGroups, 0 to 2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.errors import ErrorCode
from ottla.group.classic import ClassicGroup, GroupState
from ottla.group.decision import Turn
from ottla.group.member import Member
from ottla.group.offsets import tombstones
from ottla.group.records import group_record
from ottla.protocol.codec import first_version
from ottla.protocol.messages.group_admin import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

CLASSIC_TYPE: Final = "classic"

_NOT_FOUND_SINCE: Final = first_version(DescribedGroup, "error_message")


def describe_groups(
    groups: Mapping[str, ClassicGroup], request: DescribeGroupsRequest, version: int
) -> DescribeGroupsResponse:
    """The members of a group, and the assignment of each."""
    return DescribeGroupsResponse(
        groups=[_described(groups.get(group_id), group_id, version) for group_id in request.groups]
    )


def _described(group: ClassicGroup | None, group_id: str, version: int) -> DescribedGroup:
    if group is None:
        return _not_found(group_id, version)
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if is_stable else "",
        members=[
            _described_member(member, group.protocol if is_stable else None)
            for member in group.members.values()
        ],
    )


def _not_found(group_id: str, version: int) -> DescribedGroup:
    """A group that is not there is dead, and from version 6 on that is an error (KIP-1043)."""
    described = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    if version >= _NOT_FOUND_SINCE:
        described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        described.error_message = f"There is no group '{group_id}'."
    return described


def _described_member(member: Member, protocol: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(protocol),
        member_assignment=member.assignment,
    )


def list_groups(groups: Iterable[ClassicGroup], request: ListGroupsRequest) -> ListGroupsResponse:
    """The groups in certain states and of certain types; an empty filter lets all pass, case does not
    matter.
    """
    states = {state.lower() for state in request.states_filter}
    types = {name.lower() for name in request.types_filter}
    if types and CLASSIC_TYPE not in types:
        return ListGroupsResponse()
    listed = [
        ListedGroup(group.group_id, group.protocol_type or "", group.state.value, CLASSIC_TYPE)
        for group in groups
        if not states or group.state.value.lower() in states
    ]
    return ListGroupsResponse(groups=listed)


def delete_groups(
    groups: Mapping[str, ClassicGroup], request: DeleteGroupsRequest, turn: Turn
) -> DeleteGroupsResponse:
    """Delete groups that have no members, with their offsets, those of open transactions included."""
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id, _deleted(groups.get(group_id), turn))
            for group_id in dict.fromkeys(request.groups_names)
        ]
    )


def _deleted(group: ClassicGroup | None, turn: Turn) -> ErrorCode:
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY:
        return ErrorCode.NON_EMPTY_GROUP
    turn.records.extend(tombstones(group, sorted(group.offsets.partitions())))
    # Last, so that a group of which only a part could be written is still there.
    turn.records.append(group_record(group.group_id, None))
    return ErrorCode.NONE
