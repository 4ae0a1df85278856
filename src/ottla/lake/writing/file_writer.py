"""Rows become Parquet files of a sensible size, one open file for each part of the table.

Rules
- Rows come in order of (partition, offset), and stay in that order in each file.
- A file is closed at about `file_bytes`. A new column closes it, too: a file has one schema.
- Many parts at once (a backfill of a year by days) do not mean many open files: the one that was not written
  to for longest is closed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ottla.lake.plan.definition import TableDefinition
from ottla.lake.plan.seam import FileSpan
from ottla.lake.tables.parts import part_directory, parts_of
from ottla.lake.tables.storage import filesystem_of, make_durable
from ottla.lake.tables.table import DataFile

# Rows of a row group: enough for good compression, few enough to be pruned by their statistics.
_ROWS_PER_GROUP: Final = 1 << 17
_BYTES_PER_GROUP: Final = 64 << 20
_MOST_OPEN: Final = 16


class FileWriter:
    """Writes the files of one task. Names begin with `name`, and end with what only this attempt has: Spark may run
    a task twice, and the late attempt must not write into files that the table has by then.
    """

    def __init__(self, definition: TableDefinition, location: str, name: str) -> None:
        self._definition = definition
        self._location = location
        self._name = f"{name}-{uuid4().hex[:12]}"
        self._open: dict[int | None, _OpenFile] = {}
        self._done: list[DataFile] = []
        self._count = 0

    def write(self, rows: pa.Table) -> None:
        for part, some in self._divided(rows):
            file = self._open.pop(part, None)
            if file is not None and (
                file.schema != rows.schema or file.size_bytes >= self._definition.file_bytes
            ):
                self._close(file)
                file = None
            self._open[part] = file or self._new(part, rows.schema)
            self._open[part].add(some)
            if len(self._open) > _MOST_OPEN:
                self._close(self._open.pop(next(iter(self._open))))

    def finish(self) -> list[DataFile]:
        """Close all files, and name them."""
        while self._open:
            self._close(self._open.pop(next(iter(self._open))))
        return self._done

    def _divided(self, rows: pa.Table) -> Iterator[tuple[int | None, pa.Table]]:
        for batch in rows.to_batches() if rows.num_columns else ():
            parts: Any = parts_of(batch, self._definition)
            distinct = [None] if parts is None else parts.unique().to_pylist()
            if len(distinct) == 1:
                yield distinct[0], pa.table(batch)
                continue
            for part in distinct:
                is_here = parts.is_null() if part is None else pc.equal(parts, part)
                yield part, pa.table(batch).filter(is_here)

    def _new(self, part: int | None, schema: pa.Schema) -> _OpenFile:
        self._count += 1
        directory = part_directory(self._definition, part)
        return _OpenFile(f"{self._location}/{directory}{self._name}-{self._count:04}.parquet", part, schema)

    def _close(self, file: _OpenFile) -> None:
        self._done.append(file.close())


class _OpenFile:
    """A file that is being written: rows wait until there are enough for a row group."""

    def __init__(self, path: str, part: int | None, schema: pa.Schema) -> None:
        self.schema = schema
        self._path = path
        self._part = part
        self._filesystem, self._place = filesystem_of(path)
        self._filesystem.create_dir(self._place.rpartition("/")[0], recursive=True)
        self._stream = self._filesystem.open_output_stream(self._place)
        self._writer = pq.ParquetWriter(self._stream, schema, compression="zstd", coerce_timestamps="us")
        self._waiting: list[pa.Table] = []
        self._waiting_rows = self._waiting_bytes = self._rows = 0
        self._partitions, self._offsets, self._times = _Range(), _Range(), _Range()

    @property
    def size_bytes(self) -> int:
        """About how large the file is: what waits counts as it is."""
        size: int = self._stream.tell()
        return size + self._waiting_bytes

    def add(self, rows: pa.Table) -> None:
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        self._partitions.include(rows.column("partition"))
        self._offsets.include(rows.column("offset"))
        self._times.include(rows.column("timestamp").cast(pa.int64()))
        if self._waiting_rows >= _ROWS_PER_GROUP or self._waiting_bytes >= _BYTES_PER_GROUP:
            self._write_waiting()

    def close(self) -> DataFile:
        self._write_waiting()
        self._writer.close()
        size_bytes = self._stream.tell()
        self._stream.close()
        make_durable(self._path)
        times = self._times.pair
        milliseconds = None if times is None else (times[0] // 1000, times[1] // 1000)
        span = FileSpan(self._partitions.pair, self._offsets.pair, milliseconds)
        return DataFile(self._path, self._rows, size_bytes, self._part, span)

    def _write_waiting(self) -> None:
        if self._waiting:
            rows = pa.concat_tables(self._waiting)
            self._writer.write_table(rows, row_group_size=rows.num_rows)
            self._rows += rows.num_rows
            self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0


class _Range:
    """The smallest and the largest number of all that were included."""

    def __init__(self) -> None:
        self.pair: tuple[int, int] | None = None

    def include(self, numbers: Any) -> None:
        found = pc.min_max(numbers).as_py()
        if found["min"] is None:
            return
        low, high = self.pair or (found["min"], found["max"])
        self.pair = min(low, found["min"]), max(high, found["max"])
