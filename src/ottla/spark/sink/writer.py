"""The sink: `df.write.format("ottla").mode("append")` and `df.writeStream.format("ottla")`, Arrow in.

The guarantee today: at least once. A task's records are acknowledged by all in-sync replicas before the
task has succeeded; its producer is idempotent, so nothing that is sent again on the way is written twice. But
a task or a micro-batch that Spark runs a second time (an executor was lost, the query was restarted before
the batch was committed) writes its records a second time.

Where exactly once will be made: a task's commit message (`SinkCommit`) carries a `TaskTransaction` once
producers have transactions: who began it, and what it wrote to. The driver's `commit` ends those
transactions, `abort` rolls them back, and the batch's number in the transactional id keeps a repeated
micro-batch from being written again. Until then the option `transactionalId` is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ottla.model import TopicPartition
from ottla.spark.option_values import OptionError
from ottla.spark.sink.columns import SinkColumns, sink_columns
from ottla.spark.sink.options import SinkOptions, sink_options
from ottla.spark.sink.task import write_task


@dataclass(frozen=True, slots=True)
class TaskTransaction:
    """The identity that the driver would need to end a task's transaction in its place (KIP-939)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True)
class SinkCommit(WriterCommitMessage):
    """The result of a task: the number of records on each partition, and their transaction, when there are
    transactions.
    """

    records: Mapping[TopicPartition, int]
    transaction: TaskTransaction | None = None


class OttlaWriter(DataSourceArrowWriter):
    """A batch's writer: made on the driver, `write` is called on executors."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self._options = options
        self._columns = columns

    @classmethod
    def of(cls, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> OttlaWriter:
        """Check everything that can be checked before a task runs."""
        if overwrite:
            raise OptionError(
                'Save mode Overwrite not allowed for Ottla: a topic only grows. Use .mode("append").'
            )
        parsed = sink_options(options)
        return cls(parsed, sink_columns(schema, parsed.topic))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkCommit:
        return SinkCommit(write_task(iterator, self._options, self._columns))


class OttlaStreamWriter(DataSourceStreamArrowWriter):
    """A streaming query's writer; Spark makes a new one for every micro-batch."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self._options = options
        self._columns = columns

    @classmethod
    def of(cls, options: Mapping[str, str], schema: StructType) -> OttlaStreamWriter:
        """Check everything that can be checked before a task runs."""
        parsed = sink_options(options)
        return cls(parsed, sink_columns(schema, parsed.topic))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkCommit:
        return SinkCommit(write_task(iterator, self._options, self._columns))
