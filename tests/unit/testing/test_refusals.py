"""Answers that say that everything failed, for every API and version that is served."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.codec import codec
from ottla.protocol.frame import read_response, response_frame
from ottla.testing.refusals import refusal

CODE = ErrorCode.NOT_LEADER_OR_FOLLOWER


def filled(message: type[Any]) -> Any:
    """A message with one item in each of its lists."""
    made = message()
    for name, hint in typing.get_type_hints(message).items():
        for part in (hint, *typing.get_args(hint)):
            if typing.get_origin(part) is list:
                (item,) = typing.get_args(part)
                content = (
                    filled(item)
                    if isinstance(item, type) and dataclasses.is_dataclass(item)
                    else {str: "x", int: 3}.get(item)
                )
                if content is not None:
                    setattr(made, name, [content])
        if hint is str or (name in ("name", "topic") and str in typing.get_args(hint)):
            setattr(made, name, f"the-{name}")
    return made


def codes(message: Any) -> list[int]:
    """Every error code in a message."""
    found: list[int] = []
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        if field.name in ("error_code", "partition_error_code"):
            found.append(value)
        found += [code for each in value for code in codes(each)] if _is_list_of_messages(value) else []
    return found


def _is_list_of_messages(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and dataclasses.is_dataclass(value[0])


@pytest.mark.parametrize(
    "api_key", [ApiKey(key) for key in APIS if key != ApiKey.METADATA], ids=lambda key: str(key.name)
)
def test_every_client_can_be_told_that_its_request_failed(api_key: ApiKey) -> None:
    api = APIS[api_key]
    for version in range(api.min_version, api.max_version + 1):
        written = bytearray()
        request, _ = codec(api.request, version).read(_written(api.request, version, written), 0)
        frame = response_frame(7, api_key, version, refusal(api_key, request, CODE, "as told"))
        correlation_id, response = read_response(api_key, version, memoryview(bytes(frame))[4:])
        assert correlation_id == 7
        assert CODE in codes(response), f"version {version}"


def _written(message: type[Any], version: int, out: bytearray) -> memoryview:
    codec(message, version).write(filled(message), out)
    return memoryview(bytes(out))


def test_items_are_named_as_in_the_request() -> None:
    request = filled(APIS[ApiKey.PRODUCE].request)
    (topic,) = refusal(ApiKey.PRODUCE, request, CODE, "as told").responses
    (partition,) = topic.partition_responses
    assert topic.name == "the-name"
    assert (partition.index, partition.error_code, partition.base_offset) == (0, CODE, -1)
    request = filled(APIS[ApiKey.FETCH].request)
    request.topics[0].partitions[0].partition = 5
    response = refusal(ApiKey.FETCH, request, CODE, "as told")
    assert response.error_code == ErrorCode.NONE
    assert response.responses[0].partitions[0].partition_index == 5


def test_plain_names_and_numbers_are_named_too() -> None:
    coordinators = refusal(
        ApiKey.FIND_COORDINATOR, filled(APIS[ApiKey.FIND_COORDINATOR].request), CODE, "as told"
    ).coordinators
    assert [(each.key, each.error_code) for each in coordinators] == [("x", CODE)]
    groups = refusal(ApiKey.DELETE_GROUPS, filled(APIS[ApiKey.DELETE_GROUPS].request), CODE, "as told")
    assert [each.group_id for each in groups.results] == ["x"]


def test_a_fetch_that_names_nothing_fails_as_a_whole() -> None:
    request = APIS[ApiKey.FETCH].request()
    assert refusal(ApiKey.FETCH, request, CODE, "as told").error_code == CODE
