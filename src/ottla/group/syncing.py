"""SyncGroup, versions 0 to 5: the leader sends all assignments, and each member receives its own.

Followers wait for the leader. The leader's assignments are first written to the log; the record makes the
group stable and answers all waiting members. If it cannot be written, no member has an assignment and the
generation is still open: they retry.
"""

from __future__ import annotations

from typing import Final

from ottla.errors import ErrorCode, KafkaError
from ottla.group.classic import ClassicGroup, GroupState
from ottla.group.decision import GroupRequestContext, Parked, Turn
from ottla.group.member import Member
from ottla.group.rebalance import extend_session
from ottla.group.records import group_record
from ottla.protocol.codec import first_version
from ottla.protocol.messages.groups import SyncGroupRequest, SyncGroupResponse

_PROTOCOL_SINCE: Final = first_version(SyncGroupRequest, "protocol_name")


def sync_group(
    group: ClassicGroup, request: SyncGroupRequest, context: GroupRequestContext, turn: Turn
) -> SyncGroupResponse | None:
    """A member's assignment; None if it has to wait for the leader."""
    member = group.identified(request.member_id, request.group_instance_id)
    _check(group, request, context.version)
    if group.state is GroupState.PREPARING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    group.unsynced.discard(member.member_id)
    if group.state is GroupState.STABLE:
        extend_session(group, member, turn)
        return _response(group, member.assignment)
    _park(member, context, turn)
    if group.leader == member.member_id:
        _complete(group, request, turn)
    return None


def _check(group: ClassicGroup, request: SyncGroupRequest, version: int) -> None:
    if request.generation_id != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    # A member that knows these fields must fill them in (KIP-559): proxies tell by them what they pass on.
    said = (request.protocol_type, request.protocol_name)
    if version >= _PROTOCOL_SINCE and said != (group.protocol_type, group.protocol):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _park(member: Member, context: GroupRequestContext, turn: Turn) -> None:
    """Have a member wait for the leader. While it waits it is not expected to heartbeat."""
    if member.parked_sync is not None:
        # The same member asks again, so it does not listen to the first question's answer any more.
        turn.answer(member.parked_sync, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    member.park_sync(Parked(context.ticket, context.version))
    member.session.cancel()


def _complete(group: ClassicGroup, request: SyncGroupRequest, turn: Turn) -> None:
    """Write the assignments to the log; members without one get an empty one, unknown members are passed
    over.
    """
    given = {item.member_id: bytes(item.assignment) for item in request.assignments}
    shares = [(member, given.get(member.member_id, b"")) for member in group.members.values()]
    turn.records.append(group_record(group.group_id, group.value(shares, turn.now_ms, group.leader)))
    for member, assignment in shares:
        parked = member.release_sync()
        if parked is not None:
            turn.answer(parked, _response(group, assignment))
            extend_session(group, member, turn)
    turn.notes.append(f"group '{group.group_id}' is assigned, generation {group.generation}")


def _response(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=assignment
    )
