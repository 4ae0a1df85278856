"""The sink: `df.write.format("ottla").mode("append")` and `df.writeStream.format("ottla")`, Arrow in.

At least once is the default. A task's records are acknowledged by all in-sync replicas before the task has
succeeded; its producer is idempotent, so nothing that is sent again on the way is written twice. But a task or a
micro-batch that Spark runs a second time (an executor was lost, the query was restarted before the batch was
committed) writes its records a second time.

With the option `delivery` exactly-once, or auto on brokers of Ottla, a task's commit message carries its open
transaction, and the driver's `commit` decides (`exactly_once`). Spark calls `commit` and `abort` of a stream in
another process, with a new writer: what they need is in the messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ottla.model import TopicPartition
from ottla.spark.option_values import OptionError
from ottla.spark.sink.columns import SinkColumns, sink_columns
from ottla.spark.sink.options import SinkOptions, sink_options
from ottla.spark.sink.task import write_task

if TYPE_CHECKING:
    from ottla.spark.sink.exactly_once import TaskOutcome
    from ottla.spark.sink.write_identity import WriteIdentity


@dataclass(frozen=True)
class SinkCommit(WriterCommitMessage):
    """The result of a task: the number of records on each partition; with exactly-once delivery also the transaction
    that has them, if the task had rows.
    """

    records: Mapping[TopicPartition, int]
    outcome: TaskOutcome | None = None


class OttlaWriter(DataSourceArrowWriter):
    """A batch's writer: made on the driver, `write` is called on executors."""

    def __init__(self, options: SinkOptions, columns: SinkColumns, identity: WriteIdentity | None) -> None:
        self._options = options
        self._columns = columns
        self._identity = identity

    @classmethod
    def of(cls, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> OttlaWriter:
        """Check everything that can be checked before a task runs."""
        if overwrite:
            raise OptionError(
                'Save mode Overwrite not allowed for Ottla: a topic only grows. Use .mode("append").'
            )
        parsed = sink_options(options)
        return cls(parsed, sink_columns(schema, parsed.topic), _identity_of_job(parsed))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkCommit:
        if self._identity is None:
            return SinkCommit(write_task(iterator, self._options, self._columns))
        return _write_exactly_once(iterator, self._options, self._columns, self._identity)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _commit(self._options, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _abort(self._options, self._identity, messages)


class OttlaStreamWriter(DataSourceStreamArrowWriter):
    """A streaming query's writer; Spark makes a new one for every micro-batch."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self._options = options
        self._columns = columns

    @classmethod
    def of(cls, options: Mapping[str, str], schema: StructType) -> OttlaStreamWriter:
        """Check everything that can be checked before a task runs."""
        parsed = sink_options(options)
        if parsed.exactly_once is not None and parsed.exactly_once.version is not None:
            raise OptionError(
                "Option 'txnVersion' is for batch writes: Spark numbers the batches of a stream."
            )
        return cls(parsed, sink_columns(schema, parsed.topic))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkCommit:
        if self._options.exactly_once is None:
            return SinkCommit(write_task(iterator, self._options, self._columns))
        from ottla.spark.sink.write_identity import of_micro_batch

        identity = of_micro_batch(self._options.exactly_once)
        return _write_exactly_once(iterator, self._options, self._columns, identity)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        _commit(self._options, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        _abort(self._options, _identity_of_failed_batch(self._options, batchId), messages)


# What only exactly-once delivery needs is imported where it is used: Spark starts a process for each step.


def _identity_of_job(options: SinkOptions) -> WriteIdentity | None:
    if options.exactly_once is None:
        return None
    from ottla.spark.sink.write_identity import of_job

    return of_job(options.exactly_once)


def _identity_of_failed_batch(options: SinkOptions, batch_id: int) -> WriteIdentity | None:
    """None if the sink has the query's name, which Spark tells only tasks."""
    if options.exactly_once is None or options.exactly_once.app_id is None:
        return None
    from ottla.spark.sink.write_identity import of_named_sink

    return of_named_sink(options.exactly_once.app_id, batch_id)


def _write_exactly_once(
    rows: Iterator[pa.RecordBatch], options: SinkOptions, columns: SinkColumns, identity: WriteIdentity
) -> SinkCommit:
    from ottla.spark.sink import exactly_once
    from ottla.spark.sink.write_identity import member

    assert options.exactly_once is not None
    if options.exactly_once.is_optional and not exactly_once.is_possible(options, identity):
        return SinkCommit(write_task(rows, options.at_least_once(), columns))
    outcome = exactly_once.write_task(rows, options, columns, identity, member())
    return SinkCommit({} if outcome is None else outcome.records, outcome)


def _commit(options: SinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    if options.exactly_once is not None:
        from ottla.spark.sink import exactly_once

        exactly_once.commit(options, _outcomes(messages))


def _abort(
    options: SinkOptions, known: WriteIdentity | None, messages: Sequence[WriterCommitMessage | None]
) -> None:
    if options.exactly_once is not None:
        from ottla.spark.sink import exactly_once

        exactly_once.abort(options, known, _outcomes(messages))


def _outcomes(messages: Sequence[WriterCommitMessage | None]) -> list[TaskOutcome]:
    """Those of tasks that had rows; a task that failed has no message."""
    return [each.outcome for each in messages if isinstance(each, SinkCommit) and each.outcome is not None]
