"""Keys and values by the registry's schemas over REST, event streams and WebSockets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.gateway_place import GatewayPlace, gateway_place
from tests.integration.web_socket_caller import calling

import ottla.blocking
import ottla.testing
from ottla.schemas.json_schema.safe_patterns import is_safe
from ottla.serializers import AvroDeserializer, ProtobufSerializer, Registry
from ottla.testing.embedded_broker import EmbeddedBroker

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}
SHAPE = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; string item_name = 2; }'


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with ottla.testing.broker() as started:
        yield started


@pytest.fixture(scope="module")
def gateway(broker: EmbeddedBroker) -> Iterator[GatewayPlace]:
    with gateway_place(broker.bootstrap) as place:
        yield place


def media(form: str) -> str:
    return f"application/vnd.kafka.{form}.v2+json"


def send(place: GatewayPlace, topic: str, form: str, values: list[Any], **fields: Any) -> Any:
    body = {"records": [{"value": each} for each in values], **fields}
    return place.call("POST", f"/topics/{topic}", body, content_type=media(form))


def read(place: GatewayPlace, topic: str, form: str) -> list[Any]:
    path = place.instance(f"g-{topic}", format=form)
    place.call("POST", f"{path}/assignments", {"partitions": [{"topic": topic, "partition": 0}]})
    reply = place.call("GET", f"{path}/records?timeout=10000", headers={"Accept": media(form)})
    assert reply.headers["content-type"] == media(form), reply.body
    return [each["value"] for each in reply.json]


@pytest.mark.parametrize(
    ("form", "schema", "value", "shown"),
    [
        ("avro", json.dumps(ORDER), {"id": 1, "note": {"string": "hot"}}, None),
        ("avro", '"bytes"', "\u00ff\u0001", None),
        ("jsonschema", json.dumps(SHAPE), {"id": 2, "more": [1, None]}, None),
        ("protobuf", PROTO, {"id": "3"}, {"id": "3", "itemName": ""}),
    ],
)
def test_values_go_in_and_come_out_by_their_schema(
    gateway: GatewayPlace, broker: EmbeddedBroker, form: str, schema: str, value: Any, shown: Any
) -> None:
    topic = broker.create_topic(f"by-{form}-{len(schema)}")
    first = send(gateway, topic, form, [value], value_schema=schema)
    assert first.status == 200, first.body
    schema_id = first.json["value_schema_id"]
    assert first.json["key_schema_id"] is None
    again = send(gateway, topic, form, [value, None], value_schema_id=schema_id)
    assert [each["offset"] for each in again.json["offsets"]] == [1, 2]
    expected = value if shown is None else shown
    assert read(gateway, topic, form) == [expected, expected, None]
    assert gateway.call("GET", f"/subjects/{topic}-value/versions").json == [1]
    found = gateway.call("GET", f"/topics/{topic}/partitions/0/records?from=earliest&decode=schema").json
    assert [(each["value"], each.get("value_schema_id")) for each in found["records"]] == [
        (expected, schema_id),
        (expected, schema_id),
        (None, None),
    ]


def test_keys_have_schemas_of_their_own(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("by-key")
    body = {
        "key_schema": '"string"',
        "value_schema": json.dumps(ORDER),
        "records": [{"key": "a", "value": {"id": 1, "note": None}}],
    }
    reply = gateway.call("POST", f"/topics/{topic}", body, content_type=media("avro"))
    assert reply.json["key_schema_id"] != reply.json["value_schema_id"]
    record = broker.records(topic)[0]
    deserializer = AvroDeserializer(Registry(f"http://127.0.0.1:{gateway.port}"))
    assert deserializer.key_of(record) == "a"
    assert deserializer.value_of(record) == {"id": 1, "note": None}


def test_what_cannot_be_decoded_is_shown_with_the_reason(
    gateway: GatewayPlace, broker: EmbeddedBroker
) -> None:
    topic = broker.create_topic("by-chance")
    serializer = ProtobufSerializer(Registry(f"http://127.0.0.1:{gateway.port}"), PROTO, topic=topic)
    with ottla.blocking.Producer(broker.bootstrap) as producer:
        for value in (
            serializer({"id": 7}),
            b"\0\0\0\x27\x0fdata",
            b'{"plain": 1}',
            b"\0",
            b"\0\0\0\0\x01\xff",
        ):
            producer.send(topic, value)
    path = f"/topics/{topic}/partitions/0/records?from=earliest&decode=schema"
    good, unknown, plain, short, broken = gateway.call("GET", path).json["records"]
    assert good["value"] == {"id": "7", "itemName": ""}
    assert "9999" in unknown["value_problem"]
    assert plain["value"] == {"plain": 1}
    assert "value_problem" not in plain
    assert "too few" in short["value_problem"]
    assert broken["value_problem"]
    with calling(gateway.port) as caller:
        caller.say(type="subscribe", topics=[topic], offset_reset="earliest", decode="schema")
        heard = caller.messages(3)
    assert [each["value"] for each in (heard[0], heard[2])] == [{"id": "7", "itemName": ""}, {"plain": 1}]
    assert heard[0]["value_schema_id"] == good["value_schema_id"]
    instance = gateway.instance("by-chance", format="protobuf")
    gateway.call("POST", f"{instance}/assignments", {"partitions": [{"topic": topic, "partition": 0}]})
    refused = gateway.call("GET", f"{instance}/records?timeout=10000")
    assert refused.error == (422, 42205)
    assert "offset 1" in refused.json["message"]


@pytest.mark.parametrize(
    ("form", "fields", "value", "error"),
    [
        ("avro", {}, {"id": 1}, (422, 42202)),
        ("avro", {"value_schema": "no schema"}, 1, (422, 42201)),
        ("avro", {"value_schema": '"string"', "value_schema_id": 1}, "x", (422, 422)),
        ("avro", {"value_schema_id": 99_999}, "x", (404, 40403)),
        ("avro", {"value_schema_id": "1"}, "x", (422, 422)),
        ("avro", {"value_schema": '"long"'}, "no number", (422, 42203)),
        ("avro", {"value_schema": json.dumps(ORDER)}, {"id": 1, "note": "untagged"}, (422, 42203)),
        ("jsonschema", {"value_schema": json.dumps(SHAPE)}, {"id": "one"}, (422, 42203)),
        ("jsonschema", {"value_schema": '{"pattern": "(a+)+$"}'}, "a" * 50, (422, 42203)),
        ("protobuf", {"value_schema": PROTO}, {"unknown": 1}, (422, 42203)),
        ("protobuf", {"value_schema": PROTO}, 5, (422, 42203)),
    ],
)
def test_what_does_not_fit_its_schema_is_refused(
    gateway: GatewayPlace,
    broker: EmbeddedBroker,
    form: str,
    fields: dict[str, Any],
    value: Any,
    error: tuple[int, int],
) -> None:
    topic = "by-mistake"
    if topic not in broker.topics():
        broker.create_topic(topic)
        gateway.call(
            "PUT", f"/config/{topic}-value", {"compatibility": "NONE"}, content_type="application/json"
        )
    reply = send(gateway, topic, form, [value], **fields)
    assert reply.error == error, reply.body
    assert broker.records(topic) == []


def test_a_schema_of_another_type_is_refused(gateway: GatewayPlace, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("by-type")
    known = send(gateway, topic, "avro", ["x"], value_schema='"string"').json["value_schema_id"]
    assert send(gateway, topic, "jsonschema", ["x"], value_schema_id=known).error == (422, 42203)


@pytest.mark.parametrize("pattern", ["^[a-z]+$", "[A-Z]{3}", "^a", r"^\d{3}-\d{4}$", "^[(+|]*$", "ab?c"])
def test_plain_patterns_are_checked(pattern: str) -> None:
    assert is_safe(pattern)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "a*a*b", "[a-z]+$", "^(a|aa)+$", "x{1,99999}", "^a+b+$", "a" * 501, "^.{2000}"]
)
def test_patterns_that_could_take_long_are_not(pattern: str) -> None:
    assert not is_safe(pattern)
