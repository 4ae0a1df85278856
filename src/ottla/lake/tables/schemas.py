"""Arrow schemas of tables: the columns of the record, those of the value, and how a table grows.

Rules
- Columns are added, and structs get new fields; nothing is removed or renamed.
- A whole number becomes wider (int to long), a float becomes a double. Any other change of a type does not fit:
  UnfitTypeError.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from ottla.lake.plan.definition import TableDefinition
from ottla.spark.decode.schema import HEADERS, TIMESTAMP

_KEYS: Final = [
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", TIMESTAMP),
    pa.field("timestamp_type", pa.int32()),
    pa.field("key", pa.binary()),
]
RAW_SCHEMA: Final = pa.schema([*_KEYS, pa.field("value", pa.binary()), pa.field("headers", HEADERS)])
RECORD_SCHEMA: Final = pa.schema([*_KEYS, pa.field("headers", HEADERS)])
DEAD_LETTER_SCHEMA: Final = RAW_SCHEMA.append(pa.field("reason", pa.string()))

_TYPES: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "timestamp": TIMESTAMP,
}
_WIDER: Final = {pa.int32(): pa.int64(), pa.float32(): pa.float64()}


class UnfitTypeError(ValueError):
    """A column cannot hold values of another type."""


def declared_type(text: str) -> pa.DataType:
    """The type of a declared column; ValueError for an unknown one."""
    found = _TYPES.get(text.strip().lower())
    if found is None:
        raise ValueError(f"'{text}' is no type of a column; there are {', '.join(_TYPES)}")
    return found


def first_schema(definition: TableDefinition) -> pa.Schema:
    """The columns of a table before its first commit."""
    if definition.value == "raw":
        return RAW_SCHEMA
    declared = [pa.field(name, declared_type(text)) for name, text in definition.columns.items()]
    return pa.schema([*RECORD_SCHEMA, *declared])


def value_columns(schema: pa.Schema) -> pa.Schema:
    """The columns that come from the value."""
    return pa.schema([field for field in schema if field.name not in RECORD_SCHEMA.names])


def merged(schema: pa.Schema, other: pa.Schema) -> pa.Schema:
    """A schema that holds the rows of both; UnfitTypeError names the column that stands against it."""
    fields = {field.name: field.type for field in schema}
    for field in other:
        known = fields.get(field.name)
        fields[field.name] = field.type if known is None else _merged_type(known, field.type, field.name)
    return pa.schema([pa.field(name, kind) for name, kind in fields.items()])


def _merged_type(known: pa.DataType, other: pa.DataType, name: str) -> pa.DataType:
    if known == other or _WIDER.get(other) == known:
        return known
    if _WIDER.get(known) == other:
        return other
    if pa.types.is_struct(known) and pa.types.is_struct(other):
        inner = merged(pa.schema(list(known)), pa.schema(list(other)))
        return pa.struct(list(inner))
    if pa.types.is_list(known) and pa.types.is_list(other):
        return pa.list_(_merged_type(known.value_type, other.value_type, f"{name}[]"))
    raise UnfitTypeError(f"the column {name} is {known}, and cannot hold {other}")


def in_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with all columns of a schema: those that they lack are null."""
    arrays = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(arrays, schema=schema)


def small_types(schema: pa.Schema) -> pa.Schema:
    """The schema without the large forms of types and without metadata: what the files hold."""
    return pa.schema([pa.field(field.name, _small(field.type)) for field in schema])


def _small(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_small(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _small(field.type)) for field in kind])
    return kind
