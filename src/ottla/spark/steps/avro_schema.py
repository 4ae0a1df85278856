"""A schema of Avro as Spark's types. The types are those of Spark's own reader; a union other
than with null has no type there.

Needs pyspark only for the names of types: nothing is asked of a session.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ottla.spark.steps.arguments import StepError

_PRIMITIVES: Final[Mapping[str, Callable[[], DataType]]] = {
    "boolean": BooleanType,
    "int": IntegerType,
    "long": LongType,
    "float": FloatType,
    "double": DoubleType,
    "bytes": BinaryType,
    "string": StringType,
}
_LOGICAL: Final[Mapping[tuple[str, str], Callable[[], DataType]]] = {
    ("int", "date"): DateType,
    ("long", "timestamp-millis"): TimestampType,
    ("long", "timestamp-micros"): TimestampType,
    ("long", "local-timestamp-millis"): TimestampNTZType,
    ("long", "local-timestamp-micros"): TimestampNTZType,
}


def parse_avro_schema(schema: object) -> dict[str, Any]:
    """A record's schema, given as JSON or as what JSON says."""
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except ValueError as error:
            raise StepError(f"schema is not JSON: {error}") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise StepError(
            "schema is not an Avro record: expected {'type': 'record', 'name': …, 'fields': […]}."
        )
    return schema


def record_type(schema: Mapping[str, Any]) -> StructType:
    """The struct for a record."""
    if not isinstance(schema.get("fields"), list) or not schema["fields"]:
        raise StepError(f"the Avro record {schema.get('name')} has no fields.")
    return StructType(
        [StructField(each["name"], _type(each["type"], each["name"]), True) for each in schema["fields"]]
    )


def _type(schema: Any, field: str) -> DataType:
    if isinstance(schema, list):
        return _union(schema, field)
    if isinstance(schema, str):
        if schema not in _PRIMITIVES:
            raise StepError(f"the Avro field {field} has the type {schema!r}, which is unknown here.")
        return _PRIMITIVES[schema]()
    kind = schema["type"]
    if kind == "record":
        return record_type(schema)
    if kind == "array":
        return ArrayType(_type(schema["items"], field), True)
    if kind == "map":
        return MapType(StringType(), _type(schema["values"], field), True)
    if kind in ("enum", "fixed"):
        return StringType() if kind == "enum" else _decimal(schema) or BinaryType()
    if not isinstance(kind, str):
        return _type(kind, field)
    return _logical(kind, schema) or _type(kind, field)


def _logical(kind: str, schema: Mapping[str, Any]) -> DataType | None:
    if kind == "bytes":
        return _decimal(schema)
    made = _LOGICAL.get((kind, schema.get("logicalType", "")))
    return made() if made else None


def _decimal(schema: Mapping[str, Any]) -> DataType | None:
    if schema.get("logicalType") != "decimal":
        return None
    return DecimalType(schema["precision"], schema.get("scale", 0))


def _union(schema: list[Any], field: str) -> DataType:
    others = [each for each in schema if each != "null"]
    if len(others) != 1:
        raise StepError(
            f"the Avro field {field} is a union of {len(others)} types: Spark has room for one, and null."
        )
    return _type(others[0], field)
