"""Avro's resolution rules, and that they tell the truth: fastavro reads what they call readable."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.schemas.avro.parser import parse_avro
from ottla.schemas.avro.resolution import unreadable
from ottla.schemas.schema import InvalidSchemaError


def record(*fields: dict[str, Any], name: str = "R", **others: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **others}


def field(name: str, kind: object, **others: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **others}


def enum(*symbols: str, **others: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **others}


def reasons(reader: object, writer: object) -> list[tuple[str, str]]:
    found = unreadable(parse_avro(json.dumps(reader)), parse_avro(json.dumps(writer)))
    return [(each.kind, each.path) for each in found]


LIST = record(field("v", "int"), field("next", ["null", "R"]))


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        *((each, each) for each in ("null", "boolean", "int", "long", "float", "double", "bytes", "string")),
        *(("long", "int"), ("float", "int"), ("double", "int"), ("float", "long"), ("double", "long")),
        *(("double", "float"), ("string", "bytes"), ("bytes", "string")),
        ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}),
        ({"type": "map", "values": "long"}, {"type": "map", "values": "int"}),
        (["null", "long"], "int"),
        (["null", "long"], ["int", "null"]),
        ("long", ["int", "long"]),
        (record(), record(field("a", "int"))),
        (record(field("a", "int", default=1)), record()),
        (record(field("b", "int", aliases=["a"])), record(field("a", "int"))),
        (record(name="S", aliases=["R"]), record()),
        (record(name="a.R"), record(name="b.R")),
        (enum("A", "B"), enum("B")),
        (enum("A", default="A"), enum("A", "B")),
        (LIST, LIST),
        (record(field("v", "long"), field("next", ["null", "R"])), LIST),
    ],
)
def test_what_the_specification_lets_a_reader_read(reader: object, writer: object) -> None:
    assert reasons(reader, writer) == []


@pytest.mark.parametrize(
    ("reader", "writer", "kind", "path"),
    [
        ("int", "long", "TYPE_MISMATCH", "/"),
        ("int", "string", "TYPE_MISMATCH", "/"),
        ("string", {"type": "array", "items": "string"}, "TYPE_MISMATCH", "/"),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, "TYPE_MISMATCH", "/items"),
        (["null", "int"], "string", "MISSING_UNION_BRANCH", "/"),
        (["null", "int"], ["null", "string"], "MISSING_UNION_BRANCH", "/"),
        ("int", ["int", "null"], "TYPE_MISMATCH", "/"),
        (record(field("a", "int")), record(), "READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/0"),
        (record(field("a", "int")), record(field("a", "string")), "TYPE_MISMATCH", "/fields/0/type"),
        (record(name="S"), record(), "NAME_MISMATCH", "/name"),
        (enum("A"), enum("A", "B"), "MISSING_ENUM_SYMBOLS", "/symbols"),
        (record(), enum("A"), "TYPE_MISMATCH", "/"),
        (
            {"type": "fixed", "name": "F", "size": 3},
            {"type": "fixed", "name": "F", "size": 4},
            "FIXED_SIZE_MISMATCH",
            "/size",
        ),
        (
            record(field("v", "string"), field("next", ["null", "R"])),
            LIST,
            "TYPE_MISMATCH",
            "/fields/0/type",
        ),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(
    reader: object, writer: object, kind: str, path: str
) -> None:
    assert (kind, path) in reasons(reader, writer)


def test_a_pair_that_is_refuted_late_is_not_taken_for_compatible_earlier() -> None:
    """The reader's union has to look behind a circle to see that its branch does not fit."""

    def pair(kind: str) -> dict[str, Any]:
        inner = record(field("back", ["null", "A"]), name="B")
        return record(field("b", ["null", inner]), field("x", kind), name="A")

    assert reasons(pair("int"), pair("int")) == []
    assert ("TYPE_MISMATCH", "/fields/1/type") in reasons(pair("int"), pair("string"))


def test_a_message_says_what_and_where() -> None:
    (found,) = unreadable(
        parse_avro(json.dumps(record(field("price", "int"), name="shop.Order"))),
        parse_avro(json.dumps(record(name="shop.Order"))),
    )
    assert str(found) == (
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'the reader's field 'price' of shop.Order has"
        " no default, and the writer does not have the field (at /fields/0)'}"
    )


def test_unions_that_would_take_hours_to_compare_are_refused() -> None:
    branches = [
        record(*(field(f"f{i}", ["null", "int", "string"]) for i in range(9)), name=f"n.R{n}")
        for n in range(300)
    ]
    schema = parse_avro(json.dumps(branches))
    other = parse_avro(json.dumps([{**each, "name": f"m.S{index}"} for index, each in enumerate(branches)]))
    with pytest.raises(InvalidSchemaError, match="too large to be compared"):
        unreadable(other, schema)


# ---- the rules against fastavro

_SIMPLE = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
_ENUM = st.lists(st.sampled_from("ABCD"), min_size=1, max_size=4, unique=True).map(
    lambda symbols: enum(*symbols)
)


def _with_default(pair: tuple[Any, str]) -> dict[str, Any]:
    kind, name = pair
    defaults: dict[str, Any] = {"int": 1, "long": 2, "string": "x", "boolean": True, "double": 0.5}
    made = field(name, kind)
    return {**made, "default": defaults[kind]} if isinstance(kind, str) and kind in defaults else made


def _schemas() -> st.SearchStrategy[Any]:
    """Types with at most one named type in them, so that no name is defined twice."""
    plain = st.recursive(
        _SIMPLE,
        lambda inner: st.one_of(
            inner.map(lambda each: {"type": "array", "items": each}),
            inner.map(lambda each: {"type": "map", "values": each}),
        ),
        max_leaves=3,
    )
    unions = st.lists(_SIMPLE, min_size=1, max_size=3, unique=True)
    names = st.sampled_from("abc")
    fields = st.lists(
        st.tuples(plain | unions, names, st.booleans()), max_size=3, unique_by=lambda each: each[1]
    ).map(lambda made: [_with_default(each[:2]) if each[2] else field(each[1], each[0]) for each in made])
    return plain | unions | _ENUM | fields.map(lambda each: record(*each))


def _value(schema: Any, draw: Any) -> Any:
    if isinstance(schema, list):
        return _value(draw(st.sampled_from(schema)), draw)
    kind = schema["type"] if isinstance(schema, dict) else schema
    match kind:
        case "array":
            return [_value(schema["items"], draw) for _ in range(draw(st.integers(0, 2)))]
        case "map":
            return {str(i): _value(schema["values"], draw) for i in range(draw(st.integers(0, 2)))}
        case "record":
            return {each["name"]: _value(each["type"], draw) for each in schema["fields"]}
        case "enum":
            return draw(st.sampled_from(schema["symbols"]))
    simple: dict[str, st.SearchStrategy[Any]] = {
        "null": st.none(),
        "boolean": st.booleans(),
        "int": st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**63), 2**63 - 1),
        "float": st.floats(width=32, allow_nan=False),
        "double": st.floats(allow_nan=False),
        "bytes": st.text("abc", max_size=3).map(str.encode),
        "string": st.text("abc", max_size=3),
    }
    return draw(simple[kind])


def _evolved(schema: Any, draw: Any) -> Any:
    """A schema like another one: changed in a few places, sometimes so that it cannot read the other's data."""
    if isinstance(schema, str):
        wider = {"int": ["long", "double"], "long": ["float"], "float": ["double"], "string": ["bytes"]}
        return draw(
            st.sampled_from([schema, schema, *wider.get(schema, []), ["null", schema][schema == "null" :]])
        )
    if isinstance(schema, list):
        return list(draw(st.permutations(schema))) + (["null"] if "null" not in schema else [])
    made = dict(schema)
    match made["type"]:
        case "array":
            made["items"] = _evolved(made["items"], draw)
        case "map":
            made["values"] = _evolved(made["values"], draw)
        case "enum":
            made["symbols"] = list(draw(st.permutations([*made["symbols"], "Z"])))
        case "record":
            kept = [each for each in made["fields"] if draw(st.booleans()) or draw(st.booleans())]
            fields = [{**each, "type": _evolved(each["type"], draw)} for each in kept]
            fields = [{key: each[key] for key in ("name", "type")} for each in fields]
            made["fields"] = [*fields, field("new", "int", default=1)]
    return made


@settings(max_examples=300, deadline=None)
@given(st.data(), _schemas())
def test_fastavro_reads_what_is_called_readable(data: st.DataObject, writer: Any) -> None:
    reader = _evolved(writer, data.draw)
    if reasons(reader, writer):
        return
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(writer), _value(writer, data.draw))
    buffer.seek(0)
    fastavro.schemaless_reader(buffer, fastavro.parse_schema(writer), fastavro.parse_schema(reader))
    assert buffer.read() == b""


@settings(max_examples=300, deadline=None)
@given(st.data(), _schemas(), _schemas())
def test_what_fastavro_cannot_read_is_not_called_readable(
    data: st.DataObject, reader: Any, writer: Any
) -> None:
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(writer), _value(writer, data.draw))
    buffer.seek(0)
    try:
        fastavro.schemaless_reader(buffer, fastavro.parse_schema(writer), fastavro.parse_schema(reader))
    except Exception:
        assert reasons(reader, writer) != []


@settings(max_examples=200, deadline=None)
@given(_schemas())
def test_every_schema_reads_its_own_data(schema: Any) -> None:
    assert reasons(schema, schema) == []
