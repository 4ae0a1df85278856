"""Confluent's REST v3 over real sockets, in front of a real broker: GTW-1."""

from __future__ import annotations

import json
import socket
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.gateway_place import GatewayPlace, Reply, gateway_place

import ottla.testing
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


@pytest.fixture(scope="module")
def cluster(gateway: GatewayPlace) -> str:
    """The path of the cluster."""
    [found] = gateway.call("GET", "/v3/clusters").json["data"]
    assert found["kind"] == "KafkaCluster"
    path: str = found["metadata"]["self"].removeprefix(f"http://127.0.0.1:{gateway.port}")
    return path


def call(gateway: GatewayPlace, method: str, path: str, body: Any = None) -> Reply:
    return gateway.call(method, path, body, content_type="application/json")


def test_the_cluster_and_its_brokers_are_shown(
    gateway: GatewayPlace, cluster: str, broker: EmbeddedBroker
) -> None:
    shown = call(gateway, "GET", cluster).json
    assert shown["cluster_id"] == cluster.rpartition("/")[2]
    assert shown["topics"]["related"].endswith(f"{cluster}/topics")
    [only] = call(gateway, "GET", f"{cluster}/brokers").json["data"]
    assert (only["broker_id"], only["port"]) == (1, broker.port)
    assert call(gateway, "GET", f"{cluster}/brokers/1").json == only
    assert call(gateway, "GET", f"{cluster}/brokers/2").status == 404
    assert call(gateway, "GET", "/v3/clusters/another").status == 404


def test_a_topic_is_created_changed_and_deleted(gateway: GatewayPlace, cluster: str) -> None:
    settings = [{"name": "retention.ms", "value": "5000"}]
    new = {"topic_name": "made", "partitions_count": 2, "configs": settings}
    assert call(gateway, "POST", f"{cluster}/topics", {**new, "validate_only": True}).status == 201
    assert call(gateway, "GET", f"{cluster}/topics/made").error == (404, 40401)
    created = call(gateway, "POST", f"{cluster}/topics", new)
    assert (created.status, created.json["partitions_count"]) == (201, 2)
    path = f"{cluster}/topics/made"
    assert call(gateway, "GET", path).json == created.json
    assert "made" in [each["topic_name"] for each in call(gateway, "GET", f"{cluster}/topics").json["data"]]
    partitions = call(gateway, "GET", f"{path}/partitions").json["data"]
    assert [each["partition_id"] for each in partitions] == [0, 1]
    assert call(gateway, "GET", f"{path}/partitions/1").json == partitions[1]
    setting = call(gateway, "GET", f"{path}/configs/retention.ms").json
    assert (setting["value"], setting["source"], setting["is_default"]) == (
        "5000",
        "DYNAMIC_TOPIC_CONFIG",
        False,
    )
    assert call(gateway, "PUT", f"{path}/configs/retention.ms", {"value": "6000"}).status == 204
    assert call(gateway, "GET", f"{path}/configs/retention.ms").json["value"] == "6000"
    changes = {
        "data": [
            {"name": "retention.ms", "operation": "DELETE"},
            {"name": "segment.bytes", "value": "2000000"},
        ]
    }
    assert call(gateway, "POST", f"{path}/configs:alter", changes).status == 204
    values = {each["name"]: each for each in call(gateway, "GET", f"{path}/configs").json["data"]}
    assert values["retention.ms"]["is_default"] is True
    assert values["segment.bytes"]["value"] == "2000000"
    assert call(gateway, "DELETE", f"{path}/configs/segment.bytes").status == 204
    assert call(gateway, "GET", f"{path}/configs/segment.bytes").json["is_default"] is True
    assert call(gateway, "DELETE", path).status == 204
    assert call(gateway, "GET", path).error == (404, 40401)


@pytest.mark.parametrize(
    ("method", "path", "body", "error"),
    [
        ("POST", "/topics", {}, (400, 40002)),
        ("POST", "/topics", {"topic_name": "x", "partitions_count": 0}, (400, 40002)),
        ("POST", "/topics", {"topic_name": "x", "replication_factor": 9}, (400, 40002)),
        (
            "POST",
            "/topics",
            {"topic_name": "x", "configs": [{"name": "no.such", "value": "1"}]},
            (400, 40002),
        ),
        ("POST", "/topics", {"topic_name": "x", "configs": {"a": 1}}, (400, 40002)),
        ("POST", "/topics", {"topic_name": "there"}, (400, 40002)),
        ("POST", "/topics", {"topic_name": "a/b"}, (404, 40401)),
        ("DELETE", "/topics/none", None, (404, 40401)),
        ("GET", "/topics/there/partitions/7", None, (404, 40402)),
        ("GET", "/topics/there/configs/no.such", None, (404, 404)),
        ("PUT", "/topics/there/configs/retention.ms", {"value": 5}, (400, 40002)),
        ("PUT", "/topics/there/configs/retention.ms", {"value": "soon"}, (400, 40002)),
        ("POST", "/topics/there/configs:alter", {"data": []}, (400, 40002)),
        ("POST", "/topics/there/configs:alter", {"data": [{"name": "x", "operation": "ADD"}]}, (400, 40002)),
        ("GET", "/consumer-groups/none", None, (404, 40403)),
        ("GET", "/consumer-groups/none/lags", None, (404, 40403)),
        ("POST", "/topics/none/records", {"value": {"type": "JSON", "data": 1}}, (404, 40401)),
    ],
)
def test_what_cannot_be_done_is_refused(
    gateway: GatewayPlace, broker: EmbeddedBroker, cluster: str, method: str, path: str, body: Any, error: Any
) -> None:
    if "there" not in broker.topics():
        broker.create_topic("there")
    assert call(gateway, method, cluster + path, body).error == error


def test_a_group_is_shown_with_its_lag(gateway: GatewayPlace, broker: EmbeddedBroker, cluster: str) -> None:
    topic = broker.create_topic("lagging")
    gateway.produce(topic, "a", "b", "c")
    instance = gateway.instance("slow-readers")
    gateway.call("POST", f"{instance}/subscription", {"topics": [topic]})
    gateway.call("GET", f"{instance}/records?timeout=20000")
    gateway.call("POST", f"{instance}/offsets", {"offsets": [{"topic": topic, "partition": 0, "offset": 0}]})
    path = f"{cluster}/consumer-groups/slow-readers"
    shown = call(gateway, "GET", path).json
    assert (shown["state"], shown["partition_assignor"], shown["is_simple"]) == ("STABLE", "range", False)
    listed = call(gateway, "GET", f"{cluster}/consumer-groups").json["data"]
    assert shown in listed
    [member] = call(gateway, "GET", f"{path}/consumers").json["data"]
    assert member["client_id"] == "ottla-gateway-one"
    [lag] = call(gateway, "GET", f"{path}/lags").json["data"]
    assert (lag["current_offset"], lag["log_end_offset"], lag["lag"]) == (1, 3, 2)
    assert lag["consumer_id"] == member["consumer_id"]
    summary = call(gateway, "GET", f"{path}/lag-summary").json
    assert (summary["max_lag"], summary["total_lag"], summary["max_lag_topic_name"]) == (2, 2, topic)
    gateway.call("DELETE", instance)


# ---- streams of records


def lines_of(reply: Reply) -> list[dict[str, Any]]:
    return [json.loads(line) for line in reply.body.splitlines()]


def test_one_record_has_one_answer(gateway: GatewayPlace, broker: EmbeddedBroker, cluster: str) -> None:
    topic = broker.create_topic("v3-one")
    record = {
        "partition_id": 0,
        "headers": [{"name": "source", "value": b64encode(b"web").decode()}],
        "key": {"type": "STRING", "data": "table 4"},
        "value": {"type": "JSON", "data": {"drink": "tea"}},
        "timestamp": "2026-11-18T08:00:00Z",
    }
    reply = call(gateway, "POST", f"{cluster}/topics/{topic}/records", record)
    [line] = lines_of(reply)
    assert (reply.status, line["error_code"], line["offset"], line["partition_id"]) == (200, 200, 0, 0)
    assert (line["key"]["size"], line["value"]["size"], line["timestamp"]) == (7, 15, "2026-11-18T08:00:00Z")
    [written] = broker.records(topic)
    assert (written.key, written.value, written.headers) == (
        b"table 4",
        b'{"drink":"tea"}',
        (("source", b"web"),),
    )


def test_a_record_that_is_wrong_is_answered_in_its_place(
    gateway: GatewayPlace, broker: EmbeddedBroker, cluster: str
) -> None:
    topic = broker.create_topic("v3-some-wrong")
    records = [
        {"value": {"type": "STRING", "data": "good"}},
        {"value": {"type": "BINARY", "data": "*"}},
        {"value": {"type": "AVRO", "data": {}}},
        {"value": "text"},
        {"partition_id": 5, "value": None},
        {"colour": "red"},
        {"headers": [{"value": "x"}]},
        {"timestamp": "noon"},
        {"value": {"type": "BINARY", "data": b64encode(b"also good").decode()}},
    ]
    body = b"\n".join(json.dumps(each).encode() for each in records) + b'{"broken": } {"value": null} rubbish'
    lines = lines_of(call(gateway, "POST", f"{cluster}/topics/{topic}/records", body))
    codes = [line["error_code"] for line in lines]
    assert codes == [200, 42205, 422, 422, 40402, 422, 422, 422, 200, 400, 200, 400]
    assert [each.value for each in broker.records(topic)] == [b"good", b"also good", None]


def test_a_stream_is_answered_while_it_is_sent(
    gateway: GatewayPlace, broker: EmbeddedBroker, cluster: str
) -> None:
    topic = broker.create_topic("v3-stream")
    with gateway.connect() as connection:
        head = (
            f"POST {cluster}/topics/{topic}/records HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        )
        connection.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
        for number in range(3):
            data = json.dumps({"value": {"type": "JSON", "data": number}}).encode()
            connection.sendall(b"%x\r\n%s\r\n" % (len(data), data))
            assert read_until(connection, b'"offset":%d,' % number)
        connection.sendall(b"0\r\n\r\n")
        assert read_until(connection, b"0\r\n\r\n")
        # The connection can be used again.
        connection.sendall(b"GET /brokers HTTP/1.1\r\nHost: a\r\n\r\n")
        assert read_until(connection, b'{"brokers":[1]}')
    assert [each.value for each in broker.records(topic)] == [b"0", b"1", b"2"]


def read_until(connection: socket.socket, words: bytes) -> bool:
    received = b""
    while words not in received:
        piece = connection.recv(65536)
        assert piece, received
        received += piece
    return True


def test_a_stream_that_is_silent_or_breaks_is_ended(broker: EmbeddedBroker, cluster: str) -> None:
    topic = broker.create_topic("v3-silent")
    with gateway_place(broker.bootstrap, body_timeout_ms=200) as place:
        head = (
            f"POST {cluster}/topics/{topic}/records HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        )
        start = head.encode() + b'Transfer-Encoding: chunked\r\n\r\n10\r\n{"value": null} \r\n'
        answer = place.raw(start)
        assert b'"offset":0' in answer
        assert b'"error_code":408' in answer
        with place.connect() as connection:
            connection.sendall(start)
            assert read_until(connection, b'"offset":1')
        wait_until(lambda: place.gateway.connection_count == 0, "the broken connection is gone")


def test_many_records_are_answered_in_order(
    gateway: GatewayPlace, broker: EmbeddedBroker, cluster: str
) -> None:
    topic = broker.create_topic("v3-many")
    body = b"".join(b'{"value": {"type": "JSON", "data": %d}}' % number for number in range(3_000))
    lines = lines_of(call(gateway, "POST", f"{cluster}/topics/{topic}/records", body))
    assert [line["offset"] for line in lines] == list(range(3_000))
