"""`audit`: whether a table, or another topic, holds every record of a topic exactly once, with the value it has
there. A Spark job.

Both sides become (partition, offset, hash of the value); one shuffle brings the sides of each offset
together, a second small one the offsets of each partition. The topic is read over a range of offsets that is
settled before: records that arrive meanwhile are not looked at. The table is opened first, so that it cannot be
ahead of that range. Only if something is wrong is the data read a second time, for the first offsets that are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users call it)

from ottla.spark.audit.output_topic import is_topic, open_topic
from ottla.spark.audit.scope import (
    FROM_EARLIEST,
    TO_LATEST,
    AuditError,
    Bound,
    Edge,
    PartitionScope,
    scope_of,
)
from ottla.spark.audit.table import Columns, comparison, open_table, rows_of
from ottla.spark.audit.topic_records import ends_of, reading_options, records_of
from ottla.spark.audit.verdict import Fault, Offender, PartitionAudit, Side, Verdict, runs

__all__ = ["AuditError", "Bound", "Columns", "Edge", "Verdict", "audit"]

_OFFENDERS: Final = 1000  # offsets that are looked at for the first runs of them
_COUNTS: Final = ("missing", "extra", "duplicates", "altered", "read_twice", "older", "compacted")
_RAISED: Final = re.compile(
    r"^(?:\w+\.)*\w+(?:Error|Exception): (.+)$", re.MULTILINE
)  # how Python ends a trace


def audit(
    spark: SparkSession,
    topic: str,
    table: str | DataFrame,
    *,
    bootstrap: str,
    start: Bound = FROM_EARLIEST,
    end: Bound = TO_LATEST,
    columns: Columns = Columns(),  # noqa: B008 (frozen)
    table_format: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Verdict:
    """Compare a topic with a table, or with another topic (`topic:NAME`). `options` are further options of the
    source, such as `kafka.isolation.level`.

    AuditError where that cannot be done; what Spark cannot read is said in Spark's words.
    """
    name = table if isinstance(table, str) else "the table"
    reading = reading_options(options)
    if isinstance(table, str) and is_topic(table):
        output = open_topic(spark, table, topic, columns, bootstrap=bootstrap, options=reading)
        columns = replace(columns, partition="partition", offset="offset", topic=None)
    else:
        opened = open_table(spark, table, table_format) if isinstance(table, str) else table
        output = partial(rows_of, opened, topic, columns)
    compared = comparison(output(), columns)
    ends = ends_of(bootstrap, topic, (start, end), reading)

    def rows() -> DataFrame:
        partition, offset = F.col(columns.partition).cast("int"), F.col(columns.offset).cast("long")
        hashed = compared.table.alias("hash")
        return output().select(partition.alias("partition"), offset.alias("offset"), hashed)

    def sides() -> DataFrame:
        records = records_of(spark, topic, bootstrap, scope, reading)
        return _sides(records.select("partition", "offset", compared.topic.alias("hash")), rows(), scope)

    try:
        scope = scope_of(topic, ends, start, end, _table_ends(rows()) if end.edge is Edge.TABLE else {})
        flags = _flags(scope, ends.is_compacted)
        verdict = Verdict(
            topic, name, compared.words, _by_partition(sides(), scope, flags), _nameless(rows())
        )
        return verdict if verdict.is_equal else _with_offenders(sides, verdict, flags)
    except PySparkException as error:
        raise AuditError(_plain(error)) from error


def _table_ends(rows: DataFrame) -> dict[int, int]:
    found = rows.groupBy("partition").agg(F.max("offset").alias("last")).collect()
    return {each["partition"]: each["last"] + 1 for each in found if each["last"] is not None}


def _nameless(rows: DataFrame) -> int:
    return rows.where(F.col("partition").isNull() | F.col("offset").isNull()).count()


def _sides(records: DataFrame, rows: DataFrame, scope: Mapping[int, PartitionScope]) -> DataFrame:
    """One row for each offset that is in the topic, in the table, or in both."""
    is_topic, is_table = F.col("in_topic") == 1, F.col("in_table") == 1
    both = records.withColumns({"in_topic": F.lit(1), "in_table": F.lit(0)}).unionAll(
        rows.where(_is_in(scope)).withColumns({"in_topic": F.lit(0), "in_table": F.lit(1)})
    )
    wide = F.col("hash").cast("decimal(38,0)")  # a sum of longs would overflow
    bound = F.xxhash64("offset", "hash").cast("decimal(38,0)")
    return both.groupBy("partition", "offset").agg(
        F.sum("in_topic").alias("in_topic"),
        F.sum("in_table").alias("in_table"),
        F.max(F.when(is_topic, F.col("hash"))).alias("hash"),
        F.min(F.when(is_table, F.col("hash"))).alias("least"),
        F.max(F.when(is_table, F.col("hash"))).alias("most"),
        F.sum(F.when(is_topic, wide)).alias("topic_sum"),
        F.sum(F.when(is_table, wide)).alias("table_sum"),
        F.sum(F.when(is_topic, bound)).alias("topic_bound"),
        F.sum(F.when(is_table, bound)).alias("table_bound"),
    )


def _is_in(scope: Mapping[int, PartitionScope]) -> Column:
    """The rows that are audited: from a log's beginning also those before it, to its end also those after it.

    Rows of partitions that the topic does not have are audited, too: they are wrong.
    """
    condition = ~F.col("partition").isin(list(scope))
    for partition, each in scope.items():
        here = F.col("partition") == partition
        if each.start > each.log_start:
            here &= F.col("offset") >= each.start
        if each.end < each.log_end:
            here &= F.col("offset") < each.end
        condition |= here
    return condition & F.col("offset").isNotNull()


def _flags(scope: Mapping[int, PartitionScope], is_compacted: bool) -> dict[str, Column]:
    """The findings about an offset, as columns of 0 and 1 (or counts)."""
    older = F.lit(False)
    for partition, each in scope.items():
        older |= (F.col("partition") == partition) & (F.col("offset") < each.start)
    within = F.lit(False)
    for partition, each in scope.items():
        here = (F.col("partition") == partition) & (F.col("offset") >= each.start)
        within |= here & (F.col("offset") < each.end)
    in_topic, in_table = F.col("in_topic"), F.col("in_table")
    gone = within & (in_topic == 0) if is_compacted else F.lit(False)
    differs = ~(F.col("hash").eqNullSafe(F.col("least")) & F.col("hash").eqNullSafe(F.col("most")))
    return {
        "older": F.when(older, in_table).otherwise(0),
        "missing": ((in_topic > 0) & (in_table == 0)).cast("int"),
        "compacted": F.when(gone, in_table).otherwise(0),
        "extra": ((in_topic == 0) & ~older & ~gone).cast("int"),
        "duplicates": F.greatest(in_table - 1, F.lit(0)),
        "altered": ((in_topic > 0) & (in_table > 0) & differs).cast("int"),
        "read_twice": F.greatest(in_topic - 1, F.lit(0)),
    }


def _by_partition(
    sides: DataFrame, scope: Mapping[int, PartitionScope], flags: Mapping[str, Column]
) -> tuple[PartitionAudit, ...]:
    is_compared = (F.col("older") == 0) & (F.col("compacted") == 0)

    def side(name: str) -> list[Column]:
        is_there = is_compared & (F.col(f"in_{name}") > 0)

        def of_those(column: str) -> Column:
            return F.when(is_there, F.col(column))

        return [
            F.coalesce(F.sum(of_those(f"in_{name}")), F.lit(0)).alias(f"{name}_count"),
            F.sum(is_there.cast("int")).alias(f"{name}_distinct"),
            F.min(of_those("offset")).alias(f"{name}_first"),
            F.max(of_those("offset")).alias(f"{name}_last"),
            F.sum(of_those(f"{name}_sum")).alias(f"{name}_sum"),
            F.sum(of_those(f"{name}_bound")).alias(f"{name}_bound"),
        ]

    sums = [F.sum(name).alias(name) for name in flags]
    grouped = sides.withColumns(dict(flags)).groupBy("partition")
    found = {row["partition"]: row for row in grouped.agg(*side("topic"), *side("table"), *sums).collect()}
    return tuple(
        _partition(partition, scope.get(partition), found.get(partition))
        for partition in sorted({*scope, *found})
    )


def _partition(partition: int, scope: PartitionScope | None, row: Row | None) -> PartitionAudit:
    start, end = (scope.start, scope.end) if scope else (0, 0)
    if row is None:
        return PartitionAudit(partition, start, end, Side(), Side())
    counts = {name: row[name] for name in _COUNTS}
    return PartitionAudit(partition, start, end, _side(row, "topic"), _side(row, "table"), **counts)


def _side(row: Row, name: str) -> Side:
    return Side(
        count=row[f"{name}_count"],
        distinct=row[f"{name}_distinct"],
        first_offset=row[f"{name}_first"],
        last_offset=row[f"{name}_last"],
        checksum=int(row[f"{name}_sum"] or 0),
        offset_checksum=int(row[f"{name}_bound"] or 0),
    )


def _with_offenders(sides: Callable[[], DataFrame], verdict: Verdict, flags: Mapping[str, Column]) -> Verdict:
    """The first offsets that are wrong; and how many missing ones come after the table's last."""
    is_behind = F.lit(False)
    for each in verdict.partitions:
        last = -1 if each.table.last_offset is None else each.table.last_offset
        is_behind |= (F.col("partition") == each.partition) & (F.col("offset") > last)
    missing = _wrong(sides(), flags).where(F.col("fault") == Fault.MISSING.name)
    late = {
        row["partition"]: row["count"]
        for row in missing.where(is_behind).groupBy("partition").count().collect()
    }
    first = _wrong(sides(), flags).orderBy("partition", "offset").limit(_OFFENDERS).collect()
    offenders = [Offender(row["partition"], row["offset"], Fault[row["fault"]]) for row in first]
    partitions = [replace(each, behind=late.get(each.partition, 0)) for each in verdict.partitions]
    return replace(verdict, partitions=tuple(partitions), offenders=tuple(runs(offenders)))


def _wrong(sides: DataFrame, flags: Mapping[str, Column]) -> DataFrame:
    fault = (
        F.when(F.col("missing") > 0, Fault.MISSING.name)
        .when(F.col("extra") > 0, Fault.EXTRA.name)
        .when(F.col("duplicates") > 0, Fault.DUPLICATE.name)
        .when(F.col("altered") > 0, Fault.ALTERED.name)
        .when(F.col("read_twice") > 0, Fault.READ_TWICE.name)
    )
    flagged = sides.withColumns(dict(flags)).select("partition", "offset", fault.alias("fault"))
    return flagged.where(F.col("fault").isNotNull())


def _plain(error: PySparkException) -> str:
    """The sentence in Spark's message, without the traces of Python and Java around it."""
    text = str(error).strip()
    if raised := _RAISED.findall(text):
        return str(raised[-1])
    lines = [line.strip() for line in text.splitlines()]
    return " ".join(line for line in lines[:3] if line and not line.startswith("at "))
