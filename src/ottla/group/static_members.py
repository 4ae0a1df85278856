"""Static members (KIP-345): a restarted member takes its own former place, and its former self is fenced.

In a stable group that changes nothing but a name, the group rests: the new member id goes into the group's
record, and the assignment is given again to the member with that id. A leader that comes back must not
assign: from version 9 on the response says so (KIP-814); a response of an older version names the former
leader's id, so that the member takes itself for a follower. Kafka rests as long as the chosen protocol stays
the same, even if the subscription is another one; here a consumer that comes back with other topics makes the
group rebalance. Other parts of a subscription differ after every restart (what the member owned, and in which
generation), so only topics are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.errors import ErrorCode
from ottla.group.classic import ClassicGroup, GroupState
from ottla.group.consumer_protocol import subscribed_topics
from ottla.group.decision import GroupRequestContext, Turn
from ottla.group.error_responses import join_refusal
from ottla.group.member import Member
from ottla.group.rebalance import extend_session, members_for_leader
from ottla.group.records import group_record
from ottla.protocol.codec import first_version
from ottla.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse

_SKIP_ASSIGNMENT_SINCE: Final = first_version(JoinGroupResponse, "skip_assignment")


def keeps_its_place(group: ClassicGroup, former: Member, member: Member) -> bool:
    """Whether the group can rest while a member comes back."""
    if group.state is not GroupState.STABLE or not _would_speak_the_same(group, former, member):
        return False
    before, after = former.metadata(group.protocol), member.metadata(group.protocol)
    if not group.uses_consumer_protocol:
        return before == after
    topics = subscribed_topics(after)
    return before == after or (topics is not None and topics == subscribed_topics(before))


def _would_speak_the_same(group: ClassicGroup, former: Member, member: Member) -> bool:
    protocols = former.protocols
    group.update_protocols(former, member.protocols)
    try:
        return group.voted_protocol() == group.protocol
    finally:
        group.update_protocols(former, protocols)


def replace_at_rest(
    group: ClassicGroup, former: Member, member: Member, context: GroupRequestContext, turn: Turn
) -> JoinGroupResponse:
    """Put a member into its former place by a record; until that is in the log, the former one holds it."""
    is_leader = group.leader == former.member_id
    leader = member.member_id if is_leader else group.leader
    member.inherit(former)
    group.expect(member)
    members = list(_with(group, former, member))
    value = group.value(((one, one.assignment) for one in members), group.state_timestamp_ms, leader)
    turn.records.append(group_record(group.group_id, value))
    extend_session(group, member, turn)
    knows_skipping = context.version >= _SKIP_ASSIGNMENT_SINCE
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=(leader if knows_skipping else group.leader) or "",
        skip_assignment=is_leader and knows_skipping,
        member_id=member.member_id,
        members=members_for_leader(group, members) if is_leader and knows_skipping else [],
    )


def _with(group: ClassicGroup, former: Member, member: Member) -> Iterator[Member]:
    return (member if one is former else one for one in group.members.values())


def replace_in_motion(group: ClassicGroup, former: Member, member: Member, turn: Turn) -> None:
    """Put a member into its former place while the group rebalances, or because it must; fence the former
    one.
    """
    parked, parked_sync = former.parked_join, former.parked_sync
    if parked is not None:
        refused = join_refusal(ErrorCode.FENCED_INSTANCE_ID, former.member_id, parked.version)
        turn.answer(parked, refused)
    if parked_sync is not None:
        turn.answer(parked_sync, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
    former.session.cancel()
    member.inherit(former)
    group.replace(former, member)
