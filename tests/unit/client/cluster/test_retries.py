from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from ottla.client.cluster.retries import settle
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.connection import CannotConnectError
from ottla.wire.stream import ConnectionLostError

Script = list[dict[str, int | ErrorCode] | Exception]


def settled(
    script: Script, *, repeatable: bool, timeout_ms: int = 10_000
) -> tuple[dict[str, object], list[list[str]]]:
    """Settle a and b with scripted answers; what came of it, and what each attempt was asked for."""
    asked: list[list[str]] = []

    async def attempt(pending: Mapping[str, None], left_ms: int) -> Mapping[str, int | KafkaError]:
        assert 0 < left_ms <= timeout_ms
        asked.append(list(pending))
        answers = script[min(len(asked), len(script)) - 1]
        if isinstance(answers, Exception):
            raise answers
        return {k: KafkaError(v) if isinstance(v, ErrorCode) else v for k, v in answers.items()}

    async def body() -> dict[str, int | KafkaError]:
        return await settle({"a": None, "b": None}, attempt, repeatable=repeatable, timeout_ms=timeout_ms)

    outcomes = asyncio.run(body())
    return {k: v.code if isinstance(v, KafkaError) else v for k, v in outcomes.items()}, asked


def test_only_what_failed_for_a_while_is_asked_again() -> None:
    script: Script = [{"a": 1, "b": ErrorCode.LEADER_NOT_AVAILABLE}, {"b": 2}]
    assert settled(script, repeatable=True) == ({"a": 1, "b": 2}, [["a", "b"], ["b"]])


def test_an_error_that_does_not_pass_is_final() -> None:
    script: Script = [{"a": ErrorCode.INVALID_CONFIG, "b": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}]
    outcomes, asked = settled(script, repeatable=True)
    assert outcomes == {"a": ErrorCode.INVALID_CONFIG, "b": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert len(asked) == 1


def test_what_may_have_been_done_is_not_done_twice() -> None:
    script: Script = [{"a": ErrorCode.REQUEST_TIMED_OUT, "b": ErrorCode.NOT_CONTROLLER}, {"b": 2}]
    assert settled(script, repeatable=False) == (
        {"a": ErrorCode.REQUEST_TIMED_OUT, "b": 2},
        [["a", "b"], ["b"]],
    )


def test_a_lost_connection_is_tried_again_only_if_the_request_is_repeatable() -> None:
    script: Script = [ConnectionLostError("gone"), {"a": 1, "b": 2}]
    assert settled(script, repeatable=True)[0] == {"a": 1, "b": 2}
    with pytest.raises(ConnectionLostError, match="gone"):
        settled(script, repeatable=False)


def test_a_connection_that_was_never_made_is_tried_again_in_any_case() -> None:
    assert settled([CannotConnectError("refused"), {"a": 1, "b": 2}], repeatable=False)[0] == {"a": 1, "b": 2}


def test_when_the_time_is_over_the_last_errors_are_the_answer() -> None:
    script: Script = [{"a": 1, "b": ErrorCode.LEADER_NOT_AVAILABLE}]
    assert settled(script, repeatable=True, timeout_ms=120)[0] == {
        "a": 1,
        "b": ErrorCode.LEADER_NOT_AVAILABLE,
    }
    with pytest.raises(CannotConnectError):
        settled([CannotConnectError("refused")], repeatable=True, timeout_ms=120)


def test_a_thing_the_broker_left_out_of_its_answer_is_an_error() -> None:
    assert settled([{"a": 1}], repeatable=True)[0] == {"a": 1, "b": ErrorCode.UNKNOWN_SERVER_ERROR}
