"""The second step of a commit to an upsert table: each bucket that has new rows is written again.

The tasks of the first step leave their rows, by bucket, in files that never belong to the table. Here the rows
of a bucket and its new rows become the newest row of each key, without deleted keys. Only buckets with new rows
are touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ottla.lake.plan.definition import TableDefinition
from ottla.lake.reading.cold import cold_dataset
from ottla.lake.tables.schemas import in_columns
from ottla.lake.tables.table import DataFile
from ottla.lake.values.upserts import DELETED, newest_rows, unmarked
from ottla.lake.writing.file_writer import FileWriter


@dataclass(frozen=True, slots=True)
class MergeTask:
    """A bucket: its files in the table, and the files of its new rows."""

    definition: TableDefinition
    schema: pa.Schema
    location: str
    name: str
    old: tuple[DataFile, ...]
    new: tuple[DataFile, ...]


def merge_tasks(
    definition: TableDefinition,
    schema: pa.Schema,
    location: str,
    commit: str,
    old: Iterable[DataFile],
    new: Sequence[DataFile],
) -> list[MergeTask]:
    """A task for each bucket that has new rows."""
    existing: dict[int | None, list[DataFile]] = {}
    for file in old:
        existing.setdefault(file.part, []).append(file)
    parts = sorted({each.part for each in new if each.part is not None})
    return [
        MergeTask(
            definition,
            schema,
            location,
            f"{commit}-bucket-{part}",
            tuple(existing.get(part, ())),
            tuple(each for each in new if each.part == part),
        )
        for part in parts
    ]


def merge_bucket(task: MergeTask) -> list[DataFile]:
    """Write a bucket again. Returns its files; none if all its keys are deleted."""
    old = in_columns(cold_dataset(task.old, task.schema).to_table(), task.schema)
    wider = task.schema.append(pa.field(DELETED, pa.bool_()))
    new = in_columns(cold_dataset(task.new, wider).to_table(), wider)
    rows = unmarked(newest_rows(pa.concat_tables([in_columns(old, wider), new])))
    writer = FileWriter(task.definition, task.location, task.name)
    if rows.num_rows:
        writer.write(in_columns(rows, task.schema))
    return writer.finish()
