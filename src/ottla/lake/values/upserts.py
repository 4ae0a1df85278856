"""The newest row of each key, and which keys are deleted.

Rules
- Within a partition the larger offset is newer. A key that moved to another partition (partitions were added) has
  its newest record where the timestamp is later.
- A null value deletes its key. The mark is a column of its own while rows are compared, and never in a table.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.lake.tables.schemas import DEAD_LETTER_SCHEMA

DELETED: Final = "ottla_deleted"
_NO_KEY: Final = "an upsert table has a row for each key, and the record has none"


def marked(rows: pa.Table, records: pa.RecordBatch) -> pa.Table:
    """Rows of records with the mark of those whose value is null."""
    gone = records.filter(records.column("value").is_null()).column("offset")
    return rows.append_column(pa.field(DELETED, pa.bool_()), pc.is_in(rows.column("offset"), gone))


def unmarked(rows: pa.Table) -> pa.Table:
    """Rows that are not deleted, without the mark. Rows of a table have no mark, and none is deleted."""
    if DELETED not in rows.column_names:
        return rows
    return rows.filter(pc.invert(pc.fill_null(rows.column(DELETED), False))).drop_columns([DELETED])


def newest_rows(rows: pa.Table) -> pa.Table:
    """For each key its newest row, deleted or not, in the order of keys."""
    by_offset = _last_of(
        rows,
        ["key", "partition"],
        [("key", "ascending"), ("partition", "ascending"), ("offset", "ascending")],
    )
    return _last_of(
        by_offset, ["key"], [("key", "ascending"), ("timestamp", "ascending"), ("partition", "ascending")]
    )


def without_keyless(records: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Table]:
    """Records that have a key, and the others as dead letters."""
    is_keyless = records.column("key").is_null()
    if not pc.any(is_keyless).as_py():
        return records, DEAD_LETTER_SCHEMA.empty_table()
    letters = pa.table(records.filter(is_keyless))
    reasons = pa.array([_NO_KEY] * letters.num_rows, pa.string())
    return records.filter(pc.invert(is_keyless)), letters.append_column("reason", reasons)


def _last_of(rows: pa.Table, group: list[str], order: list[tuple[str, str]]) -> pa.Table:
    """The last row of each group, by an order that begins with the columns of the group."""
    if rows.num_rows < 2:
        return rows
    ordered = rows.sort_by(order).combine_chunks()
    changes = pa.array([False] * (rows.num_rows - 1))
    for name in group:
        column = ordered.column(name)
        changes = pc.or_(changes, pc.not_equal(column.slice(0, rows.num_rows - 1), column.slice(1)))
    flags = [*changes.to_pylist(), True]
    return ordered.filter(pa.array(flags, pa.bool_()))
