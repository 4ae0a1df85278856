"""JSON Schema: a yes is the truth (jsonschema agrees), and a no says what and where."""

from __future__ import annotations

import json
import time
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.schemas.json_schema.inclusion import unaccepted
from ottla.schemas.json_schema.model import canonical_text, parse_json_schema
from ottla.schemas.schema import Imported, InvalidSchemaError


def reasons(reader: object, writer: object) -> list[str]:
    found = unaccepted(parse_json_schema(json.dumps(reader)), parse_json_schema(json.dumps(writer)))
    return [each.path for each in found]


def obj(properties: dict[str, Any], *required: str, **others: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), **others}


INT, TEXT, NULL = {"type": "integer"}, {"type": "string"}, {"type": "null"}
TREE = {"$ref": "#/$defs/t", "$defs": {"t": obj({"v": INT, "l": {"$ref": "#/$defs/t"}}, "v")}}
WIDE = {"$ref": "#/$defs/t", "$defs": {"t": obj({"v": {"type": "number"}, "l": {"$ref": "#/$defs/t"}}, "v")}}
CAT = obj({"kind": {"const": "cat"}, "lives": INT}, "kind")
DOG = obj({"kind": {"const": "dog"}, "barks": {"type": "boolean"}}, "kind")


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        (True, TEXT),
        ({}, TEXT),
        (TEXT, False),
        ({"type": "number"}, INT),
        ({"type": ["string", "null"]}, NULL),
        ({"enum": ["a", "b", 1]}, {"enum": ["b", 1.0]}),
        ({"enum": ["a"]}, {"const": "a"}),
        ({"minimum": 1}, {"type": "integer", "minimum": 1}),
        ({"minimum": 1}, {"type": "number", "exclusiveMinimum": 1}),
        ({"minimum": 1}, TEXT),
        ({"multipleOf": 2}, {"type": "integer", "multipleOf": 4}),
        ({"maxLength": 5, "pattern": "x"}, {"type": "string", "maxLength": 4, "pattern": "x"}),
        (obj({"a": INT, "b": INT}), obj({"a": INT, "b": INT}, "a")),
        (obj({"a": INT}), obj({"a": INT, "b": TEXT})),
        (obj({"a": INT, "b": TEXT}, additionalProperties=False), obj({"a": INT}, additionalProperties=False)),
        ({"items": {"type": "number"}}, {"type": "array", "items": INT}),
        ({"prefixItems": [TEXT], "items": INT}, {"type": "array", "items": [TEXT], "additionalItems": INT}),
        ({"anyOf": [INT, TEXT]}, INT),
        ({"anyOf": [INT, TEXT, NULL]}, {"anyOf": [TEXT, INT]}),
        ({"oneOf": [INT, TEXT, NULL]}, {"oneOf": [TEXT, INT]}),
        ({"oneOf": [CAT, DOG]}, CAT),
        ({"oneOf": [CAT, DOG, NULL]}, {"oneOf": [DOG, CAT]}),
        ({"allOf": [INT, {"minimum": 0}]}, {"allOf": [{"minimum": 3}, INT]}),
        ({"not": TEXT}, INT),
        ({"not": {"pattern": "x"}, "title": "new"}, {"not": {"pattern": "x"}}),
        (WIDE, TREE),
        (TREE, TREE),
        ({"patternProperties": {"^x": TEXT}}, obj({"a": INT}, patternProperties={"^x": TEXT})),
    ],
)
def test_what_a_reader_accepts(reader: object, writer: object) -> None:
    assert reasons(reader, writer) == []


@pytest.mark.parametrize(
    ("reader", "writer", "path"),
    [
        (False, TEXT, "/"),
        (INT, {"type": "number"}, "/type"),
        (TEXT, {}, "/type"),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, "/enum"),
        ({"const": True}, {"const": 1}, "/const"),
        ({"minimum": 2}, {"type": "integer", "minimum": 1}, "/minimum"),
        ({"exclusiveMinimum": 1}, {"type": "number", "minimum": 1}, "/exclusiveMinimum"),
        ({"maxLength": 3}, TEXT, "/maxLength"),
        ({"pattern": "a"}, {"type": "string", "pattern": "b"}, "/pattern"),
        (obj({}, "a"), obj({"a": INT}), "/required"),
        (obj({"a": TEXT}), obj({"a": INT}, "a"), "/properties/a/type"),
        (obj({"b": TEXT}), obj({"a": INT}), "/properties/b/type"),
        (obj({"a": INT}, additionalProperties=False), obj({"a": INT}), "/additionalProperties"),
        ({"items": INT}, {"type": "array", "items": TEXT}, "/items/0/type"),
        ({"anyOf": [INT, NULL]}, {"anyOf": [INT, TEXT]}, "/anyOf"),
        ({"oneOf": [{"type": "number"}, INT]}, INT, "/oneOf"),
        ({"not": INT}, {"type": "number"}, "/not"),
        (TREE, WIDE, "/properties/v/type"),
        ({"if": INT, "then": {"minimum": 1}}, INT, "/if"),
        (
            {"if": {"$ref": "#/$defs/a"}, "then": False, "$defs": {"a": INT}},
            {"if": {"$ref": "#/$defs/a"}, "then": False, "$defs": {"a": TEXT}},
            "/if",
        ),
    ],
)
def test_what_a_reader_may_refuse_is_named_with_its_place(reader: object, writer: object, path: str) -> None:
    assert path in reasons(reader, writer)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("{", "not JSON"),
        ("[]", "must be an object, true or false"),
        ('{"type": "text"}', "/type: there is no type 'text'"),
        ('{"properties": []}', "/properties: it must be an object of schemas"),
        ('{"properties": {"a": 3}}', "/properties/a: a schema must be"),
        ('{"anyOf": {}}', "/anyOf: it must be a list of schemas"),
        ('{"required": "a"}', "/required: it must be a list of names"),
        ('{"minLength": -1}', "/minLength: it must be a whole number"),
        ('{"multipleOf": 0}', "/multipleOf: it must be a number over 0"),
        ('{"pattern": 3}', "/pattern: it must be a text"),
        ('{"$ref": "#/$defs/a"}', "leads nowhere"),
        ('{"$ref": "http://other/schema"}', "leads nowhere"),
        ('{"$dynamicRef": "#a"}', "$dynamicRef is not served"),
        ('{"$defs": {"a": {"$id": "http://x"}}}', "is not served"),
        ('{"items": ' * 300 + "true" + "}" * 300, "nested deeper"),
    ],
)
def test_what_is_no_schema_is_refused_with_its_place(schema: str, words: str) -> None:
    with pytest.raises(InvalidSchemaError) as refused:
        parse_json_schema(schema)
    assert words in str(refused.value)


def test_references_lead_to_imported_schemas() -> None:
    schema = json.dumps({"properties": {"by": {"$ref": "customer.json#/$defs/c"}}})
    reader = parse_json_schema(
        schema, [Imported("customer.json", json.dumps({"$defs": {"c": {"type": "number"}}}))]
    )
    writer = parse_json_schema(schema, [Imported("customer.json", json.dumps({"$defs": {"c": INT}}))])
    assert unaccepted(reader, writer) == []
    assert unaccepted(writer, reader) != []


def test_old_drafts_ignore_what_stands_beside_a_reference() -> None:
    old = {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"type": "number"}}}
    writer = {**old, "properties": {"x": {"$ref": "#/definitions/a", "type": "integer"}}}
    reader = {**old, "properties": {"x": INT}}
    assert reasons(reader, writer) == ["/properties/x/type"]


def test_the_canonical_text_keeps_the_order_and_the_normal_one_sorts() -> None:
    schema = parse_json_schema('{ "type": "object",\n "$id": "x" }')
    assert canonical_text(schema) == '{"type":"object","$id":"x"}'
    assert canonical_text(schema, True) == '{"$id":"x","type":"object"}'


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "(a+)+$"},
        {"$ref": "#"},
        {"anyOf": [{"$ref": "#"}] * 30},
        {"allOf": [{"$ref": "#"}] * 30},
        {"oneOf": [{"$ref": "#"}] * 30},
        {"properties": {str(n): {"$ref": "#"} for n in range(300)}, "required": [str(n) for n in range(300)]},
        {"enum": list(range(20_000))},
        {"patternProperties": {f"(a*)*{n}": {"type": "string"} for n in range(500)}},
    ],
)
def test_schemas_that_are_traps_are_compared_or_refused_in_bounded_time(schema: dict[str, Any]) -> None:
    begin = time.perf_counter()
    try:
        other = {**schema, "title": "other", "maxLength": 3}
        reasons(other, schema)
        reasons({"oneOf": [schema, other]}, {"anyOf": [other, schema]})
    except InvalidSchemaError:
        pass
    assert time.perf_counter() - begin < 60  # a second or two on an idle machine


# ---- the rules against jsonschema

_VALUES: list[Any] = [None, True, 0, 1, 2, 3, 1.5, -4, "", "a", "bb", "ccc", [], [1], ["a", 2], {}]
_VALUES += [{"a": 1}, {"a": "a"}, {"b": 1}, {"a": 1, "b": "x"}, {"a": None}, [[1]], {"a": {"a": 1}}]


def _schemas() -> st.SearchStrategy[Any]:
    simple = st.one_of(
        st.sampled_from(
            [True, False, {}, NULL, INT, TEXT, {"type": "number"}, {"type": ["integer", "string"]}]
        ),
        st.builds(lambda low: {"type": "integer", "minimum": low}, st.integers(0, 3)),
        st.builds(lambda low: {"exclusiveMaximum": low}, st.integers(0, 3)),
        st.builds(lambda most: {"maxLength": most}, st.integers(0, 3)),
        st.builds(lambda values: {"enum": values}, st.lists(st.sampled_from([1, 2, "a", None]), min_size=1)),
    )

    def bigger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        some = st.lists(inner, min_size=1, max_size=3)
        names = st.lists(st.sampled_from(["a", "b"]), unique=True)
        properties = st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
        return st.one_of(
            some.map(lambda each: {"anyOf": each}),
            some.map(lambda each: {"oneOf": each}),
            some.map(lambda each: {"allOf": each}),
            inner.map(lambda each: {"not": each}),
            inner.map(lambda each: {"type": "array", "items": each}),
            st.builds(lambda p, n, rest: obj(p, *n, additionalProperties=rest), properties, names, inner),
            st.builds(lambda p, n: {"properties": p, "required": n}, properties, names),
        )

    return st.recursive(simple, bigger, max_leaves=5)


@settings(max_examples=600, deadline=None)
@given(_schemas(), _schemas(), st.integers(0, 3))
def test_every_value_of_the_writer_is_accepted_by_a_reader_that_is_called_wider(
    writer: Any, other: Any, how: int
) -> None:
    reader = [other, {"anyOf": [writer, other]}, {"oneOf": [writer, other]}, {"allOf": [writer, other]}][how]
    if reasons(reader, writer):
        return
    reads, writes = jsonschema.Draft202012Validator(reader), jsonschema.Draft202012Validator(writer)
    assert [each for each in _VALUES if writes.is_valid(each) and not reads.is_valid(each)] == []
