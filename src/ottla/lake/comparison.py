"""Whether a table is its topic: each record of the log is decoded again and compared with its row.

What the log still has is compared record by record, in all columns. Of what retention has deleted, only the
table knows: there, rows that are twice are found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla.lake.plan.definition import TableDefinition
from ottla.lake.plan.next_commit import LogState, check_topic
from ottla.lake.reading.cold import cold_dataset
from ottla.lake.tables.schemas import in_columns
from ottla.lake.tables.table import Snapshot, TableError
from ottla.lake.topic import Cluster, log_state, read_records
from ottla.lake.values.decoders import value_decoder
from ottla.lake.values.rows import records_of, rows_of
from ottla.lake.warehouse import Warehouse
from ottla.spark.source.plan.offsets import OffsetRange


@dataclass(slots=True)
class PartitionVerdict:
    """One partition, from the first offset that was compared to the end of the table. Lists hold offsets."""

    partition: int
    first: int
    end: int
    records: int = 0
    rows: int = 0
    dead_letters: int = 0
    missing: list[int] = field(default_factory=list)
    duplicates: list[int] = field(default_factory=list)
    extra: list[int] = field(default_factory=list)
    altered: list[int] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        return not (self.missing or self.duplicates or self.extra or self.altered)


def compare(warehouse: Warehouse, cluster: Cluster, topic: str) -> list[PartitionVerdict]:
    """Compare the table of a topic with its log, as far as the table goes."""
    definition = warehouse.definition(topic)
    if definition.is_upsert:
        raise TableError(
            "An upsert table has the newest value of each key, not each record: it cannot be compared."
        )
    with warehouse.table(definition) as table:
        snapshot = table.snapshot()
        files = table.files(snapshot)
    if snapshot.offsets is None:
        raise TableError(f"The table {definition.table} has no commit yet: run ottla lake run {topic} first.")
    log = log_state(cluster, topic, read_committed=definition.read_committed)
    check_topic(snapshot.offsets, log)
    rows = cold_dataset(files, snapshot.schema)
    return [
        _Comparison(definition, cluster, snapshot, rows).verdict(log, partition, end)
        for partition, end in sorted(snapshot.offsets.next_offsets.items())
    ]


class _Comparison:
    """Compares one partition."""

    def __init__(self, definition: TableDefinition, cluster: Cluster, snapshot: Snapshot, rows: Any) -> None:
        self._definition = definition
        self._cluster = cluster
        self._schema = snapshot.schema
        self._rows = rows
        self._decoder = value_decoder(definition)

    def verdict(self, log: LogState, partition: int, end: int) -> PartitionVerdict:
        first = max(log.starts[partition], self._first_wanted(log, partition))
        found = PartitionVerdict(partition, min(first, end), end)
        older = self._table(partition, 0, found.first).column("offset")
        found.duplicates += _twice(older)
        found.rows += len(older)
        position = found.first
        for records in self._records(log, partition, found.first, end):
            last = records.column("offset")[-1].as_py()
            self._compare(found, records, self._table(partition, position, last + 1))
            position = last + 1
        beyond = self._table(partition, position, 2**63 - 1).column("offset").to_pylist()
        found.rows += len(beyond)
        found.extra += beyond
        return found

    def _first_wanted(self, log: LogState, partition: int) -> int:
        """A table that started at the latest offset begins with its first row."""
        if self._definition.start == "earliest":
            return 0
        offsets = self._table(partition, 0, 2**63 - 1).column("offset")
        first = pc.min(offsets).as_py()
        return log.ends[partition] if first is None else first

    def _records(self, log: LogState, partition: int, first: int, end: int) -> Iterator[pa.RecordBatch]:
        if first >= end:
            return
        wanted = OffsetRange(log.topic, partition, first, end)
        for batch in read_records(self._cluster, wanted, read_committed=self._definition.read_committed):
            if batch.num_rows:
                yield records_of(batch)

    def _compare(self, found: PartitionVerdict, records: pa.RecordBatch, rows: pa.Table) -> None:
        good, bad = rows_of(records, self._decoder, self._schema)
        expected = in_columns(
            good.select([name for name in good.column_names if name in self._schema.names]), self._schema
        )
        found.records += expected.num_rows
        found.dead_letters += bad.num_rows
        found.rows += rows.num_rows
        twice = _twice(rows.column("offset"))
        found.duplicates += twice
        wanted, there = (set(each.column("offset").to_pylist()) for each in (expected, rows))
        found.missing += sorted(wanted - there)
        found.extra += sorted(there - wanted)
        if not twice:
            both = pa.array(sorted(wanted & there), pa.int64())
            found.altered += _altered(_only(expected, both), _only(rows, both))

    def _table(self, partition: int, first: int, end: int) -> pa.Table:
        offset = pc.field("offset")
        wanted = (pc.field("partition") == partition) & (offset >= first) & (offset < end)
        return in_columns(self._rows.to_table(filter=wanted), self._schema).sort_by("offset")


def _twice(offsets: Any) -> list[int]:
    counts = pc.value_counts(offsets)
    return sorted(each["values"].as_py() for each in counts if each["counts"].as_py() > 1)


def _only(rows: pa.Table, offsets: pa.Array) -> pa.Table:
    return rows.filter(pc.is_in(rows.column("offset"), offsets)).sort_by("offset").combine_chunks()


def _altered(expected: pa.Table, rows: pa.Table) -> list[int]:
    """The offsets whose rows differ."""
    if expected.equals(rows):
        return []
    pairs = zip(expected.to_pylist(), rows.to_pylist(), strict=True)
    return [left["offset"] for left, right in pairs if left != right]
