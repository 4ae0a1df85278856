"""The parts of a table: days, hours or buckets of keys, as whole numbers, for all formats the same.

A day is counted from 1970-01-01, an hour from its midnight, both in UTC. The bucket of a key is Iceberg's
(murmur3 of the bytes), so that an Iceberg table can name its partition `bucket(N, key)`.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.lake.plan.definition import TableDefinition

_MICROSECONDS: Final = {"day": 86_400_000_000, "hour": 3_600_000_000}
_EPOCH: Final = date(1970, 1, 1)


def part_column(definition: TableDefinition) -> str | None:
    """The name of the column or partition field by which the table is divided."""
    if definition.buckets is not None:
        return "ottla_key_bucket"
    return None if definition.partition_by == "none" else f"ottla_{definition.partition_by}"


def parts_of(batch: pa.RecordBatch, definition: TableDefinition) -> pa.Array | None:
    """The part of each row; None if the table is not divided."""
    if definition.buckets is not None:
        return _buckets(batch.column("key"), definition.buckets)
    unit = _MICROSECONDS.get(definition.partition_by)
    if unit is None:
        return None
    micros = batch.column("timestamp").cast(pa.int64())
    return pc.floor(pc.divide(micros.cast(pa.float64()), float(unit))).cast(pa.int32())


def _buckets(keys: pa.Array, count: int) -> pa.Array:
    from pyiceberg.transforms import BucketTransform
    from pyiceberg.types import BinaryType

    bucket = BucketTransform(count).transform(BinaryType())
    encoded = keys.dictionary_encode()
    buckets = pa.array([bucket(each) for each in encoded.dictionary.to_pylist()], pa.int32())
    # A record without a key belongs to no bucket in Iceberg: its part is null.
    return buckets.take(encoded.indices)


def part_value(definition: TableDefinition, part: int | None) -> Any:
    """A part as the value of a partition column: a date, a text for an hour, a number for a bucket."""
    if part is None or definition.buckets is not None:
        return part
    if definition.partition_by == "day":
        return _EPOCH + timedelta(days=part)
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=part)).strftime("%Y-%m-%d-%H")


def part_of_value(definition: TableDefinition, value: Any) -> int | None:
    """The part that a partition column's value stands for."""
    if value is None or definition.buckets is not None:
        return None if value is None else int(value)
    if definition.partition_by == "day":
        day = value if isinstance(value, date) else date.fromisoformat(str(value))
        return (day - _EPOCH).days
    moment = datetime.strptime(str(value), "%Y-%m-%d-%H").replace(tzinfo=UTC)
    return int(moment.timestamp()) // 3600


def part_type(definition: TableDefinition) -> pa.DataType:
    """The type of the partition column."""
    if definition.buckets is not None:
        return pa.int32()
    return pa.date32() if definition.partition_by == "day" else pa.string()


def part_directory(definition: TableDefinition, part: int | None) -> str:
    """The folder of a part's files, as Hive names it; empty for a table that is not divided."""
    name = part_column(definition)
    if name is None:
        return ""
    value = part_value(definition, part)
    return f"{name}={'__HIVE_DEFAULT_PARTITION__' if value is None else value}/"
