"""Consumer groups as an administrator sees them: states, members and their partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.client.requests.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from ottla.client.requests.outcomes import error_of, outcome
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.codec import DecodeError, first_version
from ottla.protocol.messages.group_admin import (
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from ottla.protocol.messages.groups import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

EMPTY: Final = "Empty"
DEAD: Final = "Dead"

SEVERAL_MEMBERS_SINCE: Final = first_version(LeaveGroupRequest, "members")


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group by name.

    Brokers before Kafka 2.6 do not report the state, brokers before 3.8 not the type: it is empty then.
    """

    group_id: str
    state: str
    type: str
    protocol_type: str


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group and the partitions it was given."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group with its members. `protocol` is the assignor that its members agreed on, or empty."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    coordinator: int
    members: tuple[MemberDescription, ...]


def list_groups_request(states: Iterable[str]) -> ListGroupsRequest:
    return ListGroupsRequest(states_filter=list(states))


def listed_groups(response: ListGroupsResponse) -> list[GroupListing] | KafkaError:
    if response.error_code != ErrorCode.NONE:
        return error_of(response.error_code)
    return [
        GroupListing(each.group_id, each.group_state, each.group_type, each.protocol_type)
        for each in response.groups
    ]


def described_groups(
    response: DescribeGroupsResponse, coordinator: int
) -> dict[str, GroupDescription | KafkaError]:
    return {group.group_id: _described(group, coordinator) for group in response.groups}


def deleted_groups(response: DeleteGroupsResponse) -> dict[str, KafkaError | None]:
    return {
        each.group_id: None if each.error_code == ErrorCode.NONE else _named(each.error_code, each.group_id)
        for each in response.results
    }


def named_members(members: Iterable[str], instances: Iterable[str]) -> dict[str, MemberIdentity]:
    """Members by their ids, and static ones by the ids of their instances."""
    by_instance = {name: MemberIdentity(group_instance_id=name) for name in instances}
    by_member = {name: MemberIdentity(name) for name in members}
    if twice := by_instance.keys() & by_member.keys():
        raise ValueError(
            f'"{min(twice)}" is named as a member and as an instance: it can be only one of them'
        )
    return by_instance | by_member


def all_members(group: GroupDescription) -> dict[str, MemberIdentity]:
    """All members of a group.

    Static members are named by their instances, so that one that comes back meanwhile is removed as well.
    """
    instances = [each.group_instance_id for each in group.members if each.group_instance_id]
    return named_members([each.member_id for each in group.members if not each.group_instance_id], instances)


def remove_members_request(
    group_id: str, members: Mapping[str, MemberIdentity], reason: str
) -> LeaveGroupRequest:
    """Let members leave the group, as an administrator. The request needs version `SEVERAL_MEMBERS_SINCE`."""
    leaving = [MemberIdentity(each.member_id, each.group_instance_id, reason) for each in members.values()]
    return LeaveGroupRequest(group_id=group_id, members=leaving)


def removed_members(
    response: LeaveGroupResponse, group_id: str, members: Mapping[str, MemberIdentity]
) -> dict[str, KafkaError | None]:
    """None for each member that was removed, by the name it has in `members`."""
    if response.error_code != ErrorCode.NONE:
        return {name: _why_not_removed(response.error_code, group_id, name) for name in members}
    return {
        (name := each.group_instance_id or each.member_id): _why_not_removed(each.error_code, group_id, name)
        for each in response.members
    }


def _why_not_removed(code: int, group_id: str, name: str) -> KafkaError | None:
    if code == ErrorCode.UNKNOWN_MEMBER_ID:
        return KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f'the group "{group_id}" has no member "{name}"')
    return outcome(code, None)


def _described(group: DescribedGroup, coordinator: int) -> GroupDescription | KafkaError:
    # Until version 5, a group that is not there is described as dead.
    is_absent = group.group_state == DEAD and group.error_code == ErrorCode.NONE
    code = ErrorCode.GROUP_ID_NOT_FOUND if is_absent else group.error_code
    if code != ErrorCode.NONE:
        return _named(code, group.group_id)
    return GroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        protocol_type=group.protocol_type,
        protocol=group.protocol_data,
        coordinator=coordinator,
        members=tuple(_member(each, group.protocol_type) for each in group.members),
    )


def _member(member: DescribedGroupMember, protocol_type: str) -> MemberDescription:
    return MemberDescription(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        assignment=_assignment(member) if protocol_type == PROTOCOL_TYPE else (),
    )


def _assignment(member: DescribedGroupMember) -> tuple[TopicPartition, ...]:
    """The partitions of a member; none if its assignment is not in the consumer protocol's format."""
    try:
        return decode_assignment(member.member_assignment)
    except DecodeError:
        return ()


def _named(code: int, group_id: str) -> KafkaError:
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f'there is no group "{group_id}"')
    if code == ErrorCode.NON_EMPTY_GROUP:
        return KafkaError(ErrorCode.NON_EMPTY_GROUP, f'the group "{group_id}" still has members')
    return error_of(code)
