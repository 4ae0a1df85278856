"""Replay and backfill: a range of a topic, once more, into a table, without doubling what is there.

A record is known by where it stood: topic, partition and offset, which `valid` keeps. The records that a
table has already is left out, so a backfill may be run again after it was cut off, and may overlap with what
a stream has written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.spark.steps.arguments import StepError, name, names
from ottla.spark.steps.positions import Position
from ottla.spark.steps.topics import read_range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORIGIN: Final = ("topic", "partition", "offset")
_COMMITTED_FILES: Final = "_spark_metadata"


def backfill(
    spark: SparkSession,
    topic: str,
    table: str,
    transform: Callable[[DataFrame], DataFrame],
    *,
    since: Position = "earliest",
    until: Position = "latest",
    table_format: str = "parquet",
    by: str | Iterable[str] = ORIGIN,
    bootstrap_servers: str | None = None,
) -> int:
    """Put a range of a topic through `transform` and append the rows that the table lacks; how many they
    were.

    `table` is a path (it has a slash) or a table's name. `by` are the columns that tell rows apart;
    `transform` must keep them.
    """
    columns = names("by", by)
    is_path = "/" in name("table", table)
    if is_path:
        _refuse_stream_table(table)
    rows = transform(read_range(spark, topic, since=since, until=until, bootstrap_servers=bootstrap_servers))
    existing = _existing(spark, table, table_format, is_path)
    if existing is not None:
        rows = rows.join(existing.select(*columns), columns, "left_anti")
    rows = rows.persist()
    try:
        written = rows.count()
        writer = rows.write.format(table_format).mode("append")
        if written:
            writer.save(table) if is_path else writer.saveAsTable(table)
        return written
    finally:
        rows.unpersist()


def _existing(spark: SparkSession, table: str, table_format: str, is_path: bool) -> DataFrame | None:
    if not is_path:
        return spark.table(table) if spark.catalog.tableExists(table) else None
    from pyspark.errors import AnalysisException

    try:
        return spark.read.format(table_format).load(table)
    except AnalysisException as error:
        if error.getCondition() in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
            return None
        raise


def _refuse_stream_table(table: str) -> None:
    """Readers of a stream's table believe its list of files, so rows added beside the list would never be
    seen.
    """
    path = Path(table.removeprefix("file://"))
    if (path / _COMMITTED_FILES).is_dir():
        raise StepError(
            f"table is {table!r}, which a stream writes: rows that are appended to it by others are not seen. Backfill into a table of its "
            "own and unite the two in a view, or rebuild the table with `ottla pipeline run --full-refresh`."
        )
