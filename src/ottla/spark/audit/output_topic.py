"""An audited output that is a topic, `topic:NAME`: rows by the origins that its records name.

The origin of a record is the partition and the offset of the record that it was made from. It stands in headers,
`origin.partition` and `origin.offset` as texts, as `steps.with_origin` writes them, or in the key, as
`partition:offset`. A topic that has several sources names them, too: `origin.topic`, or `topic:partition:offset`.
A record without an origin is one that nothing accounts for. Values are compared if they are asked for: most queries
change them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users call it)

from ottla.spark.audit.scope import FROM_EARLIEST, TO_LATEST, AuditError, scope_of
from ottla.spark.audit.table import Columns
from ottla.spark.audit.topic_records import ends_of, records_of

PREFIX: Final = "topic:"
_KEY: Final = r"^(?:(.+):)?(\d+):(\d+)$"
_Parts = tuple[Column, Column, Column]


def is_topic(table: str) -> bool:
    """Whether an audit's table is a topic."""
    return table.startswith(PREFIX)


def open_topic(
    spark: SparkSession,
    table: str,
    source: str,
    columns: Columns,
    *,
    bootstrap: str,
    options: Mapping[str, str],
) -> Callable[[], DataFrame]:
    """The rows of an output topic that came from `source`, as it is now; made again for each query.

    AuditError if the topic cannot hold each of its records.
    """
    name = table.removeprefix(PREFIX)
    ends = ends_of(bootstrap, name, (FROM_EARLIEST, TO_LATEST), options)
    if ends.is_compacted:
        raise AuditError(f"the topic {name} is compacted: records that it had may be gone")
    scope = scope_of(name, ends, FROM_EARLIEST, TO_LATEST, {})
    kept = ["value"] if columns.value or columns.checksum else []

    def rows() -> DataFrame:
        records = records_of(spark, name, bootstrap, scope, {**options, "includeHeaders": "true"})
        topic, partition, offset = _of_key() if columns.origin_in_key else _of_headers(columns.origin_headers)
        told = records.select(
            topic.alias("from_topic"), partition.alias("partition"), offset.alias("offset"), *kept
        )
        return told.where(F.col("from_topic").isNull() | (F.col("from_topic") == source)).drop("from_topic")

    return rows


def _of_headers(prefix: str) -> _Parts:
    def last(name: str) -> Column:
        named = F.filter("headers", lambda each: each["key"] == prefix + name)
        return F.try_element_at(named, F.lit(-1))["value"].cast("string")

    return last("topic"), last("partition").try_cast("int"), last("offset").try_cast("long")


def _of_key() -> _Parts:
    def part(group: int) -> Column:
        return F.regexp_extract(F.col("key").cast("string"), _KEY, group)

    topic = F.when(part(1) != "", part(1))
    return topic, part(2).try_cast("int"), part(3).try_cast("long")
