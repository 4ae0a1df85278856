"""What a client may ask and push, and when; how much is kept."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from ottla.errors import ErrorCode
from ottla.telemetry.clients import instances as module
from ottla.telemetry.clients.instances import ClientInstances, Push, Subscriptions
from ottla.telemetry.clients.otlp_metrics import Point
from ottla.telemetry.clients.subscriptions import Client, subscriptions_of

ID = UUID(int=7)
CLIENT = Client("AAAA", "shop", "librdkafka", "2.6.0", "10.0.0.9", 4711, "User:ann")
NONE, THROTTLED = ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED


class Known:
    """The clients of a broker, under a clock that is set by hand."""

    def __init__(self, **settings: str) -> None:
        self.subscriptions: Subscriptions = ()
        self.subscribe(metrics="*", interval_ms="1000", **settings)
        self.clients = ClientInstances(lambda: self.subscriptions, uuid4, max_bytes=100)
        self.now_ms = 5_000

    def subscribe(self, **settings: str) -> None:
        texts = {name.replace("_", "."): value for name, value in settings.items()}
        self.subscriptions = subscriptions_of({"s": texts})

    def ask(self, instance_id: UUID = ID) -> tuple[ErrorCode, int]:
        error, wanted = self.clients.ask(CLIENT, instance_id, self.now_ms)
        return error, wanted.subscription_id

    def push(self, subscription_id: int, instance_id: UUID = ID, **changed: Any) -> ErrorCode:
        push = Push(subscription_id, False, 0, 10)._replace(**changed)
        return self.clients.push(CLIENT, instance_id, push, self.now_ms)


def test_a_client_pushes_at_once_after_asking_and_then_once_in_an_interval() -> None:
    known = Known()
    error, number = known.ask()
    assert error is NONE
    known.now_ms += 1
    assert known.push(number) is NONE
    known.now_ms += 999
    assert known.push(number) is THROTTLED
    known.now_ms += 1
    assert known.push(number) is NONE
    assert (known.clients.pushes, known.clients.refused) == (2, 1)


def test_a_client_that_asks_too_often_is_held_back() -> None:
    known = Known()
    assert known.ask()[0] is NONE
    known.now_ms += 999
    assert known.ask()[0] is THROTTLED
    known.now_ms += 1
    assert known.ask()[0] is NONE


def test_a_changed_subscription_sends_the_client_back_to_ask_at_once() -> None:
    known = Known()
    _, old = known.ask()
    known.subscribe(metrics="org.a")
    known.now_ms += 10
    assert known.push(old) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    error, new = known.ask()
    assert error is NONE
    assert new != old
    known.now_ms += 1
    assert known.push(new) is NONE


def test_a_push_says_what_is_wrong_with_it() -> None:
    known = Known()
    _, number = known.ask()
    known.now_ms += 1
    assert known.push(number, compression_type=9) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert known.ask()[0] is NONE
    known.now_ms += 1
    assert known.push(number, size_bytes=101) is ErrorCode.TELEMETRY_TOO_LARGE
    known.now_ms += 1000
    assert known.push(number, size_bytes=100, compression_type=4) is NONE


def test_the_last_push_may_come_early_and_is_the_last() -> None:
    known = Known()
    _, number = known.ask()
    known.now_ms += 1
    assert known.push(number) is NONE
    assert known.push(number, is_terminating=True) is NONE
    known.now_ms += 5000
    assert known.push(number) is ErrorCode.INVALID_REQUEST
    (client,) = known.clients
    assert client.is_terminating


def test_a_broker_that_does_not_know_the_client_takes_it_over() -> None:
    before, after = Known(), Known()
    _, number = before.ask()
    assert after.push(number) is NONE
    assert after.clients.find(ID) is not None


def test_the_metrics_of_the_latest_push_are_kept_until_the_client_is_silent_for_long() -> None:
    known = Known()
    known.ask()
    known.clients.keep(ID, [Point("a", "gauge", "", (), 1.0)], 2)
    (client,) = known.clients
    assert (len(client.points), client.hidden, known.clients.point_count) == (1, 2, 1)
    known.clients.keep(ID, [], 0)
    assert known.clients.point_count == 0
    known.now_ms += 900_001
    known.ask(UUID(int=8))
    assert [each.instance_id for each in known.clients] == [UUID(int=8)]


def test_memory_is_bounded_by_forgetting_who_was_heard_of_least_recently(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_MOST_CLIENTS", 3)
    monkeypatch.setattr(module, "_MOST_POINTS", 4)
    known, points = Known(), [Point("a", "gauge", "", (), 1.0)] * 2
    for number in range(3):
        known.ask(UUID(int=number))
        known.clients.keep(UUID(int=number), points, 0)
    assert [len(each.points) for each in known.clients] == [0, 2, 2]
    assert known.clients.point_count == 4
    known.ask(UUID(int=9))
    assert [each.instance_id.int for each in known.clients] == [1, 2, 9]
    assert known.clients.point_count == 4
    known.clients.keep(UUID(int=0), points, 0)
    assert known.clients.point_count == 4
