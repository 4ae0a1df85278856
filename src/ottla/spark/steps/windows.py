"""Steps over time: duplicates dropped, values summed up per window, rows of two streams joined.

Each needs to know how late a row may come: as long as that, state is kept; what comes later is left out.
Where a stream has its watermark already (from `read_table`), `late` is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.spark.steps.arguments import StepError, choice, duration, duration_above_zero, name, names, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def deduplicate(rows: DataFrame, keys: str | Iterable[str], *, time: str, late: str | None) -> DataFrame:
    """Of the rows that agree in `keys`, the first, as long as they come within `late` of each other."""
    columns = names("keys", keys)
    return _watermarked(rows, time, late).dropDuplicatesWithinWatermark(columns)


def windowed(
    rows: DataFrame,
    aggregates: Mapping[str, str],
    *,
    time: str,
    every: str,
    late: str | None,
    by: str | Iterable[str] = (),
    sliding: str | None = None,
) -> DataFrame:
    """Aggregates per window of time: columns window_start, window_end, those of `by`, and the aggregates.

    `aggregates` are names and expressions in SQL, as `{"revenue": "sum(amount)", "orders": "count(*)"}`. A
    window is as long as `every` says, and a new one begins after as much, or after `sliding`. As a streaming
    table a window is there once, when no row for it may come any more.
    """
    from pyspark.sql import functions as F  # noqa: N812

    if not isinstance(aggregates, Mapping) or not aggregates:
        raise StepError(
            f"aggregates is {aggregates!r}, but takes names and expressions: {{'revenue': 'sum(amount)'}}."
        )
    length = duration_above_zero("every", every)
    slide = duration_above_zero("sliding", sliding) if sliding is not None else None
    groups = names("by", by, empty=True)
    window = F.window(F.col(quoted(name("time", time))), length, slide)
    summed = _watermarked(rows, time, late).groupBy(window, *(F.col(quoted(each)) for each in groups))
    return summed.agg(*(F.expr(expression).alias(alias) for alias, expression in aggregates.items())).select(
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        *(F.col(quoted(each)) for each in groups),
        *(F.col(quoted(each)) for each in aggregates),
    )


def join_streams(
    left: DataFrame,
    right: DataFrame,
    on: str | Iterable[str],
    *,
    left_time: str,
    right_time: str,
    within: str,
    late: str | None,
    how: str = "inner",
) -> DataFrame:
    """Rows of two streams that agree in `on` and whose times are at most `within` apart: all columns of both,
    those of `on` once.

    `how` is inner or left; a left row without a partner comes when none can come any more.
    """
    keys = names("on", on)
    kind = choice("how", how, ("inner", "left"))
    apart = duration("within", within)
    one, other = quoted(name("left_time", left_time)), quoted(name("right_time", right_time))
    near = f"l.{one} BETWEEN r.{other} - INTERVAL {apart} AND r.{other} + INTERVAL {apart}"
    same = " AND ".join(f"l.{quoted(key)} = r.{quoted(key)}" for key in keys)
    from pyspark.sql import functions as F  # noqa: N812

    joined = (
        _watermarked(left, left_time, late)
        .alias("l")
        .join(_watermarked(right, right_time, late).alias("r"), F.expr(f"{same} AND {near}"), kind)
    )
    return joined.selectExpr("l.*", f"r.* EXCEPT ({', '.join(quoted(key) for key in keys)})")


def join_table(rows: DataFrame, table: DataFrame, on: str | Iterable[str], *, how: str = "left") -> DataFrame:
    """A stream joined with a table, by the columns `on`; the table is read again for each batch.

    `how` is left, or inner, which leaves out rows that the table does not know.
    """
    return rows.join(table, names("on", on), choice("how", how, ("left", "inner")))


def _watermarked(rows: DataFrame, time: str, late: str | None) -> DataFrame:
    column = name("time", time)
    return rows if late is None else rows.withWatermark(column, duration("late", late))
