"""Rows of the log for an engine that reads them several times: in memory, or in files if they are many."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ottla.lake.tables.schemas import in_columns, merged

# More than this goes to the disk: a laptop has it to spare, and a table that is kept up to date has less.
_MOST_BYTES: Final = 256 << 20


class LogSpool:
    """Takes rows, in columns that may grow; then it is a dataset of all of them. Files are in `directory`."""

    def __init__(self, directory: Path, schema: pa.Schema, most_bytes: int = _MOST_BYTES) -> None:
        self.schema = schema
        self._directory = directory
        self._most_bytes = most_bytes
        self._rows: list[pa.Table] = []
        self._size_bytes = 0
        self._files: list[str] = []

    def add(self, rows: pa.Table) -> None:
        self.schema = merged(self.schema, rows.schema)
        self._rows.append(rows)
        self._size_bytes += rows.nbytes
        if self._size_bytes > self._most_bytes:
            self._write()

    def dataset(self) -> Any:
        """All rows; columns that earlier rows lack are null."""
        if self._files:
            self._write()
            return ds.dataset(self._files, schema=self.schema, format="parquet")
        rows = [in_columns(each, self.schema) for each in self._rows]
        return ds.dataset(pa.concat_tables(rows) if rows else self.schema.empty_table())

    def _write(self) -> None:
        if self._rows:
            self._directory.mkdir(parents=True, exist_ok=True)
            path = str(self._directory / f"{len(self._files):06}.parquet")
            pq.write_table(pa.concat_tables([in_columns(each, self.schema) for each in self._rows]), path)
            self._files.append(path)
            self._rows, self._size_bytes = [], 0
