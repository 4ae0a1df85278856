"""The life of a member of a classic group: JoinGroup (key 11, versions 0 to 9), Heartbeat (12, 0 to 4),
LeaveGroup (13, 0 to 5), SyncGroup (14, 0 to 5).

KIP-62 the rebalance timeout (join v1), KIP-394 the member id before membership (join v4), KIP-345 static
members (join v5, sync and heartbeat v3) and leaving in batches (leave v3), KIP-482 flexible versions (join
v6; the others v4), KIP-559 the protocol type and name beside the assignment (join v7, sync v5), KIP-800
reasons (join v8, leave v5), KIP-814 static leaders that need not assign again (join v9).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from ottla.protocol.codec import (
    Boolean,
    Bytes,
    Int16,
    Int32,
    String,
    message,
    nullable_since,
    since,
    struct,
    until,
)

# The version of JoinGroup whose clients come back with the member id that MEMBER_ID_REQUIRED gives them.
MEMBER_ID_REQUIRED_SINCE: Final = 4


@struct
class JoinGroupRequestProtocol:
    name: String = ""
    metadata: Bytes = b""


@message(key=11, versions=(0, 9), flexible=6)
class JoinGroupRequest:
    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Annotated[Int32, since(1)] = -1  # version 0: the session timeout counts
    member_id: String = ""
    group_instance_id: Annotated[String | None, since(5)] = None
    protocol_type: String = ""
    protocols: list[JoinGroupRequestProtocol] = field(default_factory=list)
    reason: Annotated[String | None, since(8)] = None


@struct
class JoinGroupResponseMember:
    member_id: String = ""
    group_instance_id: Annotated[String | None, since(5)] = None
    metadata: Bytes = b""


@message(key=11, versions=(0, 9), flexible=6)
class JoinGroupResponse:
    throttle_time_ms: Annotated[Int32, since(2)] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[String | None, since(7)] = None
    protocol_name: Annotated[String | None, nullable_since(7)] = ""
    leader: String = ""
    skip_assignment: Annotated[Boolean, since(9)] = False
    member_id: String = ""
    members: list[JoinGroupResponseMember] = field(default_factory=list)  # only in the leader's response


@message(key=12, versions=(0, 4), flexible=4)
class HeartbeatRequest:
    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: Annotated[String | None, since(3)] = None


@message(key=12, versions=(0, 4), flexible=4)
class HeartbeatResponse:
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16 = 0


@struct
class MemberIdentity:
    member_id: String = ""
    group_instance_id: String | None = None
    reason: Annotated[String | None, since(5)] = None


@message(key=13, versions=(0, 5), flexible=4)
class LeaveGroupRequest:
    group_id: String = ""
    member_id: Annotated[String, until(2)] = ""
    members: Annotated[list[MemberIdentity], since(3)] = field(default_factory=list)


@struct
class MemberResponse:
    member_id: String = ""
    group_instance_id: String | None = ""
    error_code: Int16 = 0


@message(key=13, versions=(0, 5), flexible=4)
class LeaveGroupResponse:
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16 = 0
    members: Annotated[list[MemberResponse], since(3)] = field(default_factory=list)


@struct
class SyncGroupRequestAssignment:
    member_id: String = ""
    assignment: Bytes = b""


@message(key=14, versions=(0, 5), flexible=4)
class SyncGroupRequest:
    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: Annotated[String | None, since(3)] = None
    protocol_type: Annotated[String | None, since(5)] = None
    protocol_name: Annotated[String | None, since(5)] = None
    assignments: list[SyncGroupRequestAssignment] = field(default_factory=list)  # only the leader sends any


@message(key=14, versions=(0, 5), flexible=4)
class SyncGroupResponse:
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[String | None, since(5)] = None
    protocol_name: Annotated[String | None, since(5)] = None
    assignment: Bytes = b""
