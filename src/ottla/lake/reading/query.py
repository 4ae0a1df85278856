"""The plan of one query over table and log: it can be carried out here, or sent to executors.

The snapshot of the table is fixed first, then the end of the log. Everything after that is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

import pyarrow as pa

from ottla.lake.plan.conditions import Bounds, ConditionError, bounds_of, comparisons, moment
from ottla.lake.plan.definition import TableDefinition
from ottla.lake.plan.next_commit import check_topic, next_offsets
from ottla.lake.plan.seam import hot_ranges, is_wanted
from ottla.lake.reading.expressions import both, filter_of, travel_filter
from ottla.lake.tables.schemas import RAW_SCHEMA
from ottla.lake.tables.table import DataFile, Snapshot
from ottla.lake.topic import Cluster, log_state
from ottla.lake.warehouse import NoTableError, Warehouse
from ottla.spark.source.plan.offsets import OffsetRange

At: TypeAlias = datetime | str | int | Mapping[int, int] | None
Where: TypeAlias = Any  # a text, tuples (column, operator, value), or an expression of pyarrow.compute


@dataclass(frozen=True, slots=True)
class Query:
    """What to read: files of the table, ranges of the log, the columns of both, a filter for both.

    `schema` has the table's columns; `seam` is where the table ends and the log begins.
    """

    cluster: Cluster
    definition: TableDefinition
    schema: pa.Schema
    files: tuple[DataFile, ...]
    ranges: tuple[OffsetRange, ...]
    bounds: Bounds
    filter: Any
    seam: Mapping[int, int]
    ends: Mapping[int, int]


def planned(warehouse: Warehouse, cluster: Cluster, topic: str, where: Where = None, at: At = None) -> Query:
    """Plan a query. A topic without a table is read from its log alone.

    Raises ConditionError, NoTopicError, WrongTopicError, LostRecordsError, TableError, KafkaError, ConnectionError
    or TimeoutError.
    """
    journey = _journey(at)
    try:
        definition = warehouse.definition(topic)
    except NoTableError:
        bare = TableDefinition(topic, "log", partition_by="none")
        return _query(bare, Snapshot("", None, RAW_SCHEMA, None), [], cluster, where, journey)
    with warehouse.table(definition) as table:
        snapshot = table.snapshot()
        return _query(definition, snapshot, table.files(snapshot), cluster, where, journey)


def table_schema(warehouse: Warehouse, topic: str) -> pa.Schema:
    """The columns of a topic: those of its table, or those of a record."""
    try:
        definition = warehouse.definition(topic)
    except NoTableError:
        return RAW_SCHEMA
    with warehouse.table(definition) as table:
        return table.snapshot().schema


def _query(
    definition: TableDefinition,
    snapshot: Snapshot,
    files: Sequence[DataFile],
    cluster: Cluster,
    where: Where,
    at: datetime | Mapping[int, int] | None,
) -> Query:
    wanted, given = _conditions(where)
    bounds = _travelled(bounds_of(wanted), at)
    if definition.is_upsert and at is not None:
        raise ConditionError(
            f"the table of {definition.topic} has the newest value of each key: it cannot travel in time"
        )
    # In an upsert table a newer record of the log hides a row, whatever the filter says about the record.
    log_bounds = Bounds() if definition.is_upsert else bounds
    log = log_state(cluster, definition.topic, read_committed=definition.read_committed)
    if snapshot.offsets is not None:
        check_topic(snapshot.offsets, log)
    seam = next_offsets(snapshot.offsets, log, from_latest=definition.start == "latest")
    return Query(
        cluster,
        definition,
        snapshot.schema,
        tuple(each for each in files if is_wanted(each.span, log_bounds)),
        tuple(hot_ranges(seam, log, log_bounds)),
        log_bounds,
        both(both(filter_of(wanted, snapshot.schema), given), travel_filter(at)),
        seam,
        log.ends,
    )


def _conditions(where: Where) -> tuple[list[Any], Any]:
    """Comparisons, which narrow what is read; or an expression of Arrow, which only filters it."""
    if where is None or isinstance(where, str) or not _is_expression(where):
        return comparisons(where), None
    return [], where


def _is_expression(where: Where) -> bool:
    import pyarrow.compute as pc

    return isinstance(where, pc.Expression)


def _journey(at: At) -> datetime | Mapping[int, int] | None:
    """The moment or the offsets of a journey in time. A number is milliseconds since 1970, as in Kafka."""
    if isinstance(at, bool):
        raise ConditionError(f"{at} is neither a time nor offsets by partition")
    if isinstance(at, int):
        return datetime.fromtimestamp(at / 1000, UTC)
    if isinstance(at, str):
        return moment(at)
    if isinstance(at, datetime):
        return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return at


def _travelled(bounds: Bounds, at: datetime | Mapping[int, int] | None) -> Bounds:
    if isinstance(at, datetime):
        until_ms = -int(-at.timestamp() * 1000 // 1)
        return replace(bounds, until_ms=min(bounds.until_ms, until_ms))
    return replace(bounds, ends=dict(at)) if at else bounds
