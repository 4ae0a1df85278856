from __future__ import annotations

from collections.abc import Mapping

import pytest

from ottla.client.cluster.machine.conversation import Ask, Conversation, Pause, Steps
from ottla.client.cluster.machine.known_cluster import KnownCluster
from ottla.client.cluster.machine.retries import Inquiry, Patience, settled
from ottla.errors import ErrorCode, KafkaError
from ottla.model import Address
from ottla.wire.failures import CannotConnectError, ConnectionLostError

Script = list[dict[str, int | ErrorCode] | Exception]
PAUSE_MS = 50


def settling(
    script: Script, *, repeatable: bool, timeout_ms: int = 10_000, fails_fast: bool = False
) -> tuple[dict[str, object], list[list[str]]]:
    """Settle a and b with scripted answers; the outcomes, and the items of each attempt. The clock stands but
    for pauses.
    """
    asked: list[list[str]] = []

    def attempt(pending: Mapping[str, None], left_ms: int) -> Steps[Mapping[str, int | KafkaError]]:
        assert 0 < left_ms <= timeout_ms
        asked.append(list(pending))
        answers = yield Ask(None, "request", left_ms)
        return {k: KafkaError(v) if isinstance(v, ErrorCode) else v for k, v in answers.items()}

    inquiry: Inquiry[str, None, int] = Inquiry({"a": None, "b": None}, attempt, repeatable)
    known = KnownCluster([Address("localhost", 9092)])
    patience = Patience(timeout_ms, lambda failures: PAUSE_MS, fails_fast)
    now_ms = 1_000
    conversation = Conversation(known, settled(known, inquiry, patience), now_ms)
    while (want := conversation.wants) is not None:
        if isinstance(want, Pause):
            now_ms += want.wait_ms
            conversation.heard(None, now_ms)
            continue
        answer = script[min(len(asked), len(script)) - 1]
        if isinstance(answer, Exception):
            conversation.failed(answer, now_ms)
        else:
            conversation.heard(answer, now_ms)
    outcomes = conversation.result
    return {k: v.code if isinstance(v, KafkaError) else v for k, v in outcomes.items()}, asked


def test_only_what_failed_for_a_while_is_asked_again() -> None:
    script: Script = [{"a": 1, "b": ErrorCode.LEADER_NOT_AVAILABLE}, {"b": 2}]
    assert settling(script, repeatable=True) == ({"a": 1, "b": 2}, [["a", "b"], ["b"]])


def test_an_error_that_does_not_pass_is_final() -> None:
    script: Script = [{"a": ErrorCode.INVALID_CONFIG, "b": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}]
    outcomes, asked = settling(script, repeatable=True)
    assert outcomes == {"a": ErrorCode.INVALID_CONFIG, "b": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert len(asked) == 1


def test_what_may_have_been_done_is_not_done_twice() -> None:
    script: Script = [{"a": ErrorCode.REQUEST_TIMED_OUT, "b": ErrorCode.NOT_CONTROLLER}, {"b": 2}]
    assert settling(script, repeatable=False) == (
        {"a": ErrorCode.REQUEST_TIMED_OUT, "b": 2},
        [["a", "b"], ["b"]],
    )


def test_a_lost_connection_is_tried_again_only_if_the_request_is_repeatable() -> None:
    script: Script = [ConnectionLostError("gone"), {"a": 1, "b": 2}]
    assert settling(script, repeatable=True)[0] == {"a": 1, "b": 2}
    with pytest.raises(ConnectionLostError, match="gone"):
        settling(script, repeatable=False)


def test_a_connection_that_was_never_made_is_tried_again_in_any_case() -> None:
    assert settling([CannotConnectError("refused"), {"a": 1, "b": 2}], repeatable=False)[0] == {
        "a": 1,
        "b": 2,
    }


def test_when_the_time_is_over_the_last_errors_are_the_answer() -> None:
    script: Script = [{"a": 1, "b": ErrorCode.LEADER_NOT_AVAILABLE}]
    assert settling(script, repeatable=True, timeout_ms=120)[0] == {
        "a": 1,
        "b": ErrorCode.LEADER_NOT_AVAILABLE,
    }
    with pytest.raises(CannotConnectError):
        settling([CannotConnectError("refused")], repeatable=True, timeout_ms=120)


def test_a_thing_the_broker_left_out_of_its_answer_is_an_error() -> None:
    assert settling([{"a": 1}], repeatable=True)[0] == {"a": 1, "b": ErrorCode.UNKNOWN_SERVER_ERROR}


def test_a_cluster_that_never_answered_is_not_waited_for_if_that_is_wanted() -> None:
    script: Script = [CannotConnectError("refused"), {"a": 1, "b": 2}]
    assert settling(script, repeatable=True)[0] == {"a": 1, "b": 2}
    with pytest.raises(CannotConnectError, match="refused"):
        settling(script, repeatable=True, fails_fast=True)
    known_by_then: Script = [{"a": 1, "b": ErrorCode.LEADER_NOT_AVAILABLE}, *script]
    assert settling(known_by_then, repeatable=True, fails_fast=True)[0] == {"a": 1, "b": 2}


def test_without_items_nothing_is_asked() -> None:
    def attempt(pending: Mapping[str, None], left_ms: int) -> Steps[Mapping[str, int | KafkaError]]:
        raise AssertionError
        yield

    known = KnownCluster([])
    steps = settled(known, Inquiry({}, attempt), Patience(1, lambda failures: 1))
    conversation = Conversation(known, steps, 0)
    assert conversation.wants is None
    assert conversation.result == {}
