"""Heartbeat, versions 0 to 4, and LeaveGroup, versions 0 to 5: staying in a group, and going.

A static member that is stopped does not leave, so it keeps its place until its session ends; it is made to
leave by its instance id, which an admin may give for it (KIP-345).
"""

from __future__ import annotations

from typing import Final

from ottla.errors import ErrorCode, KafkaError
from ottla.group.classic import ClassicGroup, GroupState
from ottla.group.decision import Turn
from ottla.group.rebalance import after_removal, maybe_complete_join, remove_member
from ottla.protocol.codec import first_version
from ottla.protocol.messages.groups import (
    HeartbeatRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

_SEVERAL_MEMBERS_SINCE: Final = first_version(LeaveGroupRequest, "members")


def heartbeat(group: ClassicGroup, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
    """Extend a member's session, and tell it whether it has to join again. The most frequent request of
    all.
    """
    member = group.identified(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    member.heard(now_ms)
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave_group(
    group: ClassicGroup | None, request: LeaveGroupRequest, version: int, turn: Turn
) -> LeaveGroupResponse:
    """Take members out of the group, and share what they had."""
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    is_batch = version >= _SEVERAL_MEMBERS_SINCE
    identities = request.members if is_batch else [MemberIdentity(request.member_id)]
    left: list[MemberIdentity] = []
    results = [
        MemberResponse(identity.member_id, identity.group_instance_id, _leave(group, identity, left, turn))
        for identity in identities
    ]
    if group is not None and left:
        after_removal(group, _reason(left), turn)
    elif group is not None:
        maybe_complete_join(group, turn)  # a pending member may be all that the others waited for
    if is_batch:
        return LeaveGroupResponse(members=results)
    return LeaveGroupResponse(error_code=results[0].error_code)


def _leave(
    group: ClassicGroup | None, identity: MemberIdentity, left: list[MemberIdentity], turn: Turn
) -> ErrorCode:
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    timer = group.pending.pop(identity.member_id, None)
    if timer is not None:
        timer.cancel()
        return ErrorCode.NONE
    try:
        by_instance = None if identity.member_id else group.instance(identity.group_instance_id)
        member = by_instance or group.identified(identity.member_id, identity.group_instance_id)
    except KafkaError as error:
        return error.code
    remove_member(group, member, turn)
    left.append(identity)
    return ErrorCode.NONE


def _reason(left: list[MemberIdentity]) -> str:
    names = (f"'{identity.group_instance_id or identity.member_id}'" for identity in left)
    reasons = {identity.reason for identity in left if identity.reason}
    return f"{', '.join(names)} left" + (f" ({'; '.join(sorted(reasons))})" if reasons else "")
