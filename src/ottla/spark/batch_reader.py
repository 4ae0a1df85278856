"""A batch query: the cluster is asked once, in the planner, and each task reads an exact range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from ottla.client.metadata import TopicPartition
from ottla.spark.data_loss import report_data_loss
from ottla.spark.offsets import OffsetRange, PartitionOffsets
from ottla.spark.option_values import OptionError
from ottla.spark.options import SourceOptions, for_batch
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
        self._starting, self._ending = for_batch(options)
        self._settings = scan_settings(options)

    def partitions(self) -> Sequence[InputPartition]:
        topics = TopicOffsets(self._options)
        try:
            ranges = self._ranges(topics)
        finally:
            topics.close()
        pieces = split(ranges, self._options.min_partitions, self._options.max_records_per_partition)
        return [RangePartition(each) for each in pieces]

    def _ranges(self, topics: TopicOffsets) -> list[OffsetRange]:
        partitions = topics.partitions()
        starts = topics.resolve(self._starting, partitions, side="starting")
        ends = topics.resolve(self._ending, partitions, side="ending")
        bounds = Bounds(topics.earliest(partitions), topics.latest(partitions))
        return [
            bounds.range(partition, starts, ends, fail_on_data_loss=self._options.fail_on_data_loss)
            for partition in sorted(partitions & starts.keys() & ends.keys())
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark makes a partition of its own if there is none to read.
        if isinstance(partition, RangePartition):
            yield from scan(partition.value, self._settings)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is there of each partition while a batch is planned."""

    earliest: Mapping[TopicPartition, int]
    latest: Mapping[TopicPartition, int]

    def range(
        self,
        partition: TopicPartition,
        starts: PartitionOffsets,
        ends: PartitionOffsets,
        *,
        fail_on_data_loss: bool,
    ) -> OffsetRange:
        """The part of the wanted range that is there; what is not is data loss."""
        start, end = starts[partition], ends[partition]
        earliest, latest = self.earliest.get(partition, start), self.latest.get(partition, end)
        if start > end:
            raise OptionError(
                f"The starting offset {start} of {partition} lies behind its ending offset {end}. Check the options, and whether "
                "the topic was deleted and created anew."
            )
        if start < earliest:
            reason = f"{partition} is to be read from offset {start}, and begins at {earliest}."
            report_data_loss(reason, fail=fail_on_data_loss)
        if end > latest:
            reason = f"{partition} is to be read up to offset {end}, and ends at {latest}."
            report_data_loss(reason, fail=fail_on_data_loss)
        end = min(end, latest)
        return OffsetRange(*partition, min(max(start, earliest), end), end)
