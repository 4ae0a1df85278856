"""Values by a registry's schemas as columns: Avro, JSON Schema and Protobuf, with evolution, in one topic each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.integration.gateway_place import gateway_place

import ottla.lake
import ottla.testing
from ottla.blocking import Producer
from ottla.lake.plan.definition import TableDefinition
from ottla.lake.topic import Cluster
from ottla.lake.warehouse import Warehouse
from ottla.lake.writing.job import TableWriter
from ottla.serializers import AvroSerializer, JsonSchemaSerializer, ProtobufSerializer, Registry

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "tags", "type": {"type": "map", "values": "string"}, "default": {}},
        {"name": "next", "type": ["null", "shop.Order"], "default": None},
        {"name": "either", "type": ["null", "int", "string"], "default": None},
    ],
}
NEWER = {**ORDER, "fields": [*ORDER["fields"], {"name": "country", "type": "string", "default": "SI"}]}
PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
enum Kind { TEA = 0; COFFEE = 1; }
message Order {
  int64 id = 1;
  optional string note = 2;
  repeated Kind kinds = 3;
  map<string, int32> counts = 4;
  google.protobuf.Timestamp at = 5;
  Order parent = 6;
}
"""


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[str, str]]:
    """The addresses of a broker and of a registry."""
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(ottla.testing.broker())
        yield broker.bootstrap, stack.enter_context(gateway_place(broker.bootstrap)).gateway.url


def table_of(place: tuple[str, str], tmp_path: Path, topic: str, values: list[Any]) -> tuple[Any, int]:
    """The rows of a table of these values, and how many dead letters there are."""
    bootstrap, url = place
    with Producer(bootstrap) as producer:
        for serialize, value in values:
            producer.send(topic, serialize(topic, value) if serialize is not None else value)
    warehouse = Warehouse(tmp_path)
    definition = TableDefinition(topic, topic, "iceberg", "registry", registry=url)
    warehouse.enable(definition)
    (done,) = TableWriter(warehouse, definition, Cluster(bootstrap)).run()
    rows = ottla.lake.scan(topic, bootstrap=bootstrap, warehouse=tmp_path).read_all().sort_by("offset")
    return rows, done.dead_letters


def serialized(serializer: Any) -> Any:
    return lambda topic, value: serializer.serialize(value, topic)


def test_avro_becomes_columns_and_a_newer_schema_adds_one(place: tuple[str, str], tmp_path: Path) -> None:
    registry = Registry(place[1])
    old, new = (serialized(AvroSerializer(registry, each)) for each in (ORDER, NEWER))
    order: dict[str, Any] = {
        "id": 1,
        "price": Decimal("2.50"),
        "tags": {"a": "b"},
        "next": None,
        "either": "x",
    }
    values: list[tuple[Any, Any]] = [
        (old, order),
        (new, {**order, "id": 2, "next": {**order, "country": "AT"}, "country": "AT"}),
        (None, b"junk"),
        (None, b"\0\0\0\xff\xff?"),
    ]
    rows, letters = table_of(place, tmp_path, "avro_orders", values)
    assert letters == 2
    assert rows["id"].to_pylist() == [1, 2]
    assert rows["price"].to_pylist() == [Decimal("2.50")] * 2
    assert rows["tags"].to_pylist() == [[("a", "b")]] * 2
    assert rows["either"].to_pylist() == ['"x"'] * 2
    assert rows["country"].to_pylist() == [None, "AT"]
    assert '"id": 1' in rows["next"].to_pylist()[1]


def test_protobuf_becomes_columns(place: tuple[str, str], tmp_path: Path) -> None:
    write = serialized(ProtobufSerializer(Registry(place[1]), PROTO, message="shop.Order"))
    value = {
        "id": 5,
        "kinds": ["COFFEE", "TEA"],
        "counts": {"x": 2},
        "at": "2026-01-02T03:04:05Z",
        "parent": {"id": 4},
    }
    rows, letters = table_of(place, tmp_path, "proto_orders", [(write, value)])
    (row,) = rows.select(["id", "note", "kinds", "counts", "at", "parent"]).to_pylist()
    assert letters == 0
    assert (row["id"], row["note"], row["kinds"], row["counts"]) == (5, None, ["COFFEE", "TEA"], [("x", 2)])
    assert row["at"].isoformat() == "2026-01-02T03:04:05+00:00"
    assert '"id"' in row["parent"]


def test_json_schema_becomes_columns(place: tuple[str, str], tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
    write = serialized(JsonSchemaSerializer(Registry(place[1]), schema))
    rows, letters = table_of(place, tmp_path, "json_orders", [(write, {"id": 1, "name": "a"}), (None, None)])
    assert letters == 0
    assert rows.select(["id", "name"]).to_pylist() == [{"id": 1, "name": "a"}, {"id": None, "name": None}]
