"""Rows from a table's files, filtered and projected by Arrow while it reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from ottla.lake.reading.query import Query
from ottla.lake.tables.storage import filesystem_of
from ottla.lake.tables.table import DataFile


def cold_dataset(files: Sequence[DataFile], schema: pa.Schema) -> Any:
    """The files as a dataset of Arrow: columns that a file lacks are null."""
    if not files:
        return ds.dataset(schema.empty_table())
    filesystem = filesystem_of(files[0].path)[0]
    paths = [filesystem_of(each.path)[1] for each in files]
    return ds.dataset(paths, schema=schema, format="parquet", filesystem=filesystem)


def cold_batches(query: Query, columns: Sequence[str] | None, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The wanted rows of the table."""
    if not query.files:
        return
    dataset = cold_dataset(query.files, schema)
    scanner = dataset.scanner(columns=list(columns) if columns else schema.names, filter=query.filter)
    yield from (batch for batch in scanner.to_batches() if batch.num_rows)
