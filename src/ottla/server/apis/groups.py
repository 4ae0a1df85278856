"""Groups: JoinGroup 0 to 9, SyncGroup 0 to 5, Heartbeat 0 to 4, LeaveGroup 0 to 5, OffsetDelete 0, DescribeGroups 0 to 6,
ListGroups 0 to 5, DeleteGroups 0 to 2.

Each request goes to the shard of its group; requests that name several groups are taken apart here and their answers
put together again.
"""

from collections.abc import Awaitable
from inspect import isawaitable
from typing import Any

from ottla.errors import ErrorCode, KafkaError
from ottla.group.coordinator import refusal
from ottla.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from ottla.server.dispatch import RequestContext


def ask_coordinator(context: RequestContext, request: Any) -> Any | Awaitable[Any]:
    """Answer a request about one group, which it names as `group_id`."""
    return ask_shard(context, request.group_id, request)


def ask_shard(context: RequestContext, group_id: str, request: Any) -> Any | Awaitable[Any]:
    """The answer of the group's coordinator, or a refusal in the request's own words."""
    if not group_id:
        return refusal(request, ErrorCode.INVALID_GROUP_ID, context.version)
    try:
        shard = context.services.coordinators.shard_of(group_id)
        client_host = "/" + context.peer.rpartition(":")[0]
        answer = shard.ask(request, context.version, context.header.client_id or "", client_host)
    except KafkaError as error:
        return refusal(request, error.code, context.version)
    return _await(context, request, answer) if isawaitable(answer) else answer


async def _await(context: RequestContext, request: Any, answer: Awaitable[Any]) -> Any:
    try:
        return await answer
    except KafkaError as error:
        return refusal(request, error.code, context.version)


async def ask_shard_now(context: RequestContext, group_id: str, request: Any) -> Any:
    """The same, for handlers that put several answers together."""
    answer = ask_shard(context, group_id, request)
    return await answer if isawaitable(answer) else answer


async def describe_groups(context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """State and members of each group."""
    response = DescribeGroupsResponse()
    for group_id in request.groups:
        one = DescribeGroupsRequest([group_id], request.include_authorized_operations)
        response.groups += (await ask_shard_now(context, group_id, one)).groups
    return response


async def list_groups(context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """The groups that this broker coordinates."""
    response = ListGroupsResponse()
    for shard in context.services.coordinators.shards:
        try:
            answer = shard.ask(request, context.version, "", "")
        except KafkaError as error:
            return ListGroupsResponse(error_code=error.code)
        response.groups += (await answer if isawaitable(answer) else answer).groups
    return response


async def delete_groups(context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Delete groups without members, with their offsets."""
    response = DeleteGroupsResponse()
    for group_id in request.groups_names:
        one = DeleteGroupsRequest([group_id])
        response.results += (await ask_shard_now(context, group_id, one)).results
    return response
