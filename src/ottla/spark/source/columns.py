"""The columns of a topic in Spark, as Spark's Kafka source has them."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.spark.option_values import OptionError

_COLUMNS: Final = (
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
)
_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])


def columns(*, include_headers: bool) -> StructType:
    """The headers are there only if they are wanted."""
    headers = [StructField("headers", ArrayType(_HEADER))] if include_headers else []
    return StructType([*_COLUMNS, *headers])


def check_columns(given: StructType, *, include_headers: bool) -> None:
    """OptionError if other columns are set than a topic has."""
    ours = columns(include_headers=include_headers)
    if [(each.name, each.dataType) for each in given] != [(each.name, each.dataType) for each in ours]:
        raise OptionError(
            f"The columns of a topic are {ours.simpleString()}; they cannot be set to {given.simpleString()}. "
            "Select and cast columns of the DataFrame instead."
        )
