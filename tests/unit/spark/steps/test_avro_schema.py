"""Schemas of Avro as Spark's types."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.spark.steps.arguments import StepError
from ottla.spark.steps.avro_schema import parse_avro_schema, record_type


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields]}


def test_types() -> None:
    schema = record(
        ("a", "string"),
        ("b", ["null", "long"]),
        ("c", {"type": "long", "logicalType": "timestamp-micros"}),
        ("d", {"type": "int", "logicalType": "date"}),
        ("e", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
        ("f", {"type": "array", "items": "int"}),
        ("g", {"type": "map", "values": "double"}),
        ("h", {"type": "enum", "name": "E", "symbols": ["x"]}),
        ("i", {"type": "fixed", "name": "F", "size": 4}),
        ("j", record(("k", "boolean"))),
        ("l", {"type": {"type": "string"}}),
        ("m", {"type": "bytes"}),
    )

    assert record_type(schema).simpleString() == (
        "struct<a:string,b:bigint,c:timestamp,d:date,e:decimal(9,2),f:array<int>,g:map<string,double>,h:string,i:binary,"
        "j:struct<k:boolean>,l:string,m:binary>"
    )


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "schema is not JSON"),
        ('"string"', "is not an Avro record"),
        ({"type": "record", "name": "R", "fields": []}, "has no fields"),
        (record(("a", ["int", "string"])), "a is a union of 2 types"),
        (record(("a", "text")), "a has the type 'text', which is unknown"),
    ],
)
def test_what_has_no_type_is_refused(schema: Any, message: str) -> None:
    with pytest.raises(StepError, match=message):
        record_type(parse_avro_schema(schema))
