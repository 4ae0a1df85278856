"""How far a table is behind its topic, in records and in seconds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from ottla.lake.plan.definition import TableDefinition
from ottla.lake.plan.next_commit import LogState, lag_records, next_offsets
from ottla.lake.tables.table import Snapshot
from ottla.lake.topic import Cluster, log_state, read_records
from ottla.lake.warehouse import Warehouse
from ottla.spark.source.plan.offsets import OffsetRange


@dataclass(frozen=True, slots=True)
class TableStatus:
    """A table beside its topic. `lag_seconds` is the age of the oldest record that the table lacks."""

    definition: TableDefinition
    files: int
    rows: int
    size_bytes: int
    next_offsets: dict[int, int]
    lag_records: int
    lag_seconds: float | None
    state: str

    def cells(self) -> tuple[Any, ...]:
        seconds = None if self.lag_seconds is None else f"{self.lag_seconds:.0f}"
        given = self.definition
        return (
            given.topic,
            given.table,
            given.format,
            self.files,
            self.rows,
            self.lag_records,
            seconds,
            self.state,
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.definition.topic,
            "table": self.definition.table,
            "format": self.definition.format,
            "value": self.definition.value,
            "files": self.files,
            "rows": self.rows,
            "size_bytes": self.size_bytes,
            "next_offsets": {str(partition): offset for partition, offset in self.next_offsets.items()},
            "lag_records": self.lag_records,
            "lag_seconds": self.lag_seconds,
            "state": self.state,
        }


def table_status(warehouse: Warehouse, cluster: Cluster, topic: str) -> TableStatus:
    """What `ottla lake status` shows of one table."""
    definition = warehouse.definition(topic)
    with warehouse.table(definition) as table:
        snapshot = table.snapshot()
        files = table.files(snapshot)
    log = log_state(cluster, topic, read_committed=definition.read_committed)
    begins = next_offsets(snapshot.offsets, log, from_latest=definition.start == "latest")
    behind = lag_records(begins, log)
    return TableStatus(
        definition,
        len(files),
        sum(each.rows for each in files),
        sum(each.size_bytes for each in files),
        begins,
        behind,
        _age_s(definition, cluster, log, begins) if behind else 0.0,
        _state(snapshot, log, begins, behind),
    )


def _state(snapshot: Snapshot, log: LogState, begins: dict[int, int], behind: int) -> str:
    if snapshot.offsets is not None and snapshot.offsets.topic_id != log.topic_id:
        return "of another topic"
    if any(log.starts[partition] > begin for partition, begin in begins.items()):
        return "records lost"
    if snapshot.offsets is None:
        return "empty"
    return "behind" if behind else "up to date"


def _age_s(
    definition: TableDefinition, cluster: Cluster, log: LogState, begins: dict[int, int]
) -> float | None:
    """The age of the oldest first record that the table lacks; one record of each partition is looked at."""
    oldest: list[float] = []
    for partition, begin in begins.items():
        first = max(begin, log.starts[partition])
        if first >= log.ends[partition]:
            continue
        wanted = OffsetRange(log.topic, partition, first, log.ends[partition])
        for batch in read_records(cluster, wanted, read_committed=definition.read_committed):
            if batch.num_rows:
                oldest.append(pc.min(batch.column("timestamp")).as_py().timestamp())
                break
    return max(0.0, time.time() - min(oldest)) if oldest else None
