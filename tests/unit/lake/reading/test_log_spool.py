"""Rows of the log wait in memory, and in files if they are many: the same dataset."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from ottla.lake.reading.log_spool import LogSpool


@pytest.mark.parametrize(("most_bytes", "files"), [(1 << 20, 0), (20, 3)])
def test_rows_come_back_with_the_columns_of_the_newest(tmp_path: Path, most_bytes: int, files: int) -> None:
    spool = LogSpool(tmp_path / "spool", pa.schema([("a", pa.int64())]), most_bytes)
    assert spool.dataset().to_table().num_rows == 0
    for number in range(5):
        spool.add(pa.table({"a": [number, number]}))
    spool.add(pa.table({"a": [9], "b": ["new"]}))
    rows = spool.dataset().to_table().sort_by("a")
    assert rows.column("a").to_pylist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 9]
    assert rows.column("b").to_pylist() == [None] * 10 + ["new"]
    assert len(list(tmp_path.rglob("*.parquet"))) == files
