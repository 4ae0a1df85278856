"""Transactions over REST: records of several topics, all of them or none: GTW-1."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.gateway_place import V2, GatewayPlace, Reply, gateway_place

import ottla.testing
from ottla.blocking import Admin, Consumer, Producer
from ottla.client.requests.offsets import OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.localcluster.waiting import wait_until
from ottla.testing.embedded_broker import EmbeddedBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker(settings={"auto.create.topics.enable": "false"}) as started:
        yield started


@pytest.fixture(scope="module")
def gateway(broker: EmbeddedBroker) -> Iterator[GatewayPlace]:
    with gateway_place(broker.bootstrap) as place:
        yield place


def begun(gateway: GatewayPlace, transactional_id: str, **fields: Any) -> str:
    """The path of a new transaction."""
    reply = gateway.call(
        "POST", "/transactions", {"transactional_id": transactional_id, **fields}, content_type=V2
    )
    assert reply.status == 200, reply.body
    assert reply.json["state"] == "open"
    return f"/transactions/{reply.json['transaction']}"


def send(gateway: GatewayPlace, path: str, topic: str, *values: Any) -> Reply:
    body = {"records": [{"value": value} for value in values]}
    return gateway.call("POST", f"{path}/topics/{topic}", body)


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{user}:{password}".encode()).decode()}


def values_of(broker: EmbeddedBroker, topic: str) -> list[bytes | None]:
    """What a reader of committed records finds up to the last stable offset."""
    place = ottla.TopicPartition(topic, 0)
    settings: Any = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with Admin(broker.bootstrap) as admin, Consumer(broker.bootstrap, **settings) as consumer:
        wanted = {place: OffsetSpec.LATEST}
        end = succeeded(admin.list_offsets(wanted, read_committed=True))[place].offset
        consumer.assign([place])
        found: list[bytes | None] = []
        while (consumer.position(place) or 0) < end:
            found += [each.value for each in consumer.poll(timeout_ms=100)]
        return found


def test_a_commit_makes_all_records_count_at_once(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    orders, bills = broker.create_topic("orders"), broker.create_topic("bills")
    path = begun(gateway, "commits")
    assert [each["offset"] for each in send(gateway, path, orders, 1, 2).json["offsets"]] == [0, 1]
    assert send(gateway, path, bills, "a").status == 200
    assert (values_of(broker, orders), values_of(broker, bills)) == ([], [])
    assert gateway.gateway.transaction_count == 1
    committed = gateway.call("POST", f"{path}/commit")
    assert (committed.status, committed.json["state"]) == (200, "committed")
    assert (values_of(broker, orders), values_of(broker, bills)) == ([b"1", b"2"], [b'"a"'])
    # A caller whose answer was lost asks again.
    assert gateway.call("POST", f"{path}/commit").json["state"] == "committed"
    assert gateway.call("GET", path).json["state"] == "committed"
    assert gateway.call("POST", f"{path}/abort").error == (409, 40905)
    assert send(gateway, path, orders, 3).error == (409, 40905)
    assert gateway.gateway.transaction_count == 0


def test_an_abort_makes_no_record_count(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("aborted")
    path = begun(gateway, "aborts")
    assert send(gateway, path, topic, 1).status == 200
    ended = gateway.call("POST", f"{path}/abort")
    assert ended.json == {"transaction": path[14:], "state": "aborted", "reason": "the caller has aborted it"}
    assert gateway.call("POST", f"{path}/commit").error == (409, 40905)
    assert values_of(broker, topic) == []


def test_an_empty_transaction_is_committed(gateway: GatewayPlace) -> None:
    assert gateway.call("POST", f"{begun(gateway, 'empty')}/commit").json["state"] == "committed"


def test_a_transaction_with_a_record_that_failed_is_not_committed(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("small", configs={"max.message.bytes": "2000"})
    with gateway_place(broker.bootstrap) as place:
        path = begun(place, "fails")
        assert send(place, path, topic, "fits").json["offsets"][0]["error"] is None
        assert "max.message.bytes" in send(place, path, topic, "x" * 5_000).json["offsets"][0]["error"]
        failed = place.call("POST", f"{path}/commit")
        assert failed.error == (409, 40905)
        assert "aborted" in failed.json["message"]
        assert values_of(broker, topic) == []


def test_a_newer_transaction_of_the_id_fences_the_older_one(
    gateway: GatewayPlace, broker: EmbeddedBroker
) -> None:
    topic = broker.create_topic("fenced")
    old = begun(gateway, "one-writer")
    assert send(gateway, old, topic, "old").status == 200
    new = begun(gateway, "one-writer")
    assert send(gateway, new, topic, "new").status == 200
    assert gateway.call("POST", f"{old}/commit").error == (409, 40905)
    assert gateway.call("POST", f"{new}/commit").status == 200
    assert values_of(broker, topic) == [b'"new"']


def test_a_transaction_that_nobody_uses_is_aborted(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("idle")
    with gateway_place(broker.bootstrap, transaction_idle_ms=300) as place:
        path = begun(place, "idle")
        send(place, path, topic, "of a caller that went away")
        wait_until(lambda: place.gateway.transaction_count == 0, "the idle transaction is aborted")
        # How it ended is remembered for a while, and then forgotten.
        wait_until(lambda: place.call("GET", path).status == 404, "the transaction is forgotten")
    with Producer(broker.bootstrap) as producer:
        producer.send(topic, b"later")
    assert values_of(broker, topic) == [b"later"]


def test_a_stop_aborts_what_is_open(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("stopped")
    with gateway_place(broker.bootstrap) as place:
        send(place, begun(place, "stopped"), topic, "never read")
    with Producer(broker.bootstrap) as producer:
        producer.send(topic, b"later")
    assert values_of(broker, topic) == [b"later"]


def test_the_number_of_transactions_is_limited(broker: EmbeddedBroker) -> None:
    with gateway_place(broker.bootstrap, max_transactions=1) as place:
        path = begun(place, "first")
        refused = place.call("POST", "/transactions", {"transactional_id": "second"}, content_type=V2)
        assert refused.error == (429, 42902)
        for _ in range(3):
            assert place.call("POST", f"{path}/commit").status == 200
            path = begun(place, "first")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"transactional_id": ""},
        {"transactional_id": 7},
        {"transactional_id": "x" * 250},
        {"transactional_id": "x", "timeout_ms": 1},
        {"transactional_id": "x", "timeout_ms": True},
        {"transactional_id": "x", "timeout_ms": 10**9},
    ],
)
def test_what_cannot_begin_is_refused(gateway: GatewayPlace, body: dict[str, Any]) -> None:
    assert gateway.call("POST", "/transactions", body, content_type=V2).status == 422


def test_what_cannot_be_sent_is_refused_and_the_transaction_goes_on(
    gateway: GatewayPlace, broker: EmbeddedBroker
) -> None:
    topic = broker.create_topic("goes-on")
    path = begun(gateway, "goes-on")
    assert send(gateway, path, "nowhere", 1).error == (404, 40401)
    assert gateway.call("POST", f"{path}/topics/{topic}", b"{").status == 400
    assert gateway.call("POST", f"{path}/topics/{topic}", {"records": 1}).status == 422
    for method, place in (("GET", "/transactions/x"), ("POST", "/transactions/x/commit")):
        assert gateway.call(method, place).error == (404, 40404)
    assert send(gateway, path, topic, 1).status == 200
    assert gateway.call("POST", f"{path}/commit").status == 200
    assert values_of(broker, topic) == [b"1"]


def test_another_login_does_not_see_a_transaction() -> None:
    users = {"alice": "secret-a", "bob": "secret-b"}
    with ottla.testing.broker(users=users) as broker:
        broker.create_topic("orders")
        settings = {"requires_login": True, "login_mechanism": "SCRAM-SHA-256"}
        with gateway_place(broker.bootstrap, broker.security("alice"), **settings) as place:
            alice, bob = (basic(name, users[name]) for name in ("alice", "bob"))
            begin = {"transactional_id": "t"}
            made = place.call("POST", "/transactions", begin, headers=alice, content_type=V2).json[
                "transaction"
            ]
            assert place.call("GET", f"/transactions/{made}", headers=bob).status == 404
            assert place.call("POST", f"/transactions/{made}/commit", headers=alice).status == 200
