"""The columns that the sink writes, found in a DataFrame's schema: value, and if they are there topic,
partition, key and headers.

Types and messages are those of Spark's Kafka sink. Other columns are not written; so what the source reads
can be written as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


class ColumnError(ValueError):
    """A column that is missing, or has a type that it cannot have."""


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """Which column of a batch has what; None where there is no such column."""

    value: int
    key: int | None
    topic: int | None
    partition: int | None
    headers: int | None

    def topics(self, batch: pa.RecordBatch) -> pa.Array | None:
        return None if self.topic is None else batch.column(self.topic)

    def partitions(self, batch: pa.RecordBatch) -> pa.Array | None:
        return None if self.partition is None else batch.column(self.partition)

    def header_lists(self, batch: pa.RecordBatch) -> pa.Array | None:
        """None also where no record has headers, as far as this batch goes."""
        if self.headers is None:
            return None
        lists = batch.column(self.headers)
        return None if lists.null_count == len(lists) else lists

    def keys(self, batch: pa.RecordBatch) -> pa.Array | None:
        if self.key is None:
            return None
        keys = batch.column(self.key)
        return None if keys.null_count == len(keys) else binary(keys)

    def values(self, batch: pa.RecordBatch) -> pa.Array:
        return binary(batch.column(self.value))


def sink_columns(schema: StructType, topic: str | None) -> SinkColumns:
    """Find the columns, or raise ColumnError. A topic that is given is the topic of all rows, whatever their
    column says.
    """
    if topic is None and "topic" not in schema.names:
        raise ColumnError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        )
    if "value" not in schema.names:
        raise ColumnError(
            f"Required attribute 'value' not found; there are: {', '.join(schema.names) or 'no columns'}."
        )
    value = _index(schema, "value", StringType(), BinaryType())
    assert value is not None
    return SinkColumns(
        value=value,
        key=_index(schema, "key", StringType(), BinaryType()),
        topic=None if topic is not None else _index(schema, "topic", StringType()),
        partition=_index(schema, "partition", IntegerType()),
        headers=_index(schema, "headers", HEADERS),
    )


def _index(schema: StructType, name: str, *allowed: DataType) -> int | None:
    """Where the column is; its type must be one of these, whatever it says of nulls."""
    if name not in schema.names:
        return None
    index = schema.names.index(name)
    kind = schema.fields[index].dataType
    if not any(_same(kind, each) for each in allowed):
        names = " or ".join(each.simpleString() for each in allowed)
        raise ColumnError(
            f"{name} attribute unsupported type {kind.simpleString()}. {name} must be a(n) {names}"
        )
    return index


def _same(kind: DataType, allowed: DataType) -> bool:
    if isinstance(allowed, StringType):
        return isinstance(kind, StringType)  # whatever its collation
    return kind.simpleString() == allowed.simpleString()


def binary(column: pa.Array) -> pa.Array:
    """A column of text or bytes as bytes with 32-bit offsets, whatever width Spark was told to use."""
    return column if column.type == pa.binary() else column.cast(pa.binary())
