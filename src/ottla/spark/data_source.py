"""The format "ottla" for Spark: topics as DataFrames, with the columns and options of Spark's Kafka source.

Spark starts a Python process for each step of a query, and each imports this. So here, and in the readers,
what only some steps need is imported where it is used.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from ottla.spark.source.columns import check_columns, columns
from ottla.spark.source.plan.options import source_options

if TYPE_CHECKING:
    from ottla.spark.sink.writer import OttlaStreamWriter, OttlaWriter
    from ottla.spark.source.batch_reader import OttlaBatchReader
    from ottla.spark.source.stream_reader import OttlaStreamReader


class OttlaDataSource(DataSource):
    """`spark.read.format("ottla")` and `spark.readStream.format("ottla")`; see docs/spark.md for the
    options.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._plan = uuid4().hex  # the same wherever Spark sends this one

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> StructType:
        return columns(include_headers=source_options(self.options).include_headers)

    def reader(self, schema: StructType) -> OttlaBatchReader:
        from ottla.spark.source.batch_reader import OttlaBatchReader, OttlaFilteringReader

        options = source_options(self.options)
        check_columns(schema, include_headers=options.include_headers)
        if options.push_filters:
            return OttlaFilteringReader(options, self._plan)
        return OttlaBatchReader(options)

    def streamReader(self, schema: StructType) -> OttlaStreamReader:  # noqa: N802 - Spark's name
        from ottla.spark.source.stream_reader import OttlaStreamReader

        return OttlaStreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> OttlaWriter:
        from ottla.spark.sink.writer import OttlaWriter

        return OttlaWriter.of(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> OttlaStreamWriter:  # noqa: N802 - Spark's name
        from ottla.spark.sink.writer import OttlaStreamWriter

        return OttlaStreamWriter.of(self.options, schema)
