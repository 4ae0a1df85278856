"""The columns of an Avro schema: types of Arrow, and how fastavro's values become theirs.

A union of null and one type is that type. A union of several types, and a record that contains itself, have no
type in a table: their values are kept as JSON texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

_PLAIN: Final = {
    "null": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_LOGICAL: Final = {
    "date": pa.date32(),
    "time-millis": pa.time64("us"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("us", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}


class Column(NamedTuple):
    """A type of Arrow, and the function that makes its values of fastavro's; None if they are the same."""

    type: pa.DataType
    convert: Callable[[Any], Any] | None = None


def column_of(schema: Any, named: Mapping[str, Any], inside: frozenset[str] = frozenset()) -> Column:
    """The column of a parsed schema; `named` has the schemas by full name, `inside` those around this one."""
    if isinstance(schema, str):
        return Column(_PLAIN[schema]) if schema in _PLAIN else _named_column(schema, named, inside)
    if isinstance(schema, list):
        return _union(schema, named, inside)
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        return Column(pa.decimal128(schema["precision"], schema.get("scale", 0)))
    if logical == "uuid":
        return Column(pa.string(), str)
    if logical in _LOGICAL:
        return Column(_LOGICAL[logical])
    match kind:
        case "record" | "error":
            return _record(schema, named, inside)
        case "array":
            return _array(column_of(schema["items"], named, inside))
        case "map":
            return _map(column_of(schema["values"], named, inside))
    return column_of(kind, named, inside)


def _named_column(name: str, named: Mapping[str, Any], inside: frozenset[str]) -> Column:
    return _as_json() if name in inside else column_of(named[name], named, inside)


def _union(branches: list[Any], named: Mapping[str, Any], inside: frozenset[str]) -> Column:
    others = [each for each in branches if each != "null"]
    return column_of(others[0], named, inside) if len(others) == 1 else _as_json()


def _record(schema: Any, named: Mapping[str, Any], inside: frozenset[str]) -> Column:
    if schema["name"] in inside:
        return _as_json()
    deeper = inside | {schema["name"]}
    fields = {each["name"]: column_of(each["type"], named, deeper) for each in schema["fields"]}
    converts = {name: column.convert for name, column in fields.items() if column.convert is not None}
    kind = pa.struct([pa.field(name, column.type) for name, column in fields.items()])

    def convert(value: dict[str, Any]) -> dict[str, Any]:
        changed = {name: each(value[name]) for name, each in converts.items() if value.get(name) is not None}
        return {**value, **changed}

    return Column(kind, convert if converts else None)


def _array(items: Column) -> Column:
    each = items.convert
    if each is None:
        return Column(pa.list_(items.type))
    return Column(pa.list_(items.type), lambda values: [None if one is None else each(one) for one in values])


def _map(values: Column) -> Column:
    each = values.convert or (lambda value: value)

    def convert(pairs: dict[str, Any]) -> list[tuple[str, Any]]:
        return [(name, None if value is None else each(value)) for name, value in pairs.items()]

    return Column(pa.map_(pa.string(), values.type), convert)


def _as_json() -> Column:
    return Column(pa.string(), lambda value: json.dumps(value, default=str))
