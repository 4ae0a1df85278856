"""One task of a query, batch or streaming: the range that it reads, and how the options say to read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from ottla.spark.runtime.worker_heap import freeze_what_is_loaded
from ottla.spark.source.plan.offsets import OffsetRange
from ottla.spark.source.plan.options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """The range that one task reads."""

    value: OffsetRange


def scanned(
    partition: InputPartition,
    options: SourceOptions,
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The records of a task. Spark makes a partition of its own if a batch query has none: there is nothing
    in it.
    """
    if not isinstance(partition, RangePartition):
        return
    from ottla.spark.source.scan import ScanSettings, scan  # on executors only

    freeze_what_is_loaded()
    settings = ScanSettings(
        bootstrap_servers=options.bootstrap_servers,
        security=options.security,
        client=options.client,
        include_headers=options.include_headers,
        fail_on_data_loss=options.fail_on_data_loss,
        read_committed=options.read_committed,
        read_tier=options.read_tier,
        since_ms=since_ms,
        until_ms=until_ms,
    )
    yield from scan(partition.value, settings)
