"""Groups from outside: DescribeGroups (key 15, versions 0 to 6), ListGroups (16, 0 to 5), DeleteGroups (42, 0
to 2).

KIP-430 authorized operations (describe v3), KIP-345 static members (describe v4), KIP-482 flexible versions
(describe v5, list v3, delete v2), KIP-1043 an error for a group that is not there (describe v6), KIP-518
states (list v4), KIP-848 types (list v5), KIP-229 deletion.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from ottla.protocol.codec import Boolean, Bytes, Int16, Int32, String, message, since, struct


@message(key=15, versions=(0, 6), flexible=5)
class DescribeGroupsRequest:
    groups: list[String] = field(default_factory=list)
    include_authorized_operations: Annotated[Boolean, since(3)] = False


@struct
class DescribedGroupMember:
    member_id: String = ""
    group_instance_id: Annotated[String | None, since(4)] = None
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


@struct
class DescribedGroup:
    error_code: Int16 = 0
    error_message: Annotated[String | None, since(6)] = None
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: list[DescribedGroupMember] = field(default_factory=list)
    authorized_operations: Annotated[Int32, since(3)] = -2147483648


@message(key=15, versions=(0, 6), flexible=5)
class DescribeGroupsResponse:
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    groups: list[DescribedGroup] = field(default_factory=list)


@message(key=16, versions=(0, 5), flexible=3)
class ListGroupsRequest:
    states_filter: Annotated[list[String], since(4)] = field(default_factory=list)  # empty: all
    types_filter: Annotated[list[String], since(5)] = field(default_factory=list)  # likewise


@struct
class ListedGroup:
    group_id: String = ""
    protocol_type: String = ""
    group_state: Annotated[String, since(4)] = ""
    group_type: Annotated[String, since(5)] = ""


@message(key=16, versions=(0, 5), flexible=3)
class ListGroupsResponse:
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16 = 0
    groups: list[ListedGroup] = field(default_factory=list)


@message(key=42, versions=(0, 2), flexible=2)
class DeleteGroupsRequest:
    groups_names: list[String] = field(default_factory=list)


@struct
class DeletableGroupResult:
    group_id: String = ""
    error_code: Int16 = 0


@message(key=42, versions=(0, 2), flexible=2)
class DeleteGroupsResponse:
    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = field(default_factory=list)
