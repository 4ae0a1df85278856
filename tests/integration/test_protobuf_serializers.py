"""Protobuf by a registry: our serializers and confluent-kafka's read each other's data, in both forms of the wire.

Requirements: GTW-4.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer as ConfluentDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer as ConfluentSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from tests.integration.gateway_place import GatewayPlace, gateway_place

import ottla.testing
from ottla.schemas.protobuf.descriptor_writer import descriptor_of, file_descriptor
from ottla.schemas.protobuf.model import parse_protobuf
from ottla.schemas.schema import Imported, Reference
from ottla.serializers import (
    ProtobufDeserializer,
    ProtobufSerializer,
    Registry,
    RegistryRequestError,
    SchemaDataError,
    record_name,
)

MONEY = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; }'
ORDER = """
syntax = "proto3";
package shop;
import "shop/money.proto";
import "google/protobuf/timestamp.proto";
message Other { string x = 1; }
message Order {
  message Line { string item = 1; }
  int64 id = 1;
  map<string, Line> lines = 2;
  Money price = 3;
  google.protobuf.Timestamp at = 4;
}
"""
NEWER = ORDER.replace("int64 id = 1;", "int64 id = 1; optional int32 count = 9;")


def generated(text: str) -> DescriptorPool:
    """What protoc's generated module would have: classes, and descriptors of their files."""
    schema = parse_protobuf(text, [Imported("shop/money.proto", MONEY)])
    pool = DescriptorPool()
    for name in ("google/protobuf/timestamp.proto", "shop/money.proto"):
        pool.AddSerializedFile(file_descriptor(schema.imported[name], schema.table, name))
    pool.AddSerializedFile(descriptor_of(schema, "shop/order.proto"))
    return pool


POOL, NEWER_POOL = generated(ORDER), generated(NEWER)
Order: Any = GetMessageClass(POOL.FindMessageTypeByName("shop.Order"))
Line: Any = GetMessageClass(POOL.FindMessageTypeByName("shop.Order.Line"))
NewerOrder: Any = GetMessageClass(NEWER_POOL.FindMessageTypeByName("shop.Order"))
CONF = {"use.deprecated.format": False}


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayPlace]:
    with ottla.testing.broker() as broker, gateway_place(broker.bootstrap) as place:
        yield place


@pytest.fixture
def registry(gateway: GatewayPlace) -> Registry:
    return Registry(gateway.gateway.url)


@pytest.fixture(scope="module")
def confluent(gateway: GatewayPlace) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": gateway.gateway.url}) as client:
        yield client


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


def order(**others: Any) -> Any:
    made = Order(id=7, price={"cents": 300}, **others)
    made.lines["a"].item = "coffee"
    made.at.seconds = 1_700_000_000
    return made


@pytest.mark.parametrize("value", [order(), Line(item="tea")], ids=["second message", "nested message"])
def test_both_serializers_write_the_same_and_read_each_other(
    registry: Registry, confluent: SchemaRegistryClient, topic: str, value: Any
) -> None:
    context = SerializationContext(topic, MessageField.VALUE)
    ours = ProtobufSerializer(registry, type(value), topic=topic)(value)
    assert ConfluentDeserializer(type(value), CONF, confluent)(ours, context) == value
    theirs = ConfluentSerializer(type(value), confluent, CONF)(value, context)
    assert theirs == ours  # one schema with one id, whoever registered it first
    read = ProtobufDeserializer(registry)(theirs)
    assert read.DESCRIPTOR.full_name == value.DESCRIPTOR.full_name
    assert read.SerializeToString(deterministic=True) == value.SerializeToString(deterministic=True)
    assert ProtobufDeserializer(registry, type(value))(theirs) == value


def test_the_guid_in_a_header_goes_both_ways(
    registry: Registry, confluent: SchemaRegistryClient, topic: str
) -> None:
    data, headers = ProtobufSerializer(registry, Order, topic=topic).with_header(order())
    context = SerializationContext(topic, MessageField.VALUE, list(headers))
    assert ConfluentDeserializer(Order, CONF, confluent)(data, context) == order()
    written: list[Any] = []
    context = SerializationContext(topic, MessageField.VALUE, written)
    conf = {**CONF, "schema.id.serializer": header_schema_id_serializer}
    theirs = ConfluentSerializer(Order, confluent, conf)(order(), context)
    assert (theirs, written) == (data, headers)
    assert ProtobufDeserializer(registry, Order).deserialize(theirs, "value", written) == order()


def test_imports_are_registered_under_their_own_subjects(registry: Registry, topic: str) -> None:
    ProtobufSerializer(
        registry, Order, topic=topic, reference_subject=lambda name: f"{topic}/{name}"
    ).prepare()
    assert registry.version(f"{topic}/shop/money.proto").text.startswith('syntax = "proto3";\npackage shop;')
    assert registry.version(f"{topic}-value").references == (
        Reference("shop/money.proto", f"{topic}/shop/money.proto", 1),
    )
    named = ProtobufSerializer(registry, Order, subject_name=record_name, registration="register")
    named.prepare()
    assert "shop.Order" in registry.subjects()


def test_a_reader_may_be_older_or_newer(registry: Registry, topic: str) -> None:
    old = ProtobufSerializer(registry, Order, topic=topic)(order())
    new = ProtobufSerializer(registry, NewerOrder, topic=topic)(NewerOrder(id=1, count=5))
    assert registry.versions(f"{topic}-value") == [1, 2]
    assert not ProtobufDeserializer(registry, NewerOrder)(old).HasField("count")
    assert ProtobufDeserializer(registry, Order)(new).id == 1
    assert ProtobufDeserializer(registry)(new).count == 5


def test_values_by_a_text_are_dicts(registry: Registry, topic: str) -> None:
    ProtobufSerializer(registry, MONEY, topic=f"{topic}-money").prepare()
    reference = Reference("shop/money.proto", f"{topic}-money-value", 1)
    write = ProtobufSerializer(registry, ORDER, message="shop.Order", references=[reference], topic=topic)
    data = write(
        {"id": 7, "price": {"cents": 3}, "at": "2026-01-01T00:00:00Z", "lines": {"a": {"item": "x"}}}
    )
    assert data[5:7] == b"\x02\x02"  # one number, the second message
    assert ProtobufDeserializer(registry, as_dict=True)(data) == {
        "id": "7",
        "price": {"cents": "3"},
        "at": "2026-01-01T00:00:00Z",
        "lines": {"a": {"item": "x"}},
    }
    latest = ProtobufSerializer(registry, Order, topic=topic, registration="latest")
    assert ProtobufDeserializer(registry, Order)(latest(order())) == order()
    for value in ({"id": "x"}, {"nothing": 1}, 7, Line()):
        with pytest.raises(SchemaDataError):
            write(value)


def test_broken_data_is_refused_in_words(registry: Registry, topic: str) -> None:
    data = ProtobufSerializer(registry, Order, topic=topic)(order())
    read = ProtobufDeserializer(registry)
    for broken, words in (
        (data[:5], "is cut off"),
        (data[:5] + b"\xff\xff\xff\xff\xff", "is cut off"),
        (data[:5] + b"\x02\x10" + data[7:], "no message at"),
        (data[:5] + b"\xfe\xff\x01", "names its message by"),
        (data[:-3], "cannot be read as shop.Order"),
    ):
        with pytest.raises(SchemaDataError, match=words):
            read(broken)


def test_confluents_client_registers_checks_and_gets_protobuf(
    registry: Registry, confluent: SchemaRegistryClient, topic: str
) -> None:
    subject = f"{topic}-value"
    text = 'syntax = "proto3"; message A { int32 a = 1; }'
    schema_id = confluent.register_schema(subject, Schema(text, "PROTOBUF"))
    kept = confluent.get_schema(schema_id)
    assert kept.schema_str == 'syntax = "proto3";\n\nmessage A {\n  int32 a = 1;\n}\n'
    serialized = confluent.get_schema(schema_id, fmt="serialized").schema_str
    assert confluent.lookup_schema(subject, Schema(serialized, "PROTOBUF")).schema_id == schema_id
    changed = Schema(text.replace("int32", "string"), "PROTOBUF")
    assert not confluent.test_compatibility(subject, changed)
    with pytest.raises(SchemaRegistryError, match="FIELD_SCALAR_KIND_CHANGED"):
        confluent.register_schema(subject, changed)
    assert "PROTOBUF" in confluent.get_schema_types()
    with pytest.raises(RegistryRequestError, match="no format 'avdl' for PROTOBUF"):
        registry.request("GET", f"/subjects/{subject}/versions/1?format=avdl")
