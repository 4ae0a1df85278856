"""The answer to a request that cannot be served: each API says "error" in its own place.

The shell uses the same answers for what it must refuse itself: while a coordinator loads
(COORDINATOR_LOAD_IN_PROGRESS), after it moved (NOT_COORDINATOR), and when a decision could not be written
(COORDINATOR_NOT_AVAILABLE).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ottla.errors import ErrorCode
from ottla.model import NO_OFFSET
from ottla.protocol.codec import first_nullable_version, first_version
from ottla.protocol.messages.group_admin import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from ottla.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from ottla.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from ottla.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_NULL_PROTOCOL_SINCE: Final = first_nullable_version(JoinGroupResponse, "protocol_name")
_OFFSET_FETCH_ERROR_SINCE: Final = first_version(OffsetFetchResponse, "error_code")
_SEVERAL_GROUPS_SINCE: Final = first_version(OffsetFetchResponse, "groups")
# Producers that send older versions may crash on COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296).
_LOADING_KNOWN_SINCE: Final = first_version(TxnOffsetCommitRequestPartition, "committed_leader_epoch")


def refusal(request: Any, error: ErrorCode, version: int) -> Any:
    """The response to a group request that says nothing but an error."""
    return _REFUSALS[type(request)](request, error, version)


def join_refusal(error: ErrorCode, member_id: str, version: int) -> JoinGroupResponse:
    """The answer to a JoinGroup; `member_id` is the one that the member should go on with."""
    name = None if version >= _NULL_PROTOCOL_SINCE else ""
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=name)


def _join(request: JoinGroupRequest, error: ErrorCode, version: int) -> JoinGroupResponse:
    return join_refusal(error, request.member_id, version)


def _commit(request: OffsetCommitRequest, error: ErrorCode, version: int) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [
                    OffsetCommitResponsePartition(partition.partition_index, error)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _commit_in_transaction(
    request: TxnOffsetCommitRequest, error: ErrorCode, version: int
) -> TxnOffsetCommitResponse:
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_KNOWN_SINCE:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                [TxnOffsetCommitResponsePartition(item.partition_index, error) for item in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _fetch(request: OffsetFetchRequest, error: ErrorCode, version: int) -> OffsetFetchResponse:
    if version >= _SEVERAL_GROUPS_SINCE:
        groups = [OffsetFetchResponseGroup(group.group_id, error_code=error) for group in request.groups]
        return OffsetFetchResponse(groups=groups)
    if version >= _OFFSET_FETCH_ERROR_SINCE:
        return OffsetFetchResponse(error_code=error)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(partition, NO_OFFSET, error_code=error)
                    for partition in topic.partition_indexes
                ],
            )
            for topic in request.topics or []
        ]
    )


def _describe(request: DescribeGroupsRequest, error: ErrorCode, version: int) -> DescribeGroupsResponse:
    groups = [DescribedGroup(error_code=error, group_id=group_id) for group_id in request.groups]
    return DescribeGroupsResponse(groups=groups)


def _delete(request: DeleteGroupsRequest, error: ErrorCode, version: int) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeletableGroupResult(name, error) for name in request.groups_names])


_REFUSALS: Final[dict[type[Any], Callable[[Any, ErrorCode, int], Any]]] = {
    JoinGroupRequest: _join,
    SyncGroupRequest: lambda request, error, version: SyncGroupResponse(error_code=error),
    HeartbeatRequest: lambda request, error, version: HeartbeatResponse(error_code=error),
    LeaveGroupRequest: lambda request, error, version: LeaveGroupResponse(error_code=error),
    OffsetCommitRequest: _commit,
    TxnOffsetCommitRequest: _commit_in_transaction,
    OffsetFetchRequest: _fetch,
    OffsetDeleteRequest: lambda request, error, version: OffsetDeleteResponse(error_code=error),
    DescribeGroupsRequest: _describe,
    ListGroupsRequest: lambda request, error, version: ListGroupsResponse(error_code=error),
    DeleteGroupsRequest: _delete,
}
