"""JoinGroup, versions 0 to 9: coming into a group, and coming back to it.

    member id   instance id   who that is
    ""          none          a new member: from version 4 on it gets an id first (MEMBER_ID_REQUIRED, KIP-394), so that one
                              that gives up while it waits and tries again is not counted twice
    ""          known         a static member that was restarted: it takes its own former place (static_members.py)
    ""          new           a new static member; its instance id tells it from others, so it needs no id first
    given       any           a member that comes (again), perhaps with new metadata

A member that joins is answered when the next generation begins. A member that is in the current generation,
and brings nothing new, is answered at once with that: it only missed the answer.
"""

from __future__ import annotations

from functools import partial

from ottla.config import GroupConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.group.classic import ClassicGroup, GroupState
from ottla.group.decision import GroupRequestContext, Parked, Turn
from ottla.group.error_responses import join_refusal
from ottla.group.member import Member, joining_member, protocols_of
from ottla.group.rebalance import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    expire_pending,
    expire_session,
    extend_session,
    generation_response,
    maybe_complete_join,
    prepare_rebalance,
    remove_member,
)
from ottla.group.static_members import keeps_its_place, replace_at_rest, replace_in_motion
from ottla.group.timers import Timer
from ottla.protocol.messages.groups import MEMBER_ID_REQUIRED_SINCE, JoinGroupRequest, JoinGroupResponse


def check_join(request: JoinGroupRequest, settings: GroupConfig) -> None:
    """Refuse what no group would accept."""
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
        raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)


def join_group(
    group: ClassicGroup, request: JoinGroupRequest, context: GroupRequestContext, turn: Turn
) -> JoinGroupResponse | None:
    """Let a member into the group; None if it has to wait for the others."""
    if not _has_room(group, request, turn.settings.max_size):
        return _refused_for_size(group, request, context, turn)
    if not group.supports(request.protocol_type, protocols_of(request.protocols)):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if request.member_id:
        return _join_with_id(group, request, context, turn)
    if request.group_instance_id is None:
        return _join_as_new(group, request, context, turn)
    return _join_as_static(group, request, context, turn)


def _has_room(group: ClassicGroup, request: JoinGroupRequest, max_size: int) -> bool:
    """Whether the group may take this member. Present members may stay, unless a rebalance filled the group
    meanwhile.
    """
    if group.state is GroupState.EMPTY:
        return True
    present = group.members.get(request.member_id) or group.instance(request.group_instance_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        return (present is not None and present.parked_join is not None) or group.joined_count < max_size
    return present is not None or len(group.members) < max_size


def _refused_for_size(
    group: ClassicGroup, request: JoinGroupRequest, context: GroupRequestContext, turn: Turn
) -> JoinGroupResponse:
    """Refuse a member, and remove it from the group if it was in it: the others must not wait for it."""
    _forget_pending(group, request.member_id)
    member = group.members.get(request.member_id)
    if member is not None:
        remove_member(group, member, turn)
    maybe_complete_join(group, turn)
    return join_refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, "", context.version)


def _join_as_new(
    group: ClassicGroup, request: JoinGroupRequest, context: GroupRequestContext, turn: Turn
) -> JoinGroupResponse | None:
    member_id = turn.new_member_id(context.client_id)
    if context.version < MEMBER_ID_REQUIRED_SINCE:
        _add(group, request, context, member_id, turn)
        return None
    timer = group.pending[member_id] = Timer()
    turn.after(timer, request.session_timeout_ms, partial(expire_pending, group, member_id))
    return join_refusal(ErrorCode.MEMBER_ID_REQUIRED, member_id, context.version)


def _join_as_static(
    group: ClassicGroup, request: JoinGroupRequest, context: GroupRequestContext, turn: Turn
) -> JoinGroupResponse | None:
    former = group.instance(request.group_instance_id)
    member_id = turn.new_member_id(request.group_instance_id or "")
    if former is None:
        _add(group, request, context, member_id, turn)
        return None
    member = joining_member(request, context, member_id)
    if keeps_its_place(group, former, member):
        return replace_at_rest(group, former, member, context, turn)
    replace_in_motion(group, former, member, turn)
    _park(group, member, context, turn)
    _go_on(group, f"the static member '{request.group_instance_id}' came back", turn)
    return None


def _join_with_id(
    group: ClassicGroup, request: JoinGroupRequest, context: GroupRequestContext, turn: Turn
) -> JoinGroupResponse | None:
    if request.member_id in group.pending and request.group_instance_id is None:
        _forget_pending(group, request.member_id)
        _add(group, request, context, request.member_id, turn)
        return None
    member = group.identified(request.member_id, request.group_instance_id)
    if not _must_rebalance(group, member, request):
        extend_session(group, member, turn)
        return generation_response(group, member)
    _update(group, member, request, context)
    _park(group, member, context, turn)
    _go_on(group, _reason(request, f"'{member.member_id}' joins again"), turn)
    return None


def _must_rebalance(group: ClassicGroup, member: Member, request: JoinGroupRequest) -> bool:
    """Whether a member's wish to join is news: a leader that joins again asks for a new assignment."""
    if group.state is GroupState.PREPARING_REBALANCE:
        return True
    is_changed = member.protocols != protocols_of(request.protocols)
    return is_changed or (group.state is GroupState.STABLE and group.leader == member.member_id)


def _add(
    group: ClassicGroup, request: JoinGroupRequest, context: GroupRequestContext, member_id: str, turn: Turn
) -> None:
    member = joining_member(request, context, member_id)
    group.add_new(member, request.protocol_type)
    _park(group, member, context, turn)
    _go_on(group, _reason(request, f"'{member_id}' joins"), turn)


def _update(
    group: ClassicGroup, member: Member, request: JoinGroupRequest, context: GroupRequestContext
) -> None:
    group.update_protocols(member, protocols_of(request.protocols))
    member.rejoin(request, context)


def _park(group: ClassicGroup, member: Member, context: GroupRequestContext, turn: Turn) -> None:
    """Have a member wait for the next generation. While it waits it is not expected to heartbeat."""
    if member.parked_join is not None:
        # The same member asks again, so it does not listen to the first question's answer any more.
        again = join_refusal(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id, member.parked_join.version)
        turn.answer(member.parked_join, again)
    group.park_join(member, Parked(context.ticket, context.version))
    if member.is_new:
        turn.after(member.session, NEW_MEMBER_JOIN_TIMEOUT_MS, partial(expire_session, group, member))
    else:
        member.session.cancel()


def _go_on(group: ClassicGroup, reason: str, turn: Turn) -> None:
    if group.state is GroupState.PREPARING_REBALANCE:
        maybe_complete_join(group, turn)
    else:
        prepare_rebalance(group, reason, turn)


def _forget_pending(group: ClassicGroup, member_id: str) -> None:
    timer = group.pending.pop(member_id, None)
    if timer is not None:
        timer.cancel()


def _reason(request: JoinGroupRequest, fact: str) -> str:
    return f"{fact} ({request.reason})" if request.reason else fact
