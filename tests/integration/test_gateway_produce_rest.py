"""Produce over REST beyond v2: Idempotency-Key, topics that come into being, instances of other gateways."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.gateway_place import GatewayPlace, Reply, gateway_place

import ottla.testing
from ottla.localcluster.waiting import wait_until
from ottla.testing.embedded_broker import EmbeddedBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker() as started:
        yield started


@pytest.fixture(scope="module")
def gateway(broker: EmbeddedBroker) -> Iterator[GatewayPlace]:
    with gateway_place(broker.bootstrap, max_idempotency_keys=3) as place:
        yield place


def send(place: GatewayPlace, topic: str, key: str, *values: Any) -> Reply:
    body = {"records": [{"value": value} for value in values]}
    return place.call("POST", f"/topics/{topic}", body, headers={"Idempotency-Key": key})


def test_a_request_that_comes_again_writes_nothing_twice(
    gateway: GatewayPlace, broker: EmbeddedBroker
) -> None:
    topic = broker.create_topic("once")
    first = send(gateway, topic, "order-1", "a", "b")
    again = send(gateway, topic, "order-1", "a", "b")
    assert first.json == again.json
    assert [each.headers["idempotency-replayed"] for each in (first, again)] == ["false", "true"]
    other = send(gateway, topic, "order-2", "a", "b")
    assert [each["offset"] for each in other.json["offsets"]] == [2, 3]
    assert len(broker.records(topic)) == 4


def test_requests_with_one_key_at_the_same_time_write_once(
    gateway: GatewayPlace, broker: EmbeddedBroker
) -> None:
    topic = broker.create_topic("at-once")
    replies: list[Reply] = []
    callers = [
        threading.Thread(target=lambda: replies.append(send(gateway, topic, "k", *range(50))))
        for _ in range(8)
    ]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    assert len({each.body for each in replies}) == 1
    assert len(broker.records(topic)) == 50


def test_a_key_names_one_request_and_must_be_plain(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    topic, other = broker.create_topic("keys"), broker.create_topic("other-keys")
    assert send(gateway, topic, "k", 1).status == 200
    assert send(gateway, topic, "k", 2).error == (422, 42206)
    assert send(gateway, other, "k", 2).status == 200  # a key belongs to an address
    assert send(gateway, topic, "k" * 256, 1).error == (400, 400)
    assert send(gateway, topic, "", 1).error == (400, 400)
    assert len(broker.records(topic)) == 1


def test_what_certainly_was_not_written_is_written_by_the_next_request(
    gateway: GatewayPlace, broker: EmbeddedBroker
) -> None:
    topic = broker.create_topic("half", configs={"max.message.bytes": "300"})
    records = [{"value": "small"}, {"value": "x" * 5_000}]
    ask = {"records": records}
    replies = [
        gateway.call("POST", f"/topics/{topic}", ask, headers={"Idempotency-Key": "half"}) for _ in range(3)
    ]
    assert {each.status for each in replies} == {200}
    written = [each.value for each in broker.records(topic)]
    assert written in ([b'"small"'], [])  # never twice
    assert replies[0].json["offsets"][1]["error_code"] == 1


def test_the_oldest_key_is_forgotten_first(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("forgotten")
    for key in ("1", "2", "3", "4"):
        send(gateway, topic, key, key)
    assert send(gateway, topic, "4", "4").headers["idempotency-replayed"] == "true"
    assert send(gateway, topic, "1", "1").headers["idempotency-replayed"] == "false"


def test_a_topic_comes_into_being_where_the_cluster_creates_topics(
    gateway: GatewayPlace, broker: EmbeddedBroker
) -> None:
    reply = gateway.call("POST", "/topics/new-one", {"records": [{"value": 1}]})
    assert reply.json["offsets"][0]["offset"] == 0
    assert "new-one" in broker.topics()
    assert gateway.call("POST", "/topics/no%20name", {"records": [{"value": 1}]}).error == (404, 40401)
    assert gateway.call("GET", "/topics/never").error == (404, 40401)
    assert "never" not in broker.topics()


def test_a_topic_is_missing_where_the_cluster_creates_none() -> None:
    with (
        ottla.testing.broker(settings={"auto.create.topics.enable": "false"}) as broker,
        gateway_place(broker.bootstrap) as place,
    ):
        assert place.call("POST", "/topics/nowhere", {"records": [{"value": 1}]}).error == (404, 40401)
        assert broker.topics() == []


def test_a_request_for_another_gateways_instance_is_told_where_to_go(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("elsewhere")
    one = "http://one.example"
    with (
        gateway_place(broker.bootstrap, advertised_url=one) as first,
        gateway_place(broker.bootstrap, advertised_url="http://two.example", peer_urls=(one,)) as second,
        gateway_place(broker.bootstrap) as third,
    ):
        path = first.instance("shared", "desk")
        first.call("POST", f"{path}/subscription", {"topics": [topic]})

        def joined() -> bool:
            first.call("GET", f"{path}/records?timeout=100")
            return bool(first.call("GET", f"{path}/assignments").json["partitions"])

        wait_until(joined, "the instance is a member of its group")
        told = second.call("GET", f"{path}/records?timeout=5")
        assert (told.status, told.headers["location"]) == (307, f"{one}{path}/records?timeout=5")
        assert second.call("DELETE", path).status == 307
        assert second.call("GET", "/consumers/shared/instances/other/records").error == (404, 40403)
        assert third.call("GET", f"{path}/records").error == (404, 40403)
