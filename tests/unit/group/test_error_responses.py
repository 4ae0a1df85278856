"""Every API says "error" in its own place, in every version that it has."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.group.error_responses import refusal
from ottla.protocol.apis import APIS, Api
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

GROUP_APIS = [APIS[key] for key in (8, 9, 11, 12, 13, 14, 15, 16, 42, 47)]
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

# Those whose errors stand beside what was asked for need something to be asked.
ASKING: dict[type[Any], Any] = {
    OffsetCommitRequest: OffsetCommitRequest(
        topics=[OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition()])]
    ),
    OffsetFetchRequest: OffsetFetchRequest(
        topics=[OffsetFetchRequestTopic("t", [0])], groups=[OffsetFetchRequestGroup("g")]
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
        response = refusal(request, LOADING, version)
        assert isinstance(response, api.response)
        read = decode(api.response, encode(response, version), version)
        assert LOADING in errors_in(read), version
