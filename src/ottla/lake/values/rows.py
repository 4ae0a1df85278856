"""Record batches of the log become rows of a table.

Rules
- A record whose value cannot be decoded is a dead letter with a reason, never a stop.
- A null value (a tombstone) is a row whose value columns are null.
- The same record becomes the same row whenever it is decoded, given the columns that the table has by then:
  this is what makes log and table one.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from ottla.lake.tables.schemas import DEAD_LETTER_SCHEMA, RAW_SCHEMA, RECORD_SCHEMA, value_columns
from ottla.lake.values.decoded import ValueDecoder


class Rows(NamedTuple):
    """Rows of the table, and dead letters."""

    good: pa.Table
    bad: pa.Table


def records_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A record batch of the log with the names and the order of a table's columns."""
    names = {"timestamp_type": "timestampType"}
    arrays = [batch.column(names.get(field.name, field.name)) for field in RAW_SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=RAW_SCHEMA)


def rows_of(records: pa.RecordBatch, decoder: ValueDecoder | None, schema: pa.Schema) -> Rows:
    """The rows of records; columns that the schema does not have yet are added to its right."""
    if decoder is None:
        return Rows(pa.table(records), DEAD_LETTER_SCHEMA.empty_table())
    columns, reasons = decoder(records, value_columns(schema))
    good = pa.table(records.select(RECORD_SCHEMA.names))
    for field in columns.schema:
        good = good.append_column(field, columns.column(field.name))
    if not reasons:
        return Rows(good, DEAD_LETTER_SCHEMA.empty_table())
    bad = sorted(reasons)
    letters = pa.table(records.take(pa.array(bad)))
    letters = letters.append_column("reason", pa.array([reasons[each] for each in bad], pa.string()))
    is_good = pa.array([index not in reasons for index in range(records.num_rows)])
    return Rows(good.filter(is_good), letters)
