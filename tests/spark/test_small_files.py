"""A streaming table whose small files became a large one: readers find the same rows, and streams that read it neither
miss nor repeat one (PIPE-8).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.spark.pipelines.small_files import compact
from ottla.spark.pipelines.status import data_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Tables:
    """Numbers go to `raw`, a batch and a file for each; streams read `raw` into tables of their own."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self._directory = directory
        self._numbers = count()
        self.raw = directory / "raw"
        (directory / "given").mkdir()

    def write(self, batches: int) -> None:
        for number in (next(self._numbers) for _ in range(batches)):
            (self._directory / "given" / f"{number:04}.json").write_text(f'{{"n": {number}}}')
        given = self._spark.readStream.schema("n INT").option("maxFilesPerTrigger", 1)
        self._run(given.json(str(self._directory / "given")), "raw")

    def follow(self, name: str) -> list[int]:
        """Let a stream read what is there; all that it has read in its life."""
        self._run(self._spark.readStream.schema("n INT").parquet(str(self.raw)), name)
        return self.numbers(name)

    def numbers(self, name: str) -> list[int]:
        return sorted(row.n for row in self._spark.read.parquet(str(self._directory / name)).collect())

    def checkpoint(self, name: str) -> Path:
        return self._directory / "checkpoints" / name

    def compact(self, *readers: str) -> tuple[int, int, int]:
        done = compact(self.raw, map(self.checkpoint, readers), self._rewrite, least_files=2)
        assert done is not None
        return done.before, done.after, done.waiting

    def _rewrite(self, files: list[Path], directory: Path, number: int) -> None:
        self._spark.read.parquet(*map(str, files)).coalesce(number).write.parquet(str(directory))

    def _run(self, rows: DataFrame, name: str) -> None:
        writer = rows.writeStream.option("checkpointLocation", str(self.checkpoint(name)))
        writer.trigger(availableNow=True).start(str(self._directory / name)).awaitTermination()


@contextmanager
def a_list_every(batches: int, spark: SparkSession) -> Iterator[None]:
    """Spark closes a list of all files every so many batches; ten, if not told."""
    setting = "spark.sql.streaming.fileSink.log.compactInterval"
    spark.conf.set(setting, str(batches))
    try:
        yield
    finally:
        spark.conf.unset(setting)


def test_streams_read_each_row_once_around_compactions(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(spark, tmp_path)
    with a_list_every(4, spark):
        tables.write(5)
        assert tables.follow("first") == [*range(5)]
        assert tables.compact("first") == (4, 1, 0)  # the fifth is not in a list of all
        assert tables.numbers("raw") == [*range(5)]
        assert len(data_files(tables.raw) or []) == 2 == len([*tables.raw.glob("*.parquet")])

        tables.write(4)
        assert tables.compact("first") == (5, 4, 3)  # `first` has read the large file and the fifth
        assert tables.follow("first") == [*range(9)]
        assert tables.follow("second") == [*range(9)]  # one that begins now
        assert tables.compact("first", "second") == (4, 1, 0)

        tables.write(1)
        assert tables.follow("first") == tables.follow("second") == tables.follow("third") == [*range(10)]
        assert tables.numbers("raw") == [*range(10)]


def test_a_table_without_a_list_of_all_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "_spark_metadata").mkdir()
    assert compact(tmp_path, [], lambda files, directory, number: None) is None


def test_nothing_is_changed_where_rows_would_be_lost(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(spark, tmp_path)
    with a_list_every(2, spark):
        tables.write(2)

    def lose(files: list[Path], directory: Path, number: int) -> None:
        spark.read.parquet(str(files[0])).write.parquet(str(directory))

    with pytest.raises(RuntimeError, match="2 rows became 1; nothing was changed"):
        compact(tables.raw, [], lose, least_files=2)
    assert tables.numbers("raw") == [0, 1]
