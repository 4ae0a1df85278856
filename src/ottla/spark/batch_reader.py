"""A batch query: the cluster is asked once, in the planner, and each task reads an exact range.

Filters are pushed down only if the option `pushFilters` asks for it: see `plan_use` for why, and for what it forbids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from ottla.spark.batch_plan import planned_ranges
from ottla.spark.filters import Wanted, wanted
from ottla.spark.offsets import OffsetRange
from ottla.spark.options import SourceOptions
from ottla.spark.plan_use import take
from ottla.spark.scan import ScanSettings, scan
from ottla.spark.splitting import split
from ottla.spark.topics import TopicOffsets

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """What one task reads."""

    value: OffsetRange


def scan_settings(options: SourceOptions) -> ScanSettings:
    return ScanSettings(
        bootstrap_servers=options.bootstrap_servers,
        client=options.client,
        include_headers=options.include_headers,
        fail_on_data_loss=options.fail_on_data_loss,
        read_committed=options.read_committed,
    )


class OttlaBatchReader(DataSourceReader):
    """Plans in the driver's planner, reads on executors: it is pickled in between."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._settings = scan_settings(options)
        self._wanted = Wanted()

    def partitions(self) -> Sequence[InputPartition]:
        topics = TopicOffsets(self._options)
        try:
            ranges = planned_ranges(self._options, self._wanted, topics)
        finally:
            topics.close()
        pieces = split(ranges, self._options.min_partitions, self._options.max_records_per_partition)
        return [RangePartition(each) for each in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark makes a partition of its own if there is none to read.
        if isinstance(partition, RangePartition):
            yield from scan(partition.value, self._settings)


class OttlaFilteringReader(OttlaBatchReader):
    """Reads only what the filters of its one query can want."""

    def __init__(self, options: SourceOptions, plan: str) -> None:
        super().__init__(options)
        self._plan = plan

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        self._wanted, left_to_spark = wanted(filters)
        self._settings = replace(
            self._settings, since_ms=self._wanted.since_ms, until_ms=self._wanted.until_ms
        )
        if self._is_narrowed:
            take(f"{self._plan}-filters", repr(self._wanted))
        return left_to_spark

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if self._is_narrowed:
            take(f"{self._plan}-query", _this_query())
        return super().read(partition)

    @property
    def _is_narrowed(self) -> bool:
        return self._wanted != Wanted()


def _this_query() -> str:
    task = TaskContext.get()
    properties = ("spark.sql.execution.root.id", "spark.sql.execution.id")
    return next((found for name in properties if task and (found := task.getLocalProperty(name))), "")
