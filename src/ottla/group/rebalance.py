"""How a group gets from one generation to the next.

    prepare_rebalance   all members are to join: those that wait for an assignment are sent to join again
    complete_join       enough have joined: leader and protocol are chosen, all members hear of the new generation
    (sync_group)        the leader has said who gets what: the record of it makes the group stable

A member that does not join in time is removed, unless it is static: a static member keeps its place until its
session ends. An empty group waits a little longer for its first members, so that a fleet of consumers that
starts together is one rebalance.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from ottla.errors import ErrorCode
from ottla.group.classic import ClassicGroup, GroupState
from ottla.group.decision import Turn
from ottla.group.error_responses import join_refusal
from ottla.group.member import Member
from ottla.group.records import group_record
from ottla.protocol.messages.groups import (
    JoinGroupResponse,
    JoinGroupResponseMember,
    SyncGroupResponse,
)

# As in Kafka: a new member does not know its id yet, so it cannot heartbeat while it waits for the others. It
# may well have gone and come back under a new id; those that it leaves behind must not hold up the group for
# ever.
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000


def prepare_rebalance(group: ClassicGroup, reason: str, turn: Turn) -> None:
    """Have all members join again."""
    for member in group.members.values():
        if _refuse_sync(member, ErrorCode.REBALANCE_IN_PROGRESS, turn):
            extend_session(group, member, turn)
    group.begin_rebalance()
    turn.notes.append(
        f"group '{group.group_id}' prepares to rebalance from generation {group.generation}: {reason}"
    )
    if group.is_initial_rebalance:
        _begin_initial_delay(group, turn)
    else:
        turn.after(group.timer, group.rebalance_timeout_ms, partial(complete_join, group))
        maybe_complete_join(group, turn)


def _begin_initial_delay(group: ClassicGroup, turn: Turn) -> None:
    delay_ms = turn.settings.initial_rebalance_delay_ms
    group.begin_initial_delay(delay_ms)
    if delay_ms == 0:
        complete_join(group, turn)
    else:
        turn.after(group.timer, delay_ms, partial(_end_initial_delay, group))


def _end_initial_delay(group: ClassicGroup, turn: Turn) -> None:
    """Begin the first generation; or wait as long again, if members came in the meantime and there is time
    left.
    """
    delay_ms = group.extend_initial_delay(turn.settings.initial_rebalance_delay_ms)
    if delay_ms == 0:
        complete_join(group, turn)
    else:
        turn.after(group.timer, delay_ms, partial(_end_initial_delay, group))


def maybe_complete_join(group: ClassicGroup, turn: Turn) -> None:
    """End the join phase early if no member is missing; the initial delay is not cut short, more may come."""
    if group.state is GroupState.PREPARING_REBALANCE and group.all_joined and not group.is_initial_rebalance:
        complete_join(group, turn)


def complete_join(group: ClassicGroup, turn: Turn) -> None:
    """End the join phase: a new generation of the members that joined; or the group is empty."""
    group.timer.cancel()
    for member in list(group.members.values()):
        if member.parked_join is None and not member.is_static:
            remove_member(group, member, turn)
    if not group.members:
        _become_empty(group, turn)
    elif not group.elect_leader():
        # Only static members are left, and none of them is here. Until they come back or their sessions end,
        # wait.
        turn.after(group.timer, group.rebalance_timeout_ms, partial(complete_join, group))
    else:
        _begin_generation(group, turn)


def _become_empty(group: ClassicGroup, turn: Turn) -> None:
    group.become_empty(turn.now_ms)
    turn.records.append(group_record(group.group_id, group.value([], turn.now_ms, group.leader)))
    turn.notes.append(f"group '{group.group_id}' is empty, generation {group.generation}")


def _begin_generation(group: ClassicGroup, turn: Turn) -> None:
    group.begin_generation()
    for member in group.members.values():
        if member.parked_join is None:
            continue  # a static member that is away; its session goes on
        turn.answer(member.parked_join, generation_response(group, member))
        group.enter_generation(member)
        extend_session(group, member, turn)
    turn.after(group.timer, group.rebalance_timeout_ms, partial(expire_sync, group))
    turn.notes.append(
        f"group '{group.group_id}' forms generation {group.generation} of {len(group.members)} members, "
        f"led by '{group.leader}', with the protocol '{group.protocol}'"
    )


def generation_response(group: ClassicGroup, member: Member) -> JoinGroupResponse:
    """The JoinGroup response for a member of the current generation; only the leader gets the list of
    members.
    """
    is_leader = group.leader == member.member_id
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or "",
        member_id=member.member_id,
        members=members_for_leader(group, group.members.values()) if is_leader else [],
    )


def members_for_leader(group: ClassicGroup, members: Iterable[Member]) -> list[JoinGroupResponseMember]:
    """The member list that the leader needs in order to assign."""
    return [
        JoinGroupResponseMember(member.member_id, member.group_instance_id, member.metadata(group.protocol))
        for member in members
    ]


def expire_sync(group: ClassicGroup, turn: Turn) -> None:
    """Members that joined this generation and never asked for their assignment are gone; the others try
    again.
    """
    lost = [group.members[member_id] for member_id in sorted(group.unsynced)]
    for member in lost:
        remove_member(group, member, turn)
    if lost:
        names = ", ".join(f"'{member.member_id}'" for member in lost)
        prepare_rebalance(group, f"no SyncGroup came from {names} in time", turn)
    elif group.state is GroupState.COMPLETING_REBALANCE:
        prepare_rebalance(group, "its assignment could not be written down in time", turn)


def extend_session(group: ClassicGroup, member: Member, turn: Turn) -> None:
    """Restart the session of a member that was heard of."""
    turn.after(member.session, member.session_timeout_ms, partial(expire_session, group, member))


def expire_session(group: ClassicGroup, member: Member, turn: Turn) -> None:
    """A member was not heard of for too long."""
    if group.members.get(member.member_id) is not member:
        return  # it left, or another took its place
    remove_member(group, member, turn)
    after_removal(group, f"the session of '{member.member_id}' ended", turn)


def expire_pending(group: ClassicGroup, member_id: str, turn: Turn) -> None:
    """A member id was given out and never used."""
    if group.pending.pop(member_id, None) is not None:
        maybe_complete_join(group, turn)


def remove_member(group: ClassicGroup, member: Member, turn: Turn) -> None:
    """Remove a member; a request that waits in its name is answered with UNKNOWN_MEMBER_ID."""
    member.session.cancel()
    parked = member.parked_join
    group.park_join(member, None)
    group.remove(member)
    if parked is not None:
        turn.answer(parked, join_refusal(ErrorCode.UNKNOWN_MEMBER_ID, "", parked.version))
    _refuse_sync(member, ErrorCode.UNKNOWN_MEMBER_ID, turn)


def after_removal(group: ClassicGroup, reason: str, turn: Turn) -> None:
    """A member is gone: the others share what it had."""
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        prepare_rebalance(group, reason, turn)
    else:
        maybe_complete_join(group, turn)


def _refuse_sync(member: Member, error: ErrorCode, turn: Turn) -> bool:
    """Refuse the SyncGroup request of a member that waits for the leader; False if it does not wait."""
    parked = member.release_sync()
    if parked is None:
        return False
    turn.answer(parked, SyncGroupResponse(error_code=error))
    return True
