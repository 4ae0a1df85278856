"""Server-Sent Events of the gateway, over real sockets: GTW-1."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import pytest
from tests.integration.gateway_place import DEADLINE_S, GatewayPlace, gateway_place

import ottla.testing
from ottla.localcluster.waiting import wait_until
from ottla.testing.embedded_broker import EmbeddedBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker() as started:
        yield started


@pytest.fixture(scope="module")
def gateway(broker: EmbeddedBroker) -> Iterator[GatewayPlace]:
    with gateway_place(broker.bootstrap) as place:
        yield place


class Events:
    """Reads a stream as a browser's EventSource does."""

    def __init__(self, answer: HTTPResponse) -> None:
        self._answer = answer
        self.last_id = ""

    def next(self) -> dict[str, Any] | None:
        """The JSON of the next event; None at the end of the stream."""
        data, name = "", "message"
        while line := self._answer.readline():
            field, _, value = line.decode().rstrip("\n").partition(": ")
            if field == "id":
                self.last_id = value
            elif field == "event":
                name = value
            elif field == "data":
                data = value
            elif not field and not value and data:
                return {"event": name, **json.loads(data)}
        return None

    def values(self, count: int) -> list[Any]:
        return [event["value"] for _ in range(count) if (event := self.next()) is not None]


@contextmanager
def streaming(place: GatewayPlace, path: str, **headers: str) -> Iterator[Events]:
    connection = HTTPConnection("127.0.0.1", place.port, timeout=DEADLINE_S)
    try:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("GET", path, headers={"Accept": "text/event-stream", **sent})
        answer = connection.getresponse()
        assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream")
        events = Events(answer)
        assert answer.readline().startswith(b"retry")
        assert answer.readline().startswith(b"id: ")
        yield events
    finally:
        connection.close()


def test_a_stream_shows_records_as_they_come_and_goes_on_after_a_break(
    gateway: GatewayPlace, broker: EmbeddedBroker
) -> None:
    topic = broker.create_topic("tail", 2)
    gateway.produce(topic, "before")
    with streaming(gateway, f"/topics/{topic}/events") as events:
        gateway.produce(topic, {"n": 1})
        gateway.produce(topic, {"n": 2}, partition=1)
        first, second = events.next(), events.next()
        assert first is not None
        assert second is not None
        assert {(each["partition"], each["value"]["n"]) for each in (first, second)} == {(0, 1), (1, 2)}
        last_id = events.last_id
    assert last_id == "0:2,1:1"
    gateway.produce(topic, "missed")
    with streaming(gateway, f"/topics/{topic}/events", Last_Event_ID=last_id) as events:
        assert events.values(1) == ["missed"]


def test_a_stream_begins_where_it_is_told(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("tail-from", 2)
    gateway.produce(topic, "a", "b", partition=1)
    gateway.produce(topic, "other")
    with streaming(gateway, f"/topics/{topic}/events?from=earliest&partition=1") as events:
        assert events.values(2) == ["a", "b"]
    with streaming(gateway, f"/topics/{topic}/events?from=2020-01-01T00:00:00Z") as events:
        assert sorted(events.values(3)) == ["a", "b", "other"]


@pytest.mark.parametrize(
    ("path", "headers", "error"),
    [
        ("/topics/none/events", {}, (404, 40401)),
        ("/topics/tailed/events?partition=7", {}, (404, 40402)),
        ("/topics/tailed/events?from=5", {}, (400, 400)),
        ("/topics/tailed/events?from=noon", {}, (400, 400)),
        ("/topics/tailed/events", {"Last-Event-ID": "x"}, (400, 400)),
        ("/topics/tailed/events", {"Last-Event-ID": "0:99"}, (416, 41601)),
        ("/topics/tailed/events", {"Accept": "application/xml"}, (406, 406)),
        ("/topics/wide/events", {}, (422, 422)),
    ],
)
def test_a_stream_that_cannot_be_is_refused(
    gateway: GatewayPlace, broker: EmbeddedBroker, path: str, headers: dict[str, str], error: tuple[int, int]
) -> None:
    if "tailed" not in broker.topics():
        broker.create_topic("tailed")
        broker.create_topic("wide", 101)
    assert gateway.call("GET", path, headers=headers).error == error


def test_streams_are_counted_and_given_back(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("few-tails")
    with gateway_place(broker.bootstrap, max_readers=1, ping_interval_ms=50) as small:
        with streaming(small, f"/topics/{topic}/events"):
            assert small.call("GET", f"/topics/{topic}/events").status == 503
        reading = f"/topics/{topic}/partitions/0/records?from=0&wait=1"
        wait_until(lambda: small.call("GET", reading).status == 200, "the stream's place is free again")


def test_a_quiet_stream_says_that_it_is_there_and_ends_with_the_gateway(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("quiet")
    with gateway_place(broker.bootstrap, ping_interval_ms=50) as place:
        connection = HTTPConnection("127.0.0.1", place.port, timeout=DEADLINE_S)
        connection.request("GET", f"/topics/{topic}/events")
        answer = connection.getresponse()
        lines = iter(answer.readline, b"")
        assert any(line == b": still here\n" for line in lines)
    # The rest is nothing else, and it has an end.
    assert answer.read().replace(b": still here\n\n", b"").strip() == b""
    connection.close()
