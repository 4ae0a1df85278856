"""Rows from the log after the seam, decoded as the table's writer would decode them.

Records that cannot be decoded are left out, as they are in the table: they are dead letters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from ottla.lake.reading.query import Query
from ottla.lake.tables.schemas import in_columns, merged
from ottla.lake.topic import read_records
from ottla.lake.values.decoders import value_decoder
from ottla.lake.values.rows import records_of, rows_of
from ottla.lake.values.upserts import marked, without_keyless
from ottla.spark.source.plan.offsets import OffsetRange


def hot_tables(query: Query, ranges: tuple[OffsetRange, ...] | None = None) -> Iterator[pa.Table]:
    """The rows of the log, in the columns known by then: a new field of a value is a new column."""
    decoder = value_decoder(query.definition)
    schema = query.schema
    for each in query.ranges if ranges is None else ranges:
        for batch in _records(query, each):
            records = records_of(batch)
            if query.definition.is_upsert:
                records = without_keyless(records)[0]
            good = rows_of(records, decoder, schema).good
            schema = merged(schema, good.schema)
            rows = in_columns(good, schema)
            if rows.num_rows:
                yield marked(rows, records) if query.definition.is_upsert else rows


def wanted_rows(rows: pa.Table, filter: Any, schema: pa.Schema) -> pa.Table:  # noqa: A002 - Arrow's word
    """Rows in the columns of the query, without those that its filter does not want."""
    whole = in_columns(rows, schema)
    return whole if filter is None else whole.filter(filter)


def _records(query: Query, range: OffsetRange) -> Iterator[pa.RecordBatch]:  # noqa: A002
    bounds = query.bounds
    largest = 2**62
    return read_records(
        query.cluster,
        range,
        read_committed=query.definition.read_committed,
        since_ms=bounds.since_ms if bounds.since_ms > -largest else None,
        until_ms=bounds.until_ms if bounds.until_ms < largest else None,
    )
