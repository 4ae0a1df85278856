"""One range of offsets becomes files: the part of a commit that runs on an executor, or here.

A task reads its range, decodes it, writes the files of the table and of its dead letters, and answers with
their list. Nothing of it is in the table before the driver commits: a task that fails, or runs twice, leaves
files that nobody refers to, which maintenance removes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ottla.lake.plan.definition import TableDefinition
from ottla.lake.tables.schemas import DEAD_LETTER_SCHEMA, in_columns, merged
from ottla.lake.tables.table import DataFile
from ottla.lake.topic import Cluster, read_records
from ottla.lake.values.decoders import value_decoder
from ottla.lake.values.rows import records_of, rows_of
from ottla.lake.values.upserts import marked, newest_rows, without_keyless
from ottla.lake.writing.file_writer import FileWriter
from ottla.spark.source.plan.offsets import OffsetRange


@dataclass(frozen=True, slots=True)
class WriteTask:
    """What a task needs. `known_bad` are offsets of the range that are dead letters already; below
    `letters_from` all dead letters are in their table.
    """

    cluster: Cluster
    definition: TableDefinition
    range: OffsetRange
    schema: pa.Schema
    data_location: str
    letters_location: str | None
    name: str
    known_bad: frozenset[int] = frozenset()
    letters_from: int = 0


@dataclass(frozen=True, slots=True)
class WrittenRange:
    """The files of a range, and the columns that they need."""

    range: OffsetRange
    schema: pa.Schema
    files: tuple[DataFile, ...]
    letters: tuple[DataFile, ...]

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.files)

    @property
    def dead_letters(self) -> int:
        return sum(each.rows for each in self.letters)


def write_range(task: WriteTask) -> WrittenRange:
    """Read, decode and write a range. Raises DataLossError, KafkaError, ConnectionError or TimeoutError."""
    decoder = value_decoder(task.definition)
    rows_writer = FileWriter(task.definition, task.data_location, task.name)
    letters_writer = FileWriter(task.definition, task.letters_location or task.data_location, task.name)
    schema = task.schema
    for records in _records(task):
        keyed, keyless = without_keyless(records) if task.definition.is_upsert else (records, None)
        good, bad = rows_of(keyed, decoder, schema)
        schema = merged(schema, good.schema)
        rows = in_columns(good, schema)
        rows_writer.write(newest_rows(marked(rows, keyed)) if task.definition.is_upsert else rows)
        bad = pa.concat_tables([bad, keyless]) if keyless is not None else bad
        bad = bad.filter(pc.greater_equal(bad.column("offset"), task.letters_from)) if bad.num_rows else bad
        if bad.num_rows:
            letters_writer.write(bad.cast(DEAD_LETTER_SCHEMA))
    return WrittenRange(task.range, schema, tuple(rows_writer.finish()), tuple(letters_writer.finish()))


def _records(task: WriteTask) -> Iterator[pa.RecordBatch]:
    """The records of the range, without those that are dead letters already."""
    for batch in read_records(task.cluster, task.range, read_committed=task.definition.read_committed):
        records = records_of(batch)
        if task.known_bad:
            is_bad = pc.is_in(records.column("offset"), pa.array(sorted(task.known_bad), pa.int64()))
            records = records.filter(pc.invert(is_bad))
        if records.num_rows:
            yield records
