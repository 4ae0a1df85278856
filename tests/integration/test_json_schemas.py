"""JSON Schema by a registry: compatibility over HTTP, and data that confluent-kafka's serializers read and write."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.integration.gateway_place import GatewayPlace, gateway_place

import ottla.testing
from ottla.schemas.schema import Reference
from ottla.serializers import (
    AvroDeserializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    Registry,
    SchemaDataError,
    record_name,
)

ORDER = {
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "item": {"type": "string"}},
    "required": ["id"],
    "additionalProperties": False,
}
VALUE = {"id": 7, "item": "coffee"}


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


def test_confluents_deserializer_reads_our_data(
    registry: Registry, confluent: SchemaRegistryClient, topic: str
) -> None:
    data = JsonSchemaSerializer(registry, ORDER, topic=topic)(VALUE)
    read = JSONDeserializer(None, schema_registry_client=confluent)
    assert read(data, SerializationContext(topic, MessageField.VALUE)) == VALUE


def test_our_deserializer_reads_confluents_data(
    registry: Registry, confluent: SchemaRegistryClient, topic: str
) -> None:
    write = JSONSerializer(json.dumps(ORDER), confluent)
    data = write(VALUE, SerializationContext(topic, MessageField.VALUE))
    assert JsonSchemaDeserializer(registry)(data) == VALUE
    mine, headers = JsonSchemaSerializer(registry, ORDER, topic=topic).with_header(VALUE)
    assert JsonSchemaDeserializer(registry).deserialize(mine, "value", headers) == VALUE
    assert registry.versions(f"{topic}-value") == [1]


def test_a_narrower_schema_is_refused_and_a_wider_one_is_taken(
    confluent: SchemaRegistryClient, topic: str
) -> None:
    subject = f"{topic}-value"
    confluent.register_schema(subject, Schema(json.dumps(ORDER), "JSON"))
    narrower = {**ORDER, "required": ["id", "item"]}
    with pytest.raises(SchemaRegistryError) as refused:
        confluent.register_schema(subject, Schema(json.dumps(narrower), "JSON"))
    assert refused.value.error_code == 409
    assert "REQUIRED_ATTRIBUTE_ADDED" in refused.value.error_message
    assert "'item'" in refused.value.error_message
    wider = {**ORDER, "properties": {**ORDER["properties"], "count": {"type": "integer"}}}  # type: ignore[dict-item]
    confluent.register_schema(subject, Schema(json.dumps(wider), "JSON"))
    found = confluent.get_latest_version(subject)
    assert (found.version, found.schema.schema_type) == (2, "JSON")
    with pytest.raises(SchemaRegistryError, match="SCHEMA_TYPE_CHANGED"):
        confluent.register_schema(subject, Schema('"string"', "AVRO"))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"item": "x"}, "'id' is a required property"),
        ({"id": "x"}, "$.id"),
        ({"id": 1, "more": 2}, "Additional properties"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_place(
    registry: Registry, topic: str, value: Any, words: str
) -> None:
    with pytest.raises(SchemaDataError) as refused:
        JsonSchemaSerializer(registry, ORDER, topic=topic)(value)
    assert words in str(refused.value)
    unchecked = JsonSchemaSerializer(registry, ORDER, topic=topic, validate=False)(value)
    with pytest.raises(SchemaDataError):
        JsonSchemaDeserializer(registry)(unchecked)
    assert JsonSchemaDeserializer(registry, validate=False)(unchecked) == value


def test_a_readers_time_is_not_the_writers_to_spend(registry: Registry, topic: str) -> None:
    """A regular expression that takes hours is not run, unless it is the reader's own or writers are trusted."""
    bomb = {"type": "string", "pattern": "^(a+)+$"}
    value = "a" * 50 + "!"
    data = JsonSchemaSerializer(registry, bomb, topic=topic, validate=False)(value)
    assert JsonSchemaDeserializer(registry)(data) == value
    # Quick ones are run.
    quick = {"type": "string", "pattern": "^a+$"}
    wrong = JsonSchemaSerializer(registry, quick, subject_name=lambda *_: f"{topic}-quick", validate=False)
    with pytest.raises(SchemaDataError, match="does not match"):
        JsonSchemaDeserializer(registry)(wrong("b"))
    own = JsonSchemaDeserializer(registry, {"type": "string", "pattern": "^(a|!)*$"})
    assert own(data) == value
    short = JsonSchemaSerializer(registry, bomb, topic=topic, validate=False)("b")
    with pytest.raises(SchemaDataError, match="does not match"):
        JsonSchemaDeserializer(registry, trusts_writers=True)(short)


def test_references_names_and_foreign_data(registry: Registry, topic: str) -> None:
    customer = {"title": "Customer", "type": "object", "required": ["name"]}
    JsonSchemaSerializer(registry, customer, subject_name=record_name).prepare()
    assert "Customer" in registry.subjects()
    sale = {"type": "object", "properties": {"by": {"$ref": "customer.json"}}}
    references = [Reference("customer.json", "Customer", 1)]
    serializer = JsonSchemaSerializer(registry, sale, references=references, topic=topic)
    data = serializer({"by": {"name": "Ada"}})
    assert JsonSchemaDeserializer(registry)(data) == {"by": {"name": "Ada"}}
    with pytest.raises(SchemaDataError, match="'name' is a required property"):
        serializer({"by": {}})
    with pytest.raises(SchemaDataError, match="of type JSON, and not AVRO"):
        AvroDeserializer(registry)(data)
    with pytest.raises(SchemaDataError, match="is not JSON"):
        JsonSchemaDeserializer(registry)(data[:-1])
