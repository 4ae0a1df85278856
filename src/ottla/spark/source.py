"""The format "ottla" for Spark: topics as DataFrames, with the columns and options of Spark's Kafka source."""

from __future__ import annotations

from typing import Final

from pyspark.sql.datasource import DataSource
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

from ottla.spark.batch_reader import OttlaBatchReader
from ottla.spark.option_values import OptionError
from ottla.spark.options import source_options
from ottla.spark.stream_reader import OttlaStreamReader

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


class OttlaDataSource(DataSource):
    """`spark.read.format("ottla")` and `spark.readStream.format("ottla")`; see docs/spark.md for the options."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> StructType:
        return columns(include_headers=source_options(self.options).include_headers)

    def reader(self, schema: StructType) -> OttlaBatchReader:
        options = source_options(self.options)
        _check_schema(schema, columns(include_headers=options.include_headers))
        return OttlaBatchReader(options)

    def streamReader(self, schema: StructType) -> OttlaStreamReader:  # noqa: N802 - Spark's name
        return OttlaStreamReader(source_options(self.options))


def columns(*, include_headers: bool) -> StructType:
    """The columns of a topic; the headers only if they are wanted, as in Spark's Kafka source."""
    headers = [StructField("headers", ArrayType(_HEADER))] if include_headers else []
    return StructType([*_COLUMNS, *headers])


def _check_schema(given: StructType, ours: StructType) -> None:
    if [(field.name, field.dataType) for field in given] != [(field.name, field.dataType) for field in ours]:
        raise OptionError(
            f"The columns of a topic are {ours.simpleString()}: they cannot be set to {given.simpleString()}. "
            "Select and cast columns of the DataFrame instead."
        )
