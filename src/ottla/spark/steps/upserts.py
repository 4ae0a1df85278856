"""The latest row per key, kept up to date by a stream: a function for `foreachBatch`.

    orders.writeStream.foreachBatch(steps.upsert("tables/customers", "customer", order_by="placed_at")).start()

Rules
- A row takes the place of another of its key only if it is not older by `order_by`. So a batch that is
  written twice, as one may be after a crash, changes nothing, and the table does not depend on the order of
  batches.
- Parquet cannot change a row: each batch writes a new version of the whole table, and puts it in the place of
  the old one at once. The table is a symbolic link to its newest version, which a rename replaces; a reader
  sees one version or the next. That needs a file system with links. The version before stays for readers that
  have begun, older ones go.
- Delta and Iceberg can: there it is one MERGE per batch, into a table that is there already.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.spark.steps.arguments import StepError, choice, name, names, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KEPT_VERSIONS: Final = 2


def upsert(
    table: str,
    keys: str | Iterable[str],
    *,
    order_by: str,
    table_format: str = "parquet",
    delete_when: str | None = None,
) -> Callable[[DataFrame, int], None]:
    """A function that merges a batch into a table: `table` is a path for Parquet, a table's name for Delta
    and Iceberg.

    `delete_when` is a condition in SQL: a row that meets it removes its key. With Parquet such a row stays as
    a mark, so that an older row does not bring the key back; read the table with `NOT (condition)`.
    """
    columns, order = names("keys", keys), name("order_by", order_by)
    if order in columns:
        raise StepError(
            f"order_by is {order!r}, which is one of the keys: rows of one key would all be equally new."
        )
    if choice("table_format", table_format, ("parquet", "delta", "iceberg")) == "parquet":
        path = local_table(name("table", table))
        return lambda batch, batch_id: _replace_parquet(batch, batch_id, path, columns, order)
    return lambda batch, _: _merge(batch, table, columns, order, delete_when)


def latest(rows: DataFrame, keys: str | Iterable[str], *, order_by: str) -> DataFrame:
    """Of the rows of each key, the one that is newest by `order_by`. For tables and batches, not for
    streams.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    window = Window.partitionBy(*(F.col(quoted(each)) for each in names("keys", keys)))
    newest = F.row_number().over(window.orderBy(F.col(quoted(order_by)).desc_nulls_last()))
    return rows.select("*", newest.alias("_newest")).where("_newest = 1").selectExpr("* EXCEPT (_newest)")


def local_table(table: str) -> Path:
    """The path of a table on this machine."""
    path = Path(table.removeprefix("file://"))
    if "://" in table and not table.startswith("file://"):
        raise StepError(
            f"table is {table!r}: Parquet is replaced by links, which need a local path; use delta or iceberg there."
        )
    if path.is_dir() and not path.is_symlink():
        raise StepError(f"table is {table!r}, a directory that was not made by upsert: choose another path.")
    return path.absolute()


def _replace_parquet(batch: DataFrame, batch_id: int, path: Path, keys: list[str], order: str) -> None:
    spark = batch.sparkSession
    versions = path.with_name(f".{path.name}.versions")
    rows = _with_existing(spark, batch, path)
    target = versions / f"{batch_id:012}-{os.urandom(4).hex()}"
    latest(rows, keys, order_by=order).write.parquet(f"file://{target}")
    link = versions / f".link-{os.urandom(4).hex()}"
    link.symlink_to(os.path.relpath(target, path.parent))
    os.replace(link, path)  # a relative link must be read from where it ends up
    _prune(versions, target)


def _with_existing(spark: SparkSession, batch: DataFrame, path: Path) -> DataFrame:
    if not path.exists():
        return batch
    existing = spark.read.parquet(f"file://{path.resolve()}")
    return batch.unionByName(existing, allowMissingColumns=True)


def _prune(versions: Path, newest: Path) -> None:
    listed = sorted(
        (each for each in versions.iterdir() if each != newest and not each.is_symlink()), key=_made
    )
    for version in listed[: -(_KEPT_VERSIONS - 1)]:
        shutil.rmtree(version, ignore_errors=True)


def _made(version: Path) -> float:
    return version.stat().st_mtime


def _merge(batch: DataFrame, table: str, keys: list[str], order: str, delete_when: str | None) -> None:
    latest(batch, keys, order_by=order).createOrReplaceTempView("ottla_batch")
    batch.sparkSession.sql(merge_statement(table, keys, order, delete_when))


def merge_statement(table: str, keys: list[str], order: str, delete_when: str | None) -> str:
    """The MERGE for one batch, which is the view `ottla_batch`."""
    same = " AND ".join(f"target.{quoted(key)} = batch.{quoted(key)}" for key in keys)
    newer = f"batch.{quoted(order)} >= target.{quoted(order)}"
    gone = f"WHEN MATCHED AND {newer} AND ({delete_when}) THEN DELETE " if delete_when else ""
    unless = f" AND NOT ({delete_when})" if delete_when else ""
    return (
        f"MERGE INTO {quoted(table)} AS target USING ottla_batch AS batch ON {same} {gone}"
        f"WHEN MATCHED AND {newer} THEN UPDATE SET * WHEN NOT MATCHED{unless} THEN INSERT *"
    )
