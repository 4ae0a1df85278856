"""What the formats have in common: a snapshot with the offsets it holds, its files, and a commit.

Rules
- A commit is atomic: files, columns and offsets change together, or nothing does.
- A commit is made on a snapshot. If the table has moved on, it raises ConflictError and changes nothing.
- After any other error the caller does not know: it reads the table again, and the offsets tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from ottla.lake.plan.seam import FileSpan
from ottla.lake.plan.table_offsets import TableOffsets


class ConflictError(RuntimeError):
    """Another writer committed first; nothing of this commit is in the table."""


class TableError(RuntimeError):
    """The table is not as this program needs it; the message says what to do."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of a table. `part` is the day, hour or bucket that all its rows belong to."""

    path: str
    rows: int
    size_bytes: int
    part: int | None
    span: FileSpan


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table at one moment. `offsets` is None before the first commit; `state` is the format's own."""

    version: str
    offsets: TableOffsets | None
    schema: pa.Schema
    state: Any


@dataclass(frozen=True, slots=True)
class Change:
    """A commit: files that come and go, the columns after it, the offsets after it."""

    offsets: TableOffsets
    schema: pa.Schema
    added: Sequence[DataFile] = ()
    removed: Sequence[DataFile] = ()
    is_maintenance: bool = False  # the same rows in other files


class LakeTable(Protocol):
    """A table of a topic in one of the formats."""

    @property
    def definition_text(self) -> str:
        """The definition, as the table itself has it."""

    @property
    def data_location(self) -> str:
        """Where files for the next commit are written."""

    def snapshot(self) -> Snapshot:
        """The table as it is now."""

    def files(self, snapshot: Snapshot) -> list[DataFile]:
        """The files of a snapshot."""

    def commit(self, base: Snapshot, change: Change) -> None:
        """Make a change on a snapshot; ConflictError if the table is not at that snapshot any more."""

    def expire(self, older_than_ms: int, grace_ms: int) -> list[str]:
        """Forget snapshots from before a time, but not the newest, and delete files that nothing refers to and that
        were written before the grace. Returns the deleted files.
        """

    def close(self) -> None:
        """Release connections to a catalog."""
