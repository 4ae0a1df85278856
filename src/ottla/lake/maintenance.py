"""Small files become large ones, old snapshots and files that nobody refers to go: beside a running writer.

Rules
- The same rows in other files: a merge keeps the offsets of the table as they are.
- A merge that meets a commit of a writer is committed again on top of it, as long as the files that it replaces
  are still there.
- A file is deleted when no snapshot that stays refers to it and it is older than the grace: younger ones may
  belong to a writer that has not committed yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import pyarrow as pa

from ottla.lake.plan.definition import TableDefinition
from ottla.lake.plan.small_files import SizedFile, groups_to_merge
from ottla.lake.reading.cold import cold_dataset
from ottla.lake.tables.schemas import in_columns
from ottla.lake.tables.table import Change, ConflictError, DataFile, LakeTable, Snapshot
from ottla.lake.warehouse import Warehouse
from ottla.lake.writing.file_writer import FileWriter

_MOST_CONFLICTS: Final = 10
_SORTED: Final = [("partition", "ascending"), ("offset", "ascending")]


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge did."""

    files_before: int = 0
    files_after: int = 0
    rows: int = 0


def compact(warehouse: Warehouse, definition: TableDefinition) -> Merged:
    """Merge the small files of a topic's table. Raises ConflictError if other merges keep coming in between."""
    with warehouse.table(definition) as table:
        snapshot = table.snapshot()
        files = {each.path: each for each in table.files(snapshot)}
        total = Merged()
        for group in groups_to_merge(map(_sized, files.values()), definition.file_bytes):
            old = [files[each.path] for each in group]
            new = _merged_files(definition, table, snapshot.schema, old)
            _replace(table, old, new)
            total = Merged(
                total.files_before + len(old),
                total.files_after + len(new),
                total.rows + sum(each.rows for each in new),
            )
        return total


def expire(warehouse: Warehouse, definition: TableDefinition, older_than_ms: int, grace_ms: int) -> int:
    """Forget snapshots that are older, and delete files that are not needed any more, of the table and of its dead
    letters. `grace_ms` is a time, too: files that were written after it stay. Returns how many files went.
    """
    with warehouse.table(definition) as table:
        deleted = len(table.expire(older_than_ms, grace_ms))
    if definition.has_dead_letters:
        with warehouse.dead_letters(definition) as letters:
            deleted += len(letters.expire(older_than_ms, grace_ms))
    return deleted


def _sized(file: DataFile) -> SizedFile:
    partition = file.span.partitions[0] if file.span.partitions is not None else 0
    first = file.span.offsets[0] if file.span.offsets is not None else 0
    return SizedFile(file.path, file.part, partition, first, file.size_bytes)


def _merged_files(
    definition: TableDefinition, table: LakeTable, schema: pa.Schema, old: Sequence[DataFile]
) -> list[DataFile]:
    writer = FileWriter(definition, table.data_location, f"{uuid4().hex}-merged")
    rows = in_columns(cold_dataset(old, schema).to_table(), schema).sort_by(_SORTED)
    writer.write(rows)
    new = writer.finish()
    before, after = (sum(each.rows for each in files) for files in (old, new))
    assert before == after, f"{before} rows became {after}"
    return new


def _replace(table: LakeTable, old: Sequence[DataFile], new: Sequence[DataFile]) -> None:
    for attempt in range(_MOST_CONFLICTS):
        base = table.snapshot()
        if not _has_all(table, base, old):
            raise ConflictError("Another merge replaced the same files; nothing of this one is in the table.")
        assert base.offsets is not None
        try:
            table.commit(base, Change(base.offsets, base.schema, new, old, is_maintenance=True))
        except ConflictError:
            if attempt + 1 == _MOST_CONFLICTS:
                raise
        else:
            return


def _has_all(table: LakeTable, snapshot: Snapshot, files: Sequence[DataFile]) -> bool:
    return {each.path for each in files} <= {each.path for each in table.files(snapshot)}
