"""A topic's table and its log as one stream of Arrow batches.

If values become columns as they come (JSON without declared columns, a registry), the log is read before the
stream begins: its newest records may have columns that the table does not have yet. Otherwise both are
streamed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain

import pyarrow as pa

from ottla.lake.reading.cold import cold_batches
from ottla.lake.reading.hot import hot_tables, wanted_rows
from ottla.lake.reading.newest import newest_reader, selected_columns
from ottla.lake.reading.query import At, Query, Where, planned
from ottla.lake.tables.schemas import merged
from ottla.lake.topic import Cluster
from ottla.lake.warehouse import Warehouse
from ottla.security.settings import PLAINTEXT, Security


def scan(
    topic: str,
    *,
    bootstrap: str = "localhost:9092",
    warehouse: str | os.PathLike[str] | None = None,
    where: Where = None,
    columns: Sequence[str] | None = None,
    at: At = None,
    security: Security = PLAINTEXT,
) -> pa.RecordBatchReader:
    """All records of a topic, from its table up to the offset that the table holds and from the log after it.

    `where` is a text such as "offset >= 100 AND country = 'SI'", a list of tuples (column, operator, value), or an
    expression of pyarrow.compute. `at` travels in time: records before a moment (a datetime, a text, or
    milliseconds), or before an offset of each partition ({0: 120, 1: 80}). DuckDB, Polars and pandas take the
    reader as it is; `read_all()` makes a table of it.
    """
    query = planned(Warehouse(warehouse), Cluster(bootstrap, security), topic, where, at)
    return reader_of(query, columns)


def reader_of(query: Query, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
    """The rows of a planned query: first those of the table, then those of the log."""
    if query.definition.is_upsert:
        return newest_reader(query, columns)
    hot = hot_tables(query)
    schema = query.schema
    if query.definition.value != "raw" and not query.definition.columns:
        tables = list(hot)
        for each in tables:
            schema = merged(schema, each.schema)
        hot = iter(tables)
    selected = selected_columns(schema, columns)
    rows = chain(cold_batches(query, selected.names, schema), _hot_batches(query, hot, schema, selected))
    return pa.RecordBatchReader.from_batches(selected, rows)


def rows_in_columns(query: Query) -> Iterator[pa.RecordBatch]:
    """The rows of a planned query in the columns of the table's snapshot, which executors agreed on before."""
    names = query.schema.names
    hot = _hot_batches(query, hot_tables(query), query.schema, query.schema)
    yield from chain(cold_batches(query, names, query.schema), hot)


def _hot_batches(
    query: Query, tables: Iterator[pa.Table], schema: pa.Schema, selected: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for each in tables:
        yield from wanted_rows(each, query.filter, schema).select(selected.names).to_batches()
