"""Groups: JoinGroup 0 to 9, SyncGroup 0 to 5, Heartbeat 0 to 4, LeaveGroup 0 to 5, DescribeGroups 0 to 6,
ListGroups 0 to 5, DeleteGroups 0 to 2.

KIP-345 static members, KIP-394 member ids before joining, KIP-800 reasons of joining and leaving, KIP-518
groups by state.

Each request goes to the shard of its group; requests that name several groups are taken apart here and their
answers put together again.
"""

from collections.abc import Awaitable
from functools import lru_cache
from inspect import isawaitable
from struct import Struct
from typing import Any, Final

from ottla.errors import KafkaError
from ottla.group.coordinator import refusal
from ottla.protocol.apis import ApiKey
from ottla.protocol.frame import SIZE_BYTES, response_frame
from ottla.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from ottla.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from ottla.server.answers.send_queue import Part
from ottla.server.gate.handlers import ApiFamily, RequestContext

api = ApiFamily()

_CORRELATION_ID: Final = Struct(">i")
_CORRELATION_ID_POSITION: Final = SIZE_BYTES


@api.handles(JoinGroupRequest, SyncGroupRequest, LeaveGroupRequest)
def ask_coordinator(context: RequestContext, request: Any) -> Any:
    """Answer a request about one group, which it names as `group_id`."""
    return ask_shard(context, request.group_id, request)


@api.handles(HeartbeatRequest)
def heartbeat(context: RequestContext, request: HeartbeatRequest) -> list[Part] | HeartbeatResponse:
    """A sign of life. By far the most frequent request about groups, and all that is answered is one of few
    errors.
    """
    try:
        error = context.services.coordinators.shard_of(request.group_id).heartbeat(request)
    except KafkaError as refused:
        error = refused.code
    if context.services.quotas.limits_time:
        return HeartbeatResponse(error_code=error)
    frame = bytearray(_heartbeat_frame(context.version, error))
    _CORRELATION_ID.pack_into(frame, _CORRELATION_ID_POSITION, context.header.correlation_id)
    return [frame]


@lru_cache
def _heartbeat_frame(version: int, error: int) -> bytes:
    """The whole answer, but for the correlation id."""
    return bytes(response_frame(0, ApiKey.HEARTBEAT, version, HeartbeatResponse(error_code=error)))


def ask_shard(context: RequestContext, group_id: str, request: Any) -> Any:
    """The answer of the group's coordinator, or a refusal in the request's own words; or what to await."""
    try:
        shard = context.services.coordinators.shard_of(group_id)
        client_host = "/" + context.session.host
        answer = shard.ask(request, context.version, context.header.client_id or "", client_host)
    except KafkaError as error:
        return refusal(request, error.code, context.version)
    return _await(context, request, answer) if isawaitable(answer) else answer


async def _await(context: RequestContext, request: Any, answer: Awaitable[Any]) -> Any:
    try:
        return await answer
    except KafkaError as error:
        return refusal(request, error.code, context.version)


async def answered(answer: Any) -> Any:
    """An answer of a coordinator that may have to be awaited."""
    return await answer if isawaitable(answer) else answer


@api.handles(DeleteGroupsRequest)
async def delete_groups(context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Delete groups without members, with their offsets."""
    response = DeleteGroupsResponse()
    for group_id in dict.fromkeys(request.groups_names):
        response.results += (
            await answered(ask_shard(context, group_id, DeleteGroupsRequest([group_id])))
        ).results
    return response


@api.handles(DescribeGroupsRequest)
async def describe_groups(context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """State and members of each group."""
    response = DescribeGroupsResponse()
    for group_id in request.groups:
        one = DescribeGroupsRequest([group_id], request.include_authorized_operations)
        response.groups += (await answered(ask_shard(context, group_id, one))).groups
    return response


@api.handles(ListGroupsRequest)
async def list_groups(context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """The groups that this broker coordinates; an error while it does not know all of them yet."""
    response = ListGroupsResponse()
    for shard in context.services.coordinators.shards:
        try:
            response.groups += (await answered(shard.ask(request, context.version, "", ""))).groups
        except KafkaError as error:
            return ListGroupsResponse(error_code=error.code)
    return response
