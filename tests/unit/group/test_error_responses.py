"""Every API says "error" in its own place, in every version that it has."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.group.error_responses import refusal
from ottla.protocol.apis import DECLARED_APIS, Api
from ottla.protocol.codec import decode, encode
from ottla.protocol.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest
from ottla.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from ottla.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

GROUP_APIS = [DECLARED_APIS[key] for key in (8, 9, 11, 12, 13, 14, 15, 16, 28, 42, 47)]
MOVED = ErrorCode.NOT_COORDINATOR

# Those whose errors stand beside what was asked for need something to be asked.
ASKING: dict[type[Any], Any] = {
    OffsetCommitRequest: OffsetCommitRequest(
        topics=[OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition()])]
    ),
    OffsetFetchRequest: OffsetFetchRequest(
        topics=[OffsetFetchRequestTopic("t", [0])], groups=[OffsetFetchRequestGroup("g")]
    ),
    TxnOffsetCommitRequest: TxnOffsetCommitRequest(
        topics=[TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition()])]
    ),
    DescribeGroupsRequest: DescribeGroupsRequest(["g"]),
    DeleteGroupsRequest: DeleteGroupsRequest(["g"]),
}


def errors_in(message: Any) -> set[int]:
    found = set()
    for name in message.__slots__:
        value = getattr(message, name)
        if name == "error_code":
            found.add(value)
        elif isinstance(value, list):
            found |= {error for item in value if hasattr(item, "__slots__") for error in errors_in(item)}
    return found


@pytest.mark.parametrize("api", GROUP_APIS, ids=lambda api: api.key.name)
def test_a_refusal_can_be_written_and_holds_the_error(api: Api) -> None:
    for version in range(api.min_version, api.max_version + 1):
        request = ASKING.get(api.request, api.request())
        response = refusal(request, MOVED, version)
        assert isinstance(response, api.response)
        read = decode(api.response, encode(response, version), version)
        assert MOVED in errors_in(read), version


@pytest.mark.parametrize(
    ("version", "expected"),
    [(1, ErrorCode.COORDINATOR_NOT_AVAILABLE), (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)],
)
def test_old_transactional_producers_are_not_told_that_a_coordinator_loads(
    version: int, expected: ErrorCode
) -> None:
    response = refusal(ASKING[TxnOffsetCommitRequest], ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, version)
    assert errors_in(response) == {expected}
