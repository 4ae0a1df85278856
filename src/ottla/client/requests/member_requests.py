"""The requests of a group member."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.requests.consumer_protocol import PROTOCOL_TYPE
from ottla.client.requests.member_events import JoinedMember, Protocols
from ottla.client.requests.membership import NO_MEMBER_ID, Membership
from ottla.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """The identity of a member, and its timeouts. Defaults are the Java client's."""

    group_id: str
    group_instance_id: str | None = None
    protocol_type: str = PROTOCOL_TYPE
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 300_000
    request_timeout_ms: int = 30_000


def join_request(
    settings: MemberSettings, membership: Membership, protocols: Protocols, reason: str
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=settings.group_id,
        session_timeout_ms=settings.session_timeout_ms,
        rebalance_timeout_ms=settings.rebalance_timeout_ms,
        member_id=membership.member_id,
        group_instance_id=settings.group_instance_id,
        protocol_type=settings.protocol_type,
        protocols=[JoinGroupRequestProtocol(*each) for each in protocols.items()],
        reason=reason,
    )


def joined_members(response: JoinGroupResponse) -> tuple[JoinedMember, ...]:
    """The members in the coordinator's answer to the leader."""
    return tuple(
        JoinedMember(each.member_id, each.group_instance_id, bytes(each.metadata))
        for each in response.members
    )


def sync_request(
    settings: MemberSettings, membership: Membership, protocol_name: str, assignments: Mapping[str, bytes]
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=settings.group_id,
        generation_id=membership.generation_id,
        member_id=membership.member_id,
        group_instance_id=settings.group_instance_id,
        protocol_type=settings.protocol_type,
        protocol_name=protocol_name,
        assignments=[SyncGroupRequestAssignment(*each) for each in assignments.items()],
    )


def heartbeat_request(settings: MemberSettings, membership: Membership) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=settings.group_id,
        generation_id=membership.generation_id,
        member_id=membership.member_id,
        group_instance_id=settings.group_instance_id,
    )


def leave_request(settings: MemberSettings, membership: Membership, reason: str) -> LeaveGroupRequest | None:
    """None if no member has to leave: it never joined, or it is static and keeps its place."""
    if membership.member_id == NO_MEMBER_ID or settings.group_instance_id is not None:
        return None
    return LeaveGroupRequest(
        group_id=settings.group_id,
        member_id=membership.member_id,  # up to version 2; later ones have the list
        members=[MemberIdentity(member_id=membership.member_id, reason=reason)],
    )
