"""Avro schemas are read as the specification says, and refused with the place of what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.schemas.avro.canonical import canonical_text
from ottla.schemas.avro.parser import parse_avro
from ottla.schemas.schema import Imported, InvalidSchemaError


def record(*fields: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields), **others}


def canonical(schema: object, *, is_normal: bool = False) -> Any:
    return json.loads(canonical_text(parse_avro(json.dumps(schema)), is_normal))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("{", "not JSON"),
        ('"strin"', "there is no type 'strin'"),
        ('{"name": "x"}', '"type" is missing'),
        ("3", "must be a name, an object or a list, not 3"),
        (json.dumps(record({"name": "f"})), '/fields/0: "type" is missing'),
        (json.dumps(record({"name": "1f", "type": "int"})), "'1f' cannot be a name"),
        (
            json.dumps(record({"name": "f", "type": "int"}, {"name": "f", "type": "int"})),
            "field f is there twice",
        ),
        (json.dumps(record({"name": "f", "type": "int", "default": "x"})), "/fields/0/default"),
        (json.dumps(record({"name": "f", "type": "int", "default": 2**31})), "/fields/0/default"),
        (json.dumps(record({"name": "f", "type": "int", "order": "up"})), '"order" can be'),
        (json.dumps(record(name="int")), "cannot be defined"),
        (json.dumps(record({"name": "f", "type": record()})), "R is defined twice"),
        ('["int", "int"]', "has int more than once"),
        ('["int", ["null"]]', "cannot be a branch of a union"),
        ('{"type": "enum", "name": "E", "symbols": ["a", "a"]}', "symbol a is there twice"),
        ('{"type": "enum", "name": "E", "symbols": ["a"], "default": "b"}', "'b' is no symbol"),
        ('{"type": "enum", "name": "E"}', '"symbols" is missing'),
        ('{"type": "fixed", "name": "F", "size": -1}', '"size" must be a whole number'),
        ('{"type": "array"}', '"items" is missing'),
        ('{"type": "record", "name": "R", "fields": 3}', '"fields" must be a list'),
        ('{"type": "record", "name": "R", "namespace": "a..b", "fields": []}', "cannot be a name"),
        ("NaN", "NaN is no JSON"),
    ],
)
def test_what_is_no_schema_is_refused_with_its_place(schema: str, words: str) -> None:
    with pytest.raises(InvalidSchemaError) as refused:
        parse_avro(schema)
    assert words in str(refused.value)


@pytest.mark.parametrize("depth", [150, 5_000, 100_000])
def test_a_schema_without_end_is_refused(depth: int) -> None:
    with pytest.raises(InvalidSchemaError, match="deep"):
        parse_avro('{"type":"array","items":' * depth + '"int"' + "}" * depth)


def test_a_schema_is_written_as_java_writes_it() -> None:
    schema = {
        "fields": [
            {
                "doc": "d",
                "type": {"type": "string"},
                "name": "a",
                "order": "ascending",
                "default": "é",
                "x": 1,
            },
            {"name": "next", "default": None, "type": ["null", "shop.Order"], "aliases": ["n"]},
            {
                "name": "e",
                "type": {"name": "other.E", "type": "enum", "default": "A", "symbols": ["A"], "doc": "y"},
            },
            {"name": "e2", "type": "other.E"},
            {"name": "f", "type": {"size": 3, "name": "F", "type": "fixed", "aliases": ["old.F", "G"]}},
        ],
        "aliases": ["Bestellung"],
        "name": "shop.Order",
        "type": "record",
    }
    assert canonical_text(parse_avro(json.dumps(schema))) == (
        '{"type":"record","name":"Order","namespace":"shop","fields":['
        '{"name":"a","type":"string","doc":"d","default":"é","x":1},'
        '{"name":"next","type":["null","Order"],"default":null,"aliases":["n"]},'
        '{"name":"e","type":{"type":"enum","name":"E","namespace":"other","doc":"y","symbols":["A"],"default":"A"}},'
        '{"name":"e2","type":"other.E"},'
        '{"name":"f","type":{"type":"fixed","name":"F","size":3,"aliases":["old.F","G"]}}'
        '],"aliases":["Bestellung"]}'
    )


def test_the_name_of_a_simple_type_may_stand_without_quotation_marks() -> None:
    assert canonical_text(parse_avro("string")) == '"string"'


def test_a_normal_text_sorts_properties_and_begins_with_the_logical_type() -> None:
    schema = {"type": "bytes", "z": 1, "scale": 2, "a": 2, "precision": 4, "logicalType": "decimal"}
    assert list(canonical(schema)) == ["type", "z", "scale", "a", "precision", "logicalType"]
    assert list(canonical(schema, is_normal=True)) == ["type", "logicalType", "precision", "scale", "a", "z"]


def test_the_canonical_text_is_its_own_canonical_text() -> None:
    schema = record({"name": "f", "type": ["null", {"type": "map", "values": "R"}]}, namespace="a.b", doc="d")
    once = canonical_text(parse_avro(json.dumps(schema)))
    assert canonical_text(parse_avro(once)) == once


def test_types_of_referenced_schemas_are_known_and_not_written_again() -> None:
    customer = '{"type":"record","name":"shop.Customer","fields":[{"name":"id","type":"long"}]}'
    order = '{"type":"record","name":"shop.Order","fields":[{"name":"by","type":"Customer"}]}'
    with pytest.raises(InvalidSchemaError, match="there is no type 'Customer'"):
        parse_avro(order)
    parsed = parse_avro(order, [Imported("shop.Customer", customer)])
    assert json.loads(canonical_text(parsed))["fields"] == [{"name": "by", "type": "Customer"}]
    with pytest.raises(InvalidSchemaError, match="the referenced schema c: the schema is not JSON"):
        parse_avro(order, [Imported("c", "{")])
