"""Avro by a schema registry in Spark: each record by its own schema, bad ids to dead letters, and back to a topic."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.integration.gateway_place import gateway_place

import ottla
import ottla.testing
from ottla.serializers import AvroDeserializer, AvroSerializer, JsonSchemaSerializer, Registry
from ottla.spark import steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.spark.conftest import NewTopic

FIRST = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
SECOND = {
    **FIRST,
    "fields": [{"name": "id", "type": "long"}, {"name": "item", "type": "string", "default": "coffee"}],
}


@pytest.fixture(scope="module")
def registry(broker: ottla.testing.EmbeddedBroker) -> Iterator[str]:
    with gateway_place(broker.bootstrap) as place:
        yield f"http://127.0.0.1:{place.port}"


def test_each_record_is_read_by_its_own_schema_and_written_by_one(
    spark: SparkSession, broker: ottla.testing.EmbeddedBroker, new_topic: NewTopic, registry: str
) -> None:
    known = Registry(registry)
    old, new = (AvroSerializer(known, each, topic="evolving") for each in (FIRST, SECOND))
    other = JsonSchemaSerializer(known, {"type": "object"}, topic="other")
    values = [old({"id": 1}), new({"id": 2, "item": "tea"}), b"\0\0\0\x27\x0fx", b"plain", other({"id": 3})]
    topic = new_topic(values=values)
    rows = steps.read_range(spark, topic, bootstrap_servers=broker.bootstrap)
    judged = steps.parse_by_registry(rows, registry, json.dumps(SECOND))
    written = steps.encode_by_registry(judged, registry, SECOND, "copied").orderBy("offset").collect()
    parsed = judged.orderBy("offset").collect()
    assert [each.parsed and each.parsed.asDict() for each in parsed] == [
        {"id": 1, "item": "coffee"},
        {"id": 2, "item": "tea"},
        *[None] * 3,
    ]
    for each, words in zip(parsed[2:], ("9999", "not with 0", "type JSON"), strict=True):
        assert words in each.reason
    read = AvroDeserializer(known)
    assert [each.encoded and read(bytes(each.encoded)) for each in written][:2] == [
        {"id": 1, "item": "coffee"},
        {"id": 2, "item": "tea"},
    ]
    assert all(each.encoded is None and each.reason == "the value is null" for each in written[2:])
    assert known.versions("copied-value") == [1]


def test_a_registry_that_is_no_address_is_refused(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(bytearray(b"x"),)], "value BINARY")
    with pytest.raises(steps.StepError, match="login takes"):
        steps.parse_by_registry(rows, "http://localhost:1", FIRST, login={"user": "x"})
    with pytest.raises(steps.StepError, match="address of a registry"):
        steps.encode_by_registry(rows, "localhost", FIRST, "t")
