"""Records of one topic that were made from records of another say where they came from.

The headers `origin.topic`, `origin.partition` and `origin.offset` are texts in UTF-8. By them `ottla audit SOURCE
topic:OUTPUT` finds gaps and duplicates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PREFIX: Final = "origin."
HEADERS: Final = "array<struct<key:string,value:binary>>"


def with_origin(
    records: DataFrame, *, value: str = "value", key: str = "key", headers: bool = False
) -> DataFrame:
    """Rows for a topic, one for each record: key, value, and headers that say where the record came from.

    `value` and `key` are expressions in SQL. `headers=True` keeps the headers that the records had; they must have
    been read.
    """
    from pyspark.sql import functions as F  # noqa: N812

    told = F.array(*(header(PREFIX + name, F.col(name)) for name in ("topic", "partition", "offset")))
    every = F.concat(F.coalesce(F.col("headers"), F.array().cast(HEADERS)), told) if headers else told
    return records.select(F.expr(key).alias("key"), F.expr(value).alias("value"), every.alias("headers"))


def header(key: str, value: Column) -> Column:
    """A header whose value is a text."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.struct(F.lit(key).alias("key"), F.encode(value.cast("string"), "UTF-8").alias("value"))
