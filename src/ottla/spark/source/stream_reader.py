"""A streaming query: for each batch, Spark asks how far there is to read, then for the ranges between two
offsets.

Rules
- Spark's checkpoint knows where a query is. The reader remembers nothing that a restart would need.
- Until the first batch is done, a restart asks for the initial offset again, and repeats that batch from
  there. Where a query starts at the end, that would be another place: so its first batch is empty, and
  nothing is missed in between.
- New partitions are read from their beginning. Partitions that have vanished are data loss.
- With available-now, the ends are those of the moment the query started.
- Options are checked when the first question comes: Spark hides what the making of a reader raises.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from ottla.model import TopicPartition
from ottla.spark.source.columns import check_columns
from ottla.spark.source.plan.admission import Admission, limited
from ottla.spark.source.plan.data_loss import report_data_loss
from ottla.spark.source.plan.offsets import (
    OffsetJson,
    OffsetRange,
    PartitionOffsets,
    in_words,
    offsets_as_json,
    offsets_of_json,
)
from ottla.spark.source.plan.options import SourceOptions, TopicPattern, source_options
from ottla.spark.source.plan.positions import AtOffsets, depends_on_the_end
from ottla.spark.source.plan.query_bounds import for_stream
from ottla.spark.source.read_limits import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
    check_limits,
)
from ottla.spark.source.task_ranges import task_ranges
from ottla.spark.source.tasks import RangePartition, scanned

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.spark.source.progress import GroupProgress
    from ottla.spark.source.topics import TopicOffsets


class OttlaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in a process of its own beside the driver as long as the query runs; `read` happens on
    executors.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._given = given
        self._schema = schema
        self._initial: PartitionOffsets | None = None  # until the first batch is done
        self._starts_at_the_end = False
        self._target: PartitionOffsets | None = None
        self._latest: PartitionOffsets = {}
        self._done: PartitionOffsets = {}  # for Spark 4.1, which does not say: the end of the batch that was planned last
        self._last_batch_s: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_given": self._given, "_schema": self._schema}

    @cached_property
    def _options(self) -> SourceOptions:
        options = source_options(self._given)
        check_columns(self._schema, include_headers=options.include_headers)
        for_stream(options)
        check_limits(options)
        return options

    @cached_property
    def _admission(self) -> Admission:
        return Admission.of(self._options)

    @cached_property
    def _topics(self) -> TopicOffsets:
        from ottla.spark.source.topics import TopicOffsets  # beside the driver only

        return TopicOffsets(self._options)

    @cached_property
    def _progress(self) -> GroupProgress:
        from ottla.spark.source.progress import GroupProgress

        return GroupProgress(self._options.bootstrap_servers, self._options.group_id, self._options.security)

    # ---- how far

    def initialOffset(self) -> OffsetJson:  # noqa: N802 - Spark's name
        starting = for_stream(self._options)
        resolved = self._topics.resolve(starting, self._partitions_at_first(), side="starting")
        self._initial = self._not_beyond(resolved) if isinstance(starting, AtOffsets) else resolved
        self._starts_at_the_end = depends_on_the_end(starting, self._options.strategy)
        return offsets_as_json(self._initial)

    def _partitions_at_first(self) -> frozenset[TopicPartition]:
        # The topics of a pattern may come later; one that is named must be there.
        if isinstance(self._options.subscription, TopicPattern):
            return self._topics.partitions_left()
        return self._topics.partitions()

    def _not_beyond(self, offsets: PartitionOffsets) -> PartitionOffsets:
        latest = self._topics.latest(offsets)
        for partition, offset in offsets.items():
            if offset > latest.get(partition, offset):
                self._lost(
                    f"{partition} is to be read from offset {offset}, and ends at {latest[partition]}."
                )
        return {each: min(offset, latest.get(each, offset)) for each, offset in offsets.items()}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        # Spark has no limit with both a minimum and a maximum for Python: this one only says that the options
        # count.
        if self._admission.max_offsets is not None:
            return ReadMaxRows(self._admission.max_offsets)
        if self._admission.min_offsets is not None:
            return ReadMinRows(self._admission.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = self._topics.latest_not_before({})

    def latestOffset(self, start: OffsetJson | None = None, limit: ReadLimit | None = None) -> OffsetJson:  # noqa: N802 - Spark's name
        if start is None:  # Spark 4.1
            return self._all_there_is()
        begin = offsets_of_json(start)
        # Spark asks when everything before `start` is done. Its own `commit` comes only with the batch after
        # the next data.
        if self._options.commit_progress:
            self._progress.commit(begin)
        self._latest = self._ends(begin)
        if self._starts_at_the_end:
            self._starts_at_the_end = False
            return start
        if isinstance(limit, ReadAllAvailable):
            return offsets_as_json(self._latest)
        return offsets_as_json(self._admitted(begin))

    def _all_there_is(self) -> OffsetJson:
        if self._options.commit_progress and self._done:
            self._progress.commit(self._done)
        self._latest = self._topics.latest_not_before(self._done)
        return offsets_as_json(self._latest)

    def _ends(self, begin: PartitionOffsets) -> PartitionOffsets:
        if self._target is None:
            return self._topics.latest_not_before(begin)
        # A new query that starts at the end is asked where that is after the target was taken.
        if any(self._target.get(partition, -1) < offset for partition, offset in begin.items()):
            self._target = self._topics.latest_not_before(begin)
        return self._target

    def _admitted(self, begin: PartitionOffsets) -> PartitionOffsets:
        now_s = time.monotonic()
        waited_ms = None if self._last_batch_s is None else (now_s - self._last_batch_s) * 1000
        # Available-now must come to its end, however little is left.
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
        self._starts_at_the_end = False  # this is the first batch, or there has been one
        self._done = until
        if begin == until:
            return []
        # A first batch that is repeated may begin with partitions that it did not know of when it ended.
        vanished = begin.keys() - until.keys()
        if vanished and self._initial is None:
            self._lost(
                f"{in_words(vanished)} not there any more, or this query reads other topics than before."
            )
        begin = {**begin, **self._starts_of_new(until.keys() - begin.keys())}
        ranges = [self._range(each, begin[each], until[each]) for each in sorted(until) if each in begin]
        return [RangePartition(each) for each in task_ranges(ranges, self._options, self._topics)]

    def _starts_of_new(self, new: set[TopicPartition]) -> PartitionOffsets:
        starts = self._topics.earliest(new)
        if vanished := new - starts.keys():
            self._lost(f"{in_words(vanished)} new, and not there any more.")
        for partition, start in starts.items():
            if start > 0:
                self._lost(f"{partition} is new to this query, and begins at offset {start} instead of 0.")
        return starts

    def _range(self, partition: TopicPartition, start: int, end: int) -> OffsetRange:
        if end < start and self._initial is None:
            self._lost(
                f"{partition} was read up to offset {start}, and ends at {end}. Was the topic deleted and created again?"
            )
        return OffsetRange(*partition, start, max(start, end))

    def _lost(self, reason: str) -> None:
        report_data_loss(reason, fail=self._options.fail_on_data_loss)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return scanned(partition, self._options)

    # ---- after

    def commit(self, end: OffsetJson) -> None:
        self._initial = None

    def stop(self) -> None:
        # Parts that were never needed are not made for this.
        for name in ("_topics", "_progress"):
            if name in vars(self):
                getattr(self, name).close()
