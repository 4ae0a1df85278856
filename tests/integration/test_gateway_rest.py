"""REST v2 over real sockets, in front of a real broker: GTW-1."""

from __future__ import annotations

import threading
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.gateway_place import BINARY_V2, JSON_V2, V2, GatewayPlace, gateway_place

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


def values(records: list[dict[str, Any]]) -> list[Any]:
    return [record["value"] for record in records]


# ---- producing


def test_json_records_are_written_as_json(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("json-records", 2)
    sent = {
        "records": [
            {"key": "k", "value": {"a": 1}, "partition": 1},
            {"value": None, "key": 7, "partition": 1},
        ]
    }
    reply = gateway.call("POST", f"/topics/{topic}", sent)
    assert reply.status == 200
    assert reply.headers["content-type"] == V2
    assert reply.json["offsets"] == [
        {"partition": 1, "offset": 0, "error_code": None, "error": None},
        {"partition": 1, "offset": 1, "error_code": None, "error": None},
    ]
    assert [(each.key, each.value) for each in broker.records(topic)] == [(b'"k"', b'{"a":1}'), (b"7", None)]


def test_binary_records_are_written_as_their_bytes(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("binary-records")
    value = b64encode(b"\x00\xff").decode()
    body = {"records": [{"value": value, "timestamp": 1_700_000_000_000}]}
    reply = gateway.call("POST", f"/topics/{topic}/partitions/0", body, content_type=BINARY_V2)
    assert reply.json["offsets"][0]["offset"] == 0
    [record] = broker.records(topic)
    assert (record.value, record.timestamp_ms) == (b"\x00\xff", 1_700_000_000_000)


def test_a_record_that_is_too_large_fails_alone(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("large-record", 2, configs={"max.message.bytes": "1000"})
    body = {"records": [{"value": "x" * 2000, "partition": 0}, {"value": "y", "partition": 1}]}
    large, small = gateway.call("POST", f"/topics/{topic}", body).json["offsets"]
    assert large["error_code"] == 1
    assert "max.message.bytes is 1000" in large["error"]
    assert small["offset"] == 0


@pytest.mark.parametrize(
    ("path", "body", "content_type", "error"),
    [
        ("/topics/unknown", {"records": [{"value": 1}]}, JSON_V2, (404, 40401)),
        ("/topics/known", {"records": [{"value": 1, "partition": 9}]}, JSON_V2, (404, 40402)),
        ("/topics/known/partitions/9", {"records": [{"value": 1}]}, JSON_V2, (404, 40402)),
        ("/topics/known/partitions/-1", {"records": [{"value": 1}]}, JSON_V2, (404, 40402)),
        ("/topics/known/partitions/0", {"records": [{"value": 1, "partition": 0}]}, JSON_V2, (422, 422)),
        ("/topics/..%2Fknown", {"records": [{"value": 1}]}, JSON_V2, (404, 40401)),
        ("/topics/%2e%2e", {"records": [{"value": 1}]}, JSON_V2, (404, 40401)),
        ("/topics/%ff", {"records": [{"value": 1}]}, JSON_V2, (400, 400)),
        ("/topics/known", b"{", JSON_V2, (400, 400)),
        ("/topics/known", b"[]", JSON_V2, (422, 422)),
        ("/topics/known", b'{"records": [{"value": NaN}]}', JSON_V2, (400, 400)),
        ("/topics/known", b"[" * 100_000, JSON_V2, (400, 400)),
        ("/topics/known", b'\xff{"records": []}', JSON_V2, (400, 400)),
        ("/topics/known", {"records": []}, JSON_V2, (422, 422)),
        ("/topics/known", {"records": [7]}, JSON_V2, (422, 422)),
        ("/topics/known", {"records": [{}]}, JSON_V2, (422, 422)),
        ("/topics/known", b'{"records": [{"value": "\\ud800"}]}', JSON_V2, (422, 42205)),
        ("/topics/known", {"records": [{"value": "*"}]}, BINARY_V2, (422, 42205)),
        ("/topics/known", {"records": [{"value": 5}]}, BINARY_V2, (422, 42205)),
        ("/topics/known", {"records": [{"value": 1}]}, "text/plain", (415, 415)),
        ("/topics/known", {"records": [{"value": 1}]}, "application/vnd.kafka.avro.v2+json", (422, 42202)),
    ],
)
def test_a_produce_request_that_cannot_be_used_is_refused(
    gateway: GatewayPlace,
    broker: EmbeddedBroker,
    path: str,
    body: Any,
    content_type: str,
    error: tuple[int, int],
) -> None:
    broker.create_topic("known") if "known" not in broker.topics() else None
    reply = gateway.call("POST", path, body, content_type=content_type)
    assert reply.error == error
    assert len(reply.json["message"]) > 10
    assert broker.records("known") == []


# ---- consumer instances


def test_an_instance_reads_what_was_produced_and_commits(
    gateway: GatewayPlace, broker: EmbeddedBroker
) -> None:
    topic = broker.create_topic("read-by-instance")
    gateway.produce(topic, "a", "b")
    path = gateway.instance("readers")
    assert gateway.call("POST", f"{path}/subscription", {"topics": [topic]}).status == 204
    reply = gateway.call("GET", f"{path}/records?timeout=20000", headers={"Accept": JSON_V2})
    assert reply.headers["content-type"] == JSON_V2
    assert reply.json == [
        {"topic": topic, "key": None, "value": "a", "partition": 0, "offset": 0},
        {"topic": topic, "key": None, "value": "b", "partition": 0, "offset": 1},
    ]
    assert gateway.call("GET", f"{path}/subscription").json == {"topics": [topic]}
    assert gateway.call("GET", f"{path}/assignments").json == {
        "partitions": [{"topic": topic, "partition": 0}]
    }
    # Confluent's clients commit the offset of the record that is done; the group goes on with the next one.
    offsets = {"offsets": [{"topic": topic, "partition": 0, "offset": 0}]}
    assert gateway.call("POST", f"{path}/offsets", offsets).status == 204
    asked = {"partitions": [{"topic": topic, "partition": 0}]}
    shown = {"offsets": [{"topic": topic, "partition": 0, "offset": 1, "metadata": ""}]}
    assert gateway.call("GET", f"{path}/offsets", asked).json == shown
    assert gateway.call("POST", f"{path}/offsets").status == 204
    assert gateway.call("GET", f"{path}/offsets", asked).json["offsets"][0]["offset"] == 2
    assert gateway.call("DELETE", path).status == 204
    assert gateway.call("GET", f"{path}/records").error == (404, 40403)


def test_a_long_poll_answers_when_a_record_comes(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("long-poll")
    path = gateway.instance("pollers")
    gateway.call("POST", f"{path}/assignments", {"partitions": [{"topic": topic, "partition": 0}]})
    found: list[Any] = []
    asking = threading.Thread(
        target=lambda: found.extend(
            gateway.call("GET", f"{path}/records?timeout=30000&max_bytes=1048576").json
        )
    )
    asking.start()
    gateway.produce(topic, {"n": 1})
    asking.join(30)
    assert values(found) == [{"n": 1}]
    assert gateway.call("GET", f"{path}/records?timeout=0").json == []
    gateway.call("DELETE", path)


def test_records_of_an_answer_count_as_done_when_more_are_asked_for(
    gateway: GatewayPlace, broker: EmbeddedBroker
) -> None:
    """An answer may get lost: the records of the last one are read again unless the caller came back."""
    topic = broker.create_topic("done-when-asked")
    gateway.produce(topic, "first", "second")
    with gateway_place(broker.bootstrap) as other:
        path = other.instance("careful")
        other.call("POST", f"{path}/subscription", {"topics": [topic]})
        assert values(other.call("GET", f"{path}/records?timeout=20000&max_bytes=1").json) == ["first"]
        assert values(other.call("GET", f"{path}/records?timeout=20000&max_bytes=1").json) == ["second"]
    # The gateway has stopped without a further request: "second" was perhaps never received.
    path = gateway.instance("careful")
    gateway.call("POST", f"{path}/subscription", {"topics": [topic]})
    assert values(gateway.call("GET", f"{path}/records?timeout=20000").json) == ["second"]
    # The caller ends the instance itself: it is done with everything.
    gateway.call("DELETE", path)
    path = gateway.instance("careful", "two")
    gateway.call("POST", f"{path}/subscription", {"topics": [topic]})
    assert gateway.call("GET", f"{path}/records?timeout=500").json == []
    gateway.call("DELETE", path)


def test_two_instances_share_the_partitions_of_their_group(
    gateway: GatewayPlace, broker: EmbeddedBroker
) -> None:
    topic = broker.create_topic("shared", 2)
    paths = [gateway.instance("sharers", name) for name in ("one", "two")]
    for path in paths:
        gateway.call("POST", f"{path}/subscription", {"topics": [topic]})

    def is_shared() -> bool:
        for path in paths:
            gateway.call("GET", f"{path}/records?timeout=50")
        held = [gateway.call("GET", f"{path}/assignments").json["partitions"] for path in paths]
        return [len(each) for each in held] == [1, 1]

    wait_until(is_shared, "each instance has a partition")
    gateway.produce(topic, "in 0", partition=0)
    gateway.produce(topic, "in 1", partition=1)
    seen = [values(gateway.call("GET", f"{path}/records?timeout=20000").json) for path in paths]
    assert sorted(seen) == [["in 0"], ["in 1"]]
    for path in paths:
        gateway.call("DELETE", path)


def test_an_instance_goes_where_it_is_told(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("positions")
    gateway.produce(topic, 0, 1, 2)
    place = {"topic": topic, "partition": 0}
    path = gateway.instance("seekers")
    gateway.call("POST", f"{path}/subscription", {"topic_pattern": "posit.*"})
    move = {"offsets": [{**place, "offset": 2}]}
    assert gateway.call("POST", f"{path}/positions", move).status == 204
    assert values(gateway.call("GET", f"{path}/records?timeout=20000").json) == [2]
    assert gateway.call("POST", f"{path}/positions/beginning", {"partitions": [place]}).status == 204
    assert values(gateway.call("GET", f"{path}/records?timeout=20000").json) == [0, 1, 2]
    gateway.call("POST", f"{path}/positions/beginning", {"partitions": [place]})
    assert gateway.call("POST", f"{path}/positions/end", {"partitions": [place]}).status == 204
    assert gateway.call("GET", f"{path}/records?timeout=200").json == []
    other = {"offsets": [{"topic": "elsewhere", "partition": 0, "offset": 0}]}
    assert gateway.call("POST", f"{path}/positions", other).error == (404, 40402)
    assert gateway.call("DELETE", f"{path}/subscription").status == 204
    assert gateway.call("GET", f"{path}/subscription").json == {"topics": []}
    gateway.call("DELETE", path)


def test_a_record_that_is_not_json_is_named_and_can_be_passed(
    gateway: GatewayPlace, broker: EmbeddedBroker
) -> None:
    topic = broker.create_topic("not-json")
    bad = {"records": [{"value": b64encode(b"\xff").decode()}]}
    gateway.call("POST", f"/topics/{topic}", bad, content_type=BINARY_V2)
    gateway.produce(topic, "good")
    path = gateway.instance("strict")
    gateway.call("POST", f"{path}/assignments", {"partitions": [{"topic": topic, "partition": 0}]})
    for _ in range(2):  # it stays where it is
        reply = gateway.call("GET", f"{path}/records?timeout=20000")
        assert reply.error == (422, 42205)
        assert "offset 0 of not-json-0" in reply.json["message"]
    gateway.call("POST", f"{path}/positions", {"offsets": [{"topic": topic, "partition": 0, "offset": 1}]})
    assert values(gateway.call("GET", f"{path}/records?timeout=20000").json) == ["good"]
    gateway.call("DELETE", path)


@pytest.mark.parametrize(
    ("method", "path", "body", "error"),
    [
        ("POST", "/consumers/g", {"format": "xml"}, (422, 42204)),
        ("POST", "/consumers/g", {"format": 7}, (422, 42204)),
        ("POST", "/consumers/g", {"name": "a/b"}, (422, 42204)),
        ("POST", "/consumers/g", {"auto.offset.reset": "yesterday"}, (422, 42204)),
        ("POST", "/consumers/g", {"auto.commit.enable": "perhaps"}, (422, 42204)),
        ("POST", "/consumers/g", {"fetch.min.bytes": "1e9"}, (422, 42204)),
        ("POST", "/consumers/g", {"group.id": "x"}, (422, 42204)),
        ("POST", "/consumers/g", {"name": "held"}, (409, 40902)),
        ("DELETE", "/consumers/g/instances/nobody", None, (404, 40403)),
        ("POST", "/consumers/g/instances/nobody/subscription", {"topics": ["t"]}, (404, 40403)),
        ("POST", "/consumers/g/instances/held/subscription", {}, (409, 40903)),
        ("POST", "/consumers/g/instances/held/subscription", {"topics": []}, (422, 422)),
        ("POST", "/consumers/g/instances/held/subscription", {"topics": ["t"] * 101}, (422, 422)),
        ("POST", "/consumers/g/instances/held/subscription", {"topic_pattern": "["}, (422, 422)),
        ("POST", "/consumers/g/instances/held/subscription", {"topic_pattern": "(a|a)*b"}, (422, 422)),
        ("POST", "/consumers/g/instances/held/subscription", {"topics": ["t"]}, (409, 40903)),
        ("POST", "/consumers/g/instances/held/assignments", {"partitions": [{"topic": "t"}]}, (422, 422)),
        ("POST", "/consumers/g/instances/held/assignments", {"partitions": 5}, (422, 422)),
        (
            "POST",
            "/consumers/g/instances/held/positions",
            {"offsets": [{"topic": "held", "partition": 0}]},
            (422, 422),
        ),
        ("POST", "/consumers/g/instances/held/positions/end", {"partitions": []}, (422, 422)),
        ("GET", "/consumers/g/instances/held/records?timeout=soon", None, (400, 400)),
        ("GET", "/consumers/g/instances/held/records?max_bytes=0", None, (400, 400)),
        ("GET", "/consumers/g/instances/held/records?wait=5", None, (400, 400)),
    ],
)
def test_a_request_to_an_instance_that_cannot_be_used_is_refused(
    gateway: GatewayPlace, broker: EmbeddedBroker, method: str, path: str, body: Any, error: tuple[int, int]
) -> None:
    if "held" not in broker.topics():
        broker.create_topic("held")
        held = gateway.instance("g", "held")
        gateway.call("POST", f"{held}/assignments", {"partitions": [{"topic": "held", "partition": 0}]})
    reply = gateway.call(method, path, body, content_type=V2)
    if "topics" in (body or {}) and error == (409, 40903):
        # Subscribing is refused only because the instance was assigned partitions.
        assert "assigned" in reply.json["message"]
    assert reply.error == error


def test_records_are_not_given_in_another_format_than_the_instance_has(
    gateway: GatewayPlace, broker: EmbeddedBroker
) -> None:
    path = gateway.instance("formats")
    reply = gateway.call("GET", f"{path}/records", headers={"Accept": BINARY_V2})
    assert reply.error == (406, 40601)
    assert gateway.call("GET", f"{path}/records", headers={"Accept": "text/html"}).status == 406
    gateway.call("DELETE", path)


def test_the_number_of_instances_is_limited(broker: EmbeddedBroker) -> None:
    with gateway_place(broker.bootstrap, max_instances=1) as small:
        path = small.instance("crowded", "first")
        assert small.call("POST", "/consumers/crowded", {"name": "second"}).error == (429, 42901)
        small.call("DELETE", path)
        small.instance("crowded", "second")


def test_an_instance_that_nobody_uses_ends(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("idle")
    with gateway_place(broker.bootstrap, instance_idle_ms=100) as impatient:
        impatient.produce(topic, "a")
        path = impatient.instance("leaky")
        # A request that takes longer than the time for which an instance may be idle is a use.
        impatient.call("POST", f"{path}/subscription", {"topics": [topic]})
        wait_until(lambda: impatient.gateway.instance_count == 0, "the idle instance ends", 60)
        assert impatient.call("GET", f"{path}/records").error == (404, 40403)


# ---- topics, partitions, brokers


def test_topics_and_partitions_are_shown_as_confluent_shows_them(
    gateway: GatewayPlace, broker: EmbeddedBroker
) -> None:
    topic = broker.create_topic("shown", 2, configs={"retention.ms": "5000"})
    gateway.produce(topic, "a", "b", partition=1)
    assert topic in gateway.call("GET", "/topics").json
    shown = gateway.call("GET", f"/topics/{topic}").json
    partition = {"partition": 1, "leader": 1, "replicas": [{"broker": 1, "leader": True, "in_sync": True}]}
    assert (shown["name"], shown["configs"]["retention.ms"], shown["partitions"][1]) == (
        topic,
        "5000",
        partition,
    )
    assert gateway.call("GET", f"/topics/{topic}/partitions").json == shown["partitions"]
    assert gateway.call("GET", f"/topics/{topic}/partitions/1").json == partition
    ends = {"beginning_offset": 0, "end_offset": 2}
    assert gateway.call("GET", f"/topics/{topic}/partitions/1/offsets").json == ends
    assert gateway.call("GET", "/brokers").json == {"brokers": [1]}
    assert gateway.call("GET", "/topics/none").error == (404, 40401)
    assert gateway.call("GET", f"/topics/{topic}/partitions/2").error == (404, 40402)
    assert gateway.call("GET", f"/topics/{topic}/partitions/2/offsets").error == (404, 40402)


# ---- reads without an instance


def test_a_read_says_where_to_go_on(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("stateless")
    gateway.produce(topic, {"n": 1}, {"n": 2}, {"n": 3})
    records = f"/topics/{topic}/partitions/0/records"
    first = gateway.call("GET", f"{records}?from=earliest&max_records=2").json
    assert values(first["records"]) == [{"n": 1}, {"n": 2}]
    second = gateway.call("GET", f"{records}?from={first['next_offset']}").json
    assert (values(second["records"]), second["next_offset"]) == ([{"n": 3}], 3)
    assert gateway.call("GET", f"{records}?from=3").json == {"records": [], "next_offset": 3}
    assert gateway.call("GET", f"{records}?from=latest&wait=50").json == {"records": [], "next_offset": 3}
    assert len(gateway.call("GET", f"{records}?from=2020-01-01T00:00:00Z").json["records"]) == 3
    assert gateway.call("GET", f"{records}?from=2999-01-01T00:00:00Z").json["next_offset"] == 3
    one = gateway.call("GET", f"{records}?from=0&max_bytes=1").json
    assert (len(one["records"]), one["next_offset"]) == (1, 1)


def test_a_read_waits_for_a_record(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("waited-for")
    found: list[Any] = []
    path = f"/topics/{topic}/partitions/0/records?from=0&wait=30000"
    asking = threading.Thread(target=lambda: found.append(gateway.call("GET", path).json))
    asking.start()
    gateway.produce(topic, "here")
    asking.join(30)
    assert values(found[0]["records"]) == ["here"]


def test_a_read_shows_every_record_with_how_it_is_written(
    gateway: GatewayPlace, broker: EmbeddedBroker
) -> None:
    topic = broker.create_topic("described")
    parts = [b"text", b"\xff", b"null", b"5"]
    body = {
        "records": [{"key": b64encode(each).decode(), "value": b64encode(each).decode()} for each in parts]
    }
    gateway.call("POST", f"/topics/{topic}", body, content_type=BINARY_V2)
    shown = gateway.call("GET", f"/topics/{topic}/partitions/0/records?from=0").json["records"]
    assert [(each["value"], each.get("value_encoding")) for each in shown] == [
        ("text", "text"),
        ("/w==", "base64"),
        ("null", "text"),
        (5, None),
    ]
    assert [each.get("key_encoding") for each in shown] == ["text", "base64", "text", None]


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("from=99", (416, 41601)),
        ("from=-1", (400, 400)),
        ("from=noon", (400, 400)),
        ("from=2026-01-01T00:00:00", (400, 400)),
        ("from=0&wait=-5", (400, 400)),
        ("from=0&max_records=0", (400, 400)),
        ("form=0", (400, 400)),
        ("from=%ff", (400, 400)),
    ],
)
def test_a_read_that_cannot_be_is_refused(
    gateway: GatewayPlace, broker: EmbeddedBroker, query: str, error: tuple[int, int]
) -> None:
    topic = "refused-reads"
    if topic not in broker.topics():
        broker.create_topic(topic)
    assert gateway.call("GET", f"/topics/{topic}/partitions/0/records?{query}").error == error


def test_reads_under_way_are_limited(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("few-readers")
    with gateway_place(broker.bootstrap, max_readers=0) as small:
        reply = small.call("GET", f"/topics/{topic}/partitions/0/records?from=0&wait=100")
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
        assert "ottla.gateway.max.readers" in reply.json["message"]


# ---- acknowledgements


def test_a_group_goes_on_at_the_first_record_that_is_not_acknowledged(
    gateway: GatewayPlace, broker: EmbeddedBroker
) -> None:
    topic = broker.create_topic("acknowledged")
    gateway.produce(topic, *range(5))
    path = gateway.instance("acknowledging", **{"ottla.acknowledgements": "true"})
    gateway.call("POST", f"{path}/assignments", {"partitions": [{"topic": topic, "partition": 0}]})
    assert len(gateway.call("GET", f"{path}/records?timeout=10000").json) == 5

    def done(*offsets: int, **fields: Any) -> Any:
        named = [{"topic": topic, "partition": 0, "offset": each} for each in offsets]
        return gateway.call("POST", f"{path}/acknowledgements", {"offsets": named, **fields})

    def committed() -> Any:
        asked = {"partitions": [{"topic": topic, "partition": 0}]}
        found = gateway.call("GET", f"{path}/offsets", asked, content_type=V2).json["offsets"]
        return found[0]["offset"] if found else None

    assert done(3, 0).status == 204
    assert committed() == 1
    assert done(2, up_to=True).status == 204
    assert committed() == 4
    assert done(9).error == (422, 422)
    assert done(4, up_to="yes").error == (422, 422)
    gateway.call("DELETE", path)  # the last record was not acknowledged, and an end commits nothing
    path = gateway.instance("acknowledging", "one", **{"ottla.acknowledgements": True})
    gateway.call("POST", f"{path}/assignments", {"partitions": [{"topic": topic, "partition": 0}]})
    assert [each["value"] for each in gateway.call("GET", f"{path}/records?timeout=10000").json] == [4]
    plain = gateway.instance("plain")
    ask = {"offsets": [{"topic": topic, "partition": 0, "offset": 0}]}
    assert gateway.call("POST", f"{plain}/acknowledgements", ask).error == (409, 40903)
