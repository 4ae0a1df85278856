"""Avro by a registry: our serializers and confluent-kafka's read each other's data, in both forms of the wire."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer as ConfluentDeserializer
from confluent_kafka.schema_registry.avro import AvroSerializer as ConfluentSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.integration.gateway_place import GatewayPlace, gateway_place

import ottla
import ottla.testing
from ottla.schemas.schema import Reference
from ottla.serializers import (
    AvroDeserializer,
    AvroSerializer,
    Registry,
    RegistryRequestError,
    SchemaDataError,
    record_name,
    topic_record_name,
)

ORDER = {
    "type": "record",
    "name": "shop.Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "item", "type": "string"}],
}
NEWER = {**ORDER, "fields": [ORDER["fields"][0], {"name": "count", "type": "int", "default": 1}]}
VALUE = {"id": 7, "item": "coffee"}


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with ottla.testing.broker() as broker:
        yield broker.bootstrap


@pytest.fixture(scope="module")
def gateway(bootstrap: str) -> Iterator[GatewayPlace]:
    with gateway_place(bootstrap) as place:
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
    data = AvroSerializer(registry, ORDER, topic=topic)(VALUE)
    read = ConfluentDeserializer(confluent)
    assert read(data, SerializationContext(topic, MessageField.VALUE)) == VALUE
    assert registry.versions(f"{topic}-value") == [1]


def test_our_deserializer_reads_confluents_data(
    registry: Registry, confluent: SchemaRegistryClient, topic: str
) -> None:
    write = ConfluentSerializer(confluent, json.dumps(ORDER))
    data = write(VALUE, SerializationContext(topic, MessageField.VALUE))
    assert AvroDeserializer(registry)(data) == VALUE
    # Both have registered the same schema: it has one id.
    assert AvroSerializer(registry, ORDER, topic=topic)(VALUE) == data


def test_the_guid_in_a_header_goes_both_ways(
    registry: Registry, confluent: SchemaRegistryClient, topic: str
) -> None:
    data, headers = AvroSerializer(registry, ORDER, topic=topic).with_header(VALUE)
    context = SerializationContext(topic, MessageField.VALUE, list(headers))
    assert ConfluentDeserializer(confluent)(data, context) == VALUE
    written: list[Any] = []
    context = SerializationContext(topic, MessageField.VALUE, written)
    conf = {"schema.id.serializer": header_schema_id_serializer}
    theirs = ConfluentSerializer(confluent, json.dumps(ORDER), conf=conf)(VALUE, context)
    assert AvroDeserializer(registry).deserialize(theirs, "value", written) == VALUE
    assert (theirs, written) == (data, headers)


def test_a_reader_with_another_schema_gets_its_own_fields(registry: Registry, topic: str) -> None:
    data = AvroSerializer(registry, ORDER, topic=topic)(VALUE)
    assert AvroDeserializer(registry, NEWER)(data) == {"id": 7, "count": 1}
    with pytest.raises(SchemaDataError, match="reader's schema cannot read"):
        AvroDeserializer(
            registry, '{"type":"record","name":"shop.Order","fields":[{"name":"x","type":"int"}]}'
        )(data)


def test_records_go_through_a_topic_with_both_forms_and_null(
    bootstrap: str, registry: Registry, topic: str
) -> None:
    async def story() -> list[Any]:
        serializer = AvroSerializer(registry, ORDER, topic=topic)
        read = AvroDeserializer(registry)
        async with ottla.Producer(bootstrap, value_serializer=serializer) as producer:
            await producer.send(topic, VALUE)
            await producer.send(topic, None, key=b"k")
        async with ottla.Producer(bootstrap) as producer:
            data, headers = serializer.with_header({**VALUE, "id": 8})
            await producer.send(topic, data, headers=headers)
        async with ottla.Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([ottla.TopicPartition(topic, 0)])
            values: list[Any] = []
            while len(values) < 3:
                values += [read.value_of(each) for each in await consumer.poll(timeout_ms=60_000)]
            return values

    assert asyncio.run(story()) == [VALUE, None, {**VALUE, "id": 8}]


def test_a_value_that_does_not_fit_is_named_by_the_producer(
    bootstrap: str, registry: Registry, topic: str
) -> None:
    async def story() -> None:
        serializer = AvroSerializer(registry, ORDER, topic=topic)
        async with ottla.Producer(bootstrap, value_serializer=serializer) as producer:
            await producer.send(topic, {"id": "seven"})

    with pytest.raises(ottla.SerializationError, match="does not fit the schema"):
        asyncio.run(story())


def test_subjects_follow_the_strategy(registry: Registry, topic: str) -> None:
    named = {**ORDER, "name": f"shop.N{topic[2:]}"}
    AvroSerializer(registry, named, subject_name=record_name).prepare()
    AvroSerializer(registry, named, topic=topic, subject_name=topic_record_name).prepare()
    AvroSerializer(registry, '"string"', topic=topic, part="key").prepare()
    wanted = {f"shop.N{topic[2:]}", f"{topic}-shop.N{topic[2:]}", f"{topic}-key"}
    assert wanted <= set(registry.subjects())
    with pytest.raises(SchemaDataError, match="needs a topic"):
        AvroSerializer(registry, ORDER)(VALUE)


def test_without_registration_the_schema_must_be_there(registry: Registry, topic: str) -> None:
    with pytest.raises(RegistryRequestError) as refused:
        AvroSerializer(registry, ORDER, topic=topic, registration="lookup")(VALUE)
    assert refused.value.code == 40401
    AvroSerializer(registry, NEWER, topic=topic).prepare()
    latest = AvroSerializer(registry, ORDER, topic=topic, registration="latest")
    assert AvroDeserializer(registry)(latest({"id": 1, "count": 2})) == {"id": 1, "count": 2}


def test_references_are_read_from_the_registry(registry: Registry, topic: str) -> None:
    customer = {"type": "record", "name": "shop.Customer", "fields": [{"name": "name", "type": "string"}]}
    AvroSerializer(registry, customer, topic=f"{topic}-c").prepare()
    sale = {"type": "record", "name": "shop.Sale", "fields": [{"name": "by", "type": "shop.Customer"}]}
    reference = Reference("shop.Customer", f"{topic}-c-value", 1)
    data = AvroSerializer(registry, sale, topic=topic, references=[reference])({"by": {"name": "Ada"}})
    assert AvroDeserializer(registry)(data) == {"by": {"name": "Ada"}}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "too few"),
        (b"\x00\x00\x00", "too few"),
        (b"\x07\x00\x00\x00\x01x", "begins with byte 7"),
    ],
)
def test_data_of_another_kind_is_refused_in_words(registry: Registry, data: bytes, words: str) -> None:
    with pytest.raises(SchemaDataError, match=words):
        AvroDeserializer(registry)(data)


def test_data_that_is_cut_off_is_refused(registry: Registry, topic: str) -> None:
    data = AvroSerializer(registry, ORDER, topic=topic)(VALUE)
    with pytest.raises(SchemaDataError, match="cannot be read by the schema"):
        AvroDeserializer(registry)(data[:-3])


def test_an_unknown_id_is_asked_for_once(bootstrap: str) -> None:
    """The second refusal comes from memory: the gateway is gone by then."""
    foreign = b"\x00\x00\x0f\x42\x40x"
    with gateway_place(bootstrap) as own:
        registry = Registry(own.gateway.url)
        with pytest.raises(RegistryRequestError) as first:
            AvroDeserializer(registry)(foreign)
    with pytest.raises(RegistryRequestError) as second:
        AvroDeserializer(registry)(foreign)
    assert (first.value.code, second.value.code) == (40403, 40403)


def test_a_registry_that_is_not_there_is_named() -> None:
    with pytest.raises(ConnectionError, match=r"no schema registry answers: http://127\.0\.0\.1:9"):
        Registry("http://127.0.0.1:9").subjects()
    with pytest.raises(ValueError, match="is no address of a registry"):
        Registry("localhost:8082")


def test_the_second_address_serves_when_the_first_is_gone(gateway: GatewayPlace) -> None:
    registry = Registry(f"http://127.0.0.1:9, {gateway.gateway.url}")
    assert isinstance(registry.subjects(), list)
