"""An upsert table and its log as one: the newest row of each key, without deleted keys.

The log after the seam is read first. Rows of the table whose keys it does not have are streamed from the files;
of the keys that it has, table and log together tell the newest row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from ottla.lake.plan.conditions import ConditionError
from ottla.lake.reading.cold import cold_batches
from ottla.lake.reading.expressions import both
from ottla.lake.reading.hot import hot_tables
from ottla.lake.reading.query import Query
from ottla.lake.tables.schemas import in_columns, merged
from ottla.lake.values.upserts import DELETED, newest_rows, unmarked


def newest_reader(query: Query, columns: Sequence[str] | None) -> pa.RecordBatchReader:
    """The rows of a planned query over an upsert table."""
    tables = list(hot_tables(query))
    schema = query.schema
    for each in tables:
        schema = merged(schema, each.drop_columns([DELETED]).schema)
    selected = selected_columns(schema, columns)
    wider = schema.append(pa.field(DELETED, pa.bool_()))
    hot = newest_rows(pa.concat_tables([wider.empty_table(), *(in_columns(each, wider) for each in tables)]))
    keys = hot.column("key").combine_chunks()
    others = replace(query, filter=both(query.filter, ~pc.field("key").isin(keys)))
    rows = chain(cold_batches(others, selected.names, schema), _newest(query, hot, keys, schema, selected))
    return pa.RecordBatchReader.from_batches(selected, rows)


def _newest(
    query: Query, hot: pa.Table, keys: pa.Array, schema: pa.Schema, selected: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The rows of the keys that the log has."""
    same = replace(query, filter=pc.field("key").isin(keys))
    cold = pa.Table.from_batches(list(cold_batches(same, None, schema)), schema)
    rows = unmarked(newest_rows(pa.concat_tables([in_columns(cold, hot.schema), hot])))
    wanted = rows if query.filter is None else rows.filter(query.filter)
    yield from wanted.select(selected.names).to_batches()


def selected_columns(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    if columns is None:
        return schema
    unknown = [name for name in columns if name not in schema.names]
    if unknown:
        raise ConditionError(f"there is no column {', '.join(unknown)}; there are {', '.join(schema.names)}")
    return pa.schema([schema.field(name) for name in columns])
