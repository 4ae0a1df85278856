"""Groups as an administrator sees them: who coordinates them, who is in them, who reads what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from ottla.client.metadata import TopicPartition
from ottla.client.outcomes import error_of, outcome
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.codec import DecodeError
from ottla.protocol.messages.coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.group_admin import (
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)

EMPTY: Final = "Empty"
DEAD: Final = "Dead"

_GROUP: Final = 0


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group by name. Brokers before Kafka 2.6 do not tell the state, brokers before 3.8 not the type: empty then."""

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
    """A group with its members. `protocol` is the assignor that its members agreed on; empty while there is none."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    coordinator: int
    members: tuple[MemberDescription, ...]


# ---- coordinators


def find_coordinators_request(groups: Sequence[str]) -> FindCoordinatorRequest:
    """Up to version 3 only the first group is asked for."""
    return FindCoordinatorRequest(key=groups[0], key_type=_GROUP, coordinator_keys=list(groups))


def found_coordinators(
    response: FindCoordinatorResponse, groups: Sequence[str]
) -> dict[str, int | KafkaError]:
    """The number of the broker that coordinates each group."""
    if response.coordinators:
        return {
            each.key: outcome(each.error_code, each.node_id, each.error_message)
            for each in response.coordinators
        }
    return {groups[0]: outcome(response.error_code, response.node_id, response.error_message)}


# ---- groups


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
    """What a member was given; nothing if a stranger wrote it in a format of its own."""
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
