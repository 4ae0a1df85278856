"""A streaming query: for each batch, Spark asks how far there is to read, then for the ranges between two offsets.

Rules
- Spark's checkpoint knows where a query is. The reader remembers nothing that a restart would need.
- Before the first batch is done, a restart asks for the initial offset anew, and the first batch is then repeated from there. Where a query
  starts at the end, that would be another place: so its first batch is empty, and nothing can be missed between.
- New partitions are read from their beginning. What has vanished is data loss.
- With available-now, the ends are those of the moment the query started.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ottla.client.metadata import TopicPartition
from ottla.spark.admission import Admission, limited
from ottla.spark.batch_reader import RangePartition, scan_settings
from ottla.spark.data_loss import report_data_loss
from ottla.spark.offsets import (
    OffsetJson,
    OffsetRange,
    PartitionOffsets,
    in_words,
    offsets_as_json,
    offsets_of_json,
)
from ottla.spark.options import SourceOptions, for_stream
from ottla.spark.positions import depends_on_the_end
from ottla.spark.scan import scan
from ottla.spark.splitting import split
from ottla.spark.topics import TopicOffsets

if TYPE_CHECKING:
    import pyarrow as pa


class OttlaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in a process of its own beside the driver as long as the query runs; `read` happens on executors."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._admission = Admission(
            options.max_offsets_per_trigger, options.min_offsets_per_trigger, options.max_trigger_delay_ms
        )
        self._initial: PartitionOffsets | None = None  # until the first batch is done
        self._starts_at_the_end = False
        self._target: PartitionOffsets | None = None
        self._latest: PartitionOffsets = {}
        self._last_batch_s: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options}

    @cached_property
    def _topics(self) -> TopicOffsets:
        return TopicOffsets(self._options)

    # ---- how far

    def initialOffset(self) -> OffsetJson:  # noqa: N802 - Spark's name
        starting = for_stream(self._options)
        partitions = self._topics.partitions()
        self._initial = self._topics.resolve(starting, partitions, side="starting")
        self._starts_at_the_end = depends_on_the_end(starting, self._options.strategy)
        return offsets_as_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        # Spark has no limit with both a minimum and a maximum for Python: this one only says that the options count.
        if self._admission.max_offsets is not None:
            return ReadMaxRows(self._admission.max_offsets)
        if self._admission.min_offsets is not None:
            return ReadMinRows(self._admission.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = self._topics.latest(self._topics.partitions_left())

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:  # noqa: N802 - Spark's name
        begin = offsets_of_json(start)
        if self._starts_at_the_end:
            self._starts_at_the_end = False
            return start
        self._latest = self._target or self._topics.latest_not_before(begin, self._topics.partitions_left())
        if isinstance(limit, ReadAllAvailable):
            return offsets_as_json(self._latest)
        return offsets_as_json(self._admitted(begin))

    def _admitted(self, begin: PartitionOffsets) -> PartitionOffsets:
        now_s = time.monotonic()
        waited_ms = None if self._last_batch_s is None else (now_s - self._last_batch_s) * 1000
        if self._target is None and self._admission.must_wait(begin, self._latest, waited_ms):
            return begin
        self._last_batch_s = now_s
        if self._admission.max_offsets is None:
            return self._latest
        new = self._topics.earliest(self._latest.keys() - begin.keys())
        return limited({**begin, **new}, self._latest, self._admission.max_offsets)

    def reportLatestOffset(self) -> OffsetJson | None:  # noqa: N802 - Spark's name
        return offsets_as_json(self._latest) if self._latest else None

    # ---- what

    def partitions(self, start: OffsetJson, end: OffsetJson) -> Sequence[InputPartition]:
        begin, until = offsets_of_json(start), offsets_of_json(end)
        if begin == until:
            return []
        self._check_vanished(begin, until)
        begin = {**begin, **self._starts_of_new(until.keys() - begin.keys())}
        ranges = [self._range(each, begin[each], until[each]) for each in sorted(until) if each in begin]
        pieces = split(ranges, self._options.min_partitions, self._options.max_records_per_partition)
        return [RangePartition(each) for each in pieces]

    def _check_vanished(self, begin: PartitionOffsets, until: PartitionOffsets) -> None:
        if vanished := begin.keys() - until.keys():
            self._lost(f"{in_words(vanished)} do not exist any more.")

    def _starts_of_new(self, new: set[TopicPartition]) -> PartitionOffsets:
        starts = self._topics.earliest(new)
        if vanished := new - starts.keys():
            self._lost(f"{in_words(vanished)} were new, and do not exist any more.")
        for partition, start in starts.items():
            if start > 0:
                self._lost(f"{partition} is new to this query, and begins at offset {start} instead of 0.")
        return starts

    def _range(self, partition: TopicPartition, start: int, end: int) -> OffsetRange:
        if end < start:
            if self._initial is None:
                self._lost(f"{partition} was read up to offset {start}, and ends at {end} now.")
            end = start
        return OffsetRange(*partition, start, end)

    def _lost(self, reason: str) -> None:
        report_data_loss(reason, fail=self._options.fail_on_data_loss)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, RangePartition):
            yield from scan(partition.value, scan_settings(self._options))

    # ---- after

    def commit(self, end: OffsetJson) -> None:
        self._initial = None

    def stop(self) -> None:
        self._topics.close()
