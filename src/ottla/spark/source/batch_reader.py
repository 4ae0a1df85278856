"""A batch query: the cluster is asked once, in the planner, and each task reads an exact range.

Filters are pushed down only if the option `pushFilters` asks for it: see `plan_use` for why, and for what it
forbids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from ottla.spark.source.batch_plan import planned_ranges
from ottla.spark.source.plan.filters import Wanted, wanted
from ottla.spark.source.plan.options import SourceOptions
from ottla.spark.source.plan_use import take, this_query
from ottla.spark.source.task_ranges import task_ranges
from ottla.spark.source.tasks import RangePartition, scanned

if TYPE_CHECKING:
    import pyarrow as pa


class OttlaBatchReader(DataSourceReader):
    """Plans in the driver's planner, reads on executors: it is pickled in between."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._wanted = Wanted()

    def partitions(self) -> Sequence[InputPartition]:
        from ottla.spark.source.topics import TopicOffsets  # in the planner only

        topics = TopicOffsets(self._options)
        try:
            ranges = planned_ranges(self._options, self._wanted, topics)
            return [RangePartition(each) for each in task_ranges(ranges, self._options, topics)]
        finally:
            topics.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        times = {"since_ms": self._wanted.since_ms, "until_ms": self._wanted.until_ms}
        return scanned(partition, self._options, **times)


class OttlaFilteringReader(OttlaBatchReader):
    """Reads only what the filters of its one query can want."""

    def __init__(self, options: SourceOptions, plan: str) -> None:
        super().__init__(options)
        self._plan = plan

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        self._wanted, left_to_spark = wanted(filters)
        if self._is_narrowed:
            take(f"{self._plan}-filters", repr(self._wanted))
        return left_to_spark

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if self._is_narrowed:
            take(f"{self._plan}-query", this_query())
        return super().read(partition)

    @property
    def _is_narrowed(self) -> bool:
        return self._wanted != Wanted()
