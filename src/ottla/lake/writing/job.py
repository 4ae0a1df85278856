"""One commit of a topic's table: plan from the table's own offsets, write files, commit. And again.

    read the table ── plan ── write files ── commit dead letters ── commit rows

Rules
- The only truth is the table. A crash before a commit leaves files that nobody refers to; a crash after it
  leaves nothing to do.
- Dead letters are committed first, with offsets of their own. After a crash between the two commits, records
  that are dead letters already stay dead letters, and are not written a second time.
- Of two writers one gets ConflictError, reads the table again, and goes on from there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from ottla.lake.plan.definition import TableDefinition
from ottla.lake.plan.next_commit import (
    Cadence,
    LogState,
    check_topic,
    ends_of,
    lag_records,
    next_offsets,
    next_ranges,
    tasks_of,
)
from ottla.lake.plan.table_offsets import TableOffsets
from ottla.lake.retention import tell_offsets
from ottla.lake.tables.schemas import DEAD_LETTER_SCHEMA, UnfitTypeError, merged
from ottla.lake.tables.storage import delete, filesystem_of
from ottla.lake.tables.table import Change, ConflictError, DataFile, LakeTable, Snapshot
from ottla.lake.topic import Cluster, log_state
from ottla.lake.warehouse import Warehouse
from ottla.lake.writing.engines import Engine, LocalEngine
from ottla.lake.writing.merging import merge_bucket, merge_tasks
from ottla.lake.writing.task import WriteTask, WrittenRange, write_range
from ottla.spark.source.plan.offsets import OffsetRange

_log: Final = logging.getLogger(__name__)
# A task of a million records takes seconds, and its files stay below the usual size.
_RECORDS_PER_TASK: Final = 1_000_000
_RECORDS_PER_COMMIT: Final = 20_000_000
_MOST_CONFLICTS: Final = 5


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a commit and a task take, and whether lost records are accepted."""

    records_per_commit: int = _RECORDS_PER_COMMIT
    records_per_task: int = _RECORDS_PER_TASK
    accept_loss: bool = False


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit put into the table."""

    rows: int
    dead_letters: int
    files: int
    offsets: TableOffsets


class TableWriter:
    """Keeps the table of one topic. `on_step` is told of each step, for tests that break the writer there."""

    def __init__(
        self,
        warehouse: Warehouse,
        definition: TableDefinition,
        cluster: Cluster,
        engine: Engine | None = None,
        limits: Limits | None = None,
        on_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        self._warehouse = warehouse
        self._definition = definition
        self._cluster = cluster
        self._engine = engine or LocalEngine()
        self._limits = limits or Limits()
        self._on_step = on_step

    def run(self) -> Iterator[Committed]:
        """Commit until the table has what the log had at the beginning of the last look."""
        while (done := self.commit_once()) is not None:
            yield done

    def follow(self, cadence: Cadence, *, poll_s: float = 1.0) -> Iterator[Committed]:
        """Commit for ever, as often as the cadence says. A cluster that cannot be reached is waited for."""
        waiting_since: float | None = None
        while True:
            try:
                behind = self.lag()
                now = time.monotonic()
                waiting_since = None if behind == 0 else waiting_since if waiting_since is not None else now
                if waiting_since is not None and cadence.is_due(behind, (now - waiting_since) * 1000):
                    yield from self.run()
                    waiting_since = None
            except (ConnectionError, TimeoutError) as error:
                _log.warning("the table of %s waits for the cluster: %s", self._definition.topic, error)
            time.sleep(poll_s)

    def lag(self) -> int:
        """How many offsets the table is behind the log."""
        with self._warehouse.table(self._definition) as table:
            log = self._log()
            return lag_records(self._begins(table.snapshot().offsets, log), log)

    def commit_once(self) -> Committed | None:
        """One commit; None if the table has everything. Raises LostRecordsError, WrongTopicError, DataLossError,
        TableError, KafkaError, ConnectionError or TimeoutError.
        """
        for attempt in range(_MOST_CONFLICTS):
            try:
                done = self._attempt()
                if self._definition.retention_waits:
                    self._tell_brokers()
                return done
            except ConflictError:
                if attempt + 1 == _MOST_CONFLICTS:
                    raise
        raise AssertionError("not reached")

    def _tell_brokers(self) -> None:
        """Let retention go on up to what the table holds, also if the last run died before it could say so."""
        with self._warehouse.table(self._definition) as table:
            offsets = table.snapshot().offsets
        if offsets is not None:
            tell_offsets(self._cluster, offsets.topic, offsets.next_offsets)

    def _attempt(self) -> Committed | None:
        with ExitStack() as opened:
            table = opened.enter_context(self._warehouse.table(self._definition))
            letters = (
                opened.enter_context(self._warehouse.dead_letters(self._definition))
                if self._definition.has_dead_letters
                else None
            )
            base = table.snapshot()
            log = self._log()
            begins = self._begins(base.offsets, log)
            limits = self._limits
            ranges = next_ranges(
                begins, log, most_records=limits.records_per_commit, accept_loss=limits.accept_loss
            )
            if not ranges:
                self._note(table, base, log, begins)
                return None
            return self._written(table, letters, base, log, ranges)

    def _note(self, table: LakeTable, base: Snapshot, log: LogState, begins: dict[int, int]) -> None:
        """A table that starts at the latest offsets has to say so before the first record comes."""
        if base.offsets is None and self._definition.start == "latest":
            table.commit(base, Change(TableOffsets(log.topic, log.topic_id, begins), base.schema))

    def _written(
        self,
        table: LakeTable,
        letters: LakeTable | None,
        base: Snapshot,
        log: LogState,
        ranges: list[OffsetRange],
    ) -> Committed:
        self._on_step("planned")
        letters_base = letters.snapshot() if letters is not None else None
        tasks = self._tasks(table, letters, letters_base, base, ranges)
        schema, written = self._mapped(base.schema, tasks)
        self._on_step("files written")
        offsets = (base.offsets or TableOffsets(log.topic, log.topic_id)).advanced(ends_of(ranges))
        if letters is not None and letters_base is not None:
            _commit_letters(letters, letters_base, written, offsets)
            self._on_step("dead letters committed")
        files = [file for each in written for file in each.files]
        if self._definition.is_upsert:
            files = self._upserted(table, base, Change(offsets, schema, files))
        else:
            _commit(table, base, Change(offsets, schema, files))
        self._on_step("committed")
        rows, bad = sum(each.rows for each in written), sum(each.dead_letters for each in written)
        return Committed(rows, bad, len(files), offsets)

    def _upserted(self, table: LakeTable, base: Snapshot, staged: Change) -> list[DataFile]:
        """Write the buckets that have new rows again, and commit them instead of what the tasks wrote."""
        location, commit = table.data_location, uuid4().hex
        tasks = merge_tasks(
            self._definition, staged.schema, location, commit, table.files(base), staged.added
        )
        merged_files = [file for files in self._engine.map(merge_bucket, tasks) for file in files]
        replaced = [file for each in tasks for file in each.old]
        table.commit(base, Change(staged.offsets, staged.schema, merged_files, replaced))
        for each in staged.added:
            delete(each.path)  # they never belonged to the table; after a crash here, `expire` finds them
        return merged_files

    def _tasks(
        self,
        table: LakeTable,
        letters: LakeTable | None,
        letters_base: Snapshot | None,
        base: Snapshot,
        ranges: list[OffsetRange],
    ) -> list[WriteTask]:
        commit = uuid4().hex
        known = _NO_LETTERS
        if letters is not None and letters_base is not None:
            known = _known_letters(letters, letters_base, ranges)
        return [
            WriteTask(
                self._cluster,
                self._definition,
                piece,
                base.schema,
                table.data_location,
                letters.data_location if letters is not None else None,
                f"{commit}-{index:05}",
                known.offsets.get(piece.partition, frozenset()),
                known.ends.get(piece.partition, 0),
            )
            for index, piece in enumerate(tasks_of(ranges, self._limits.records_per_task))
        ]

    def _mapped(self, schema: pa.Schema, tasks: list[WriteTask]) -> tuple[pa.Schema, list[WrittenRange]]:
        """Run the tasks. Where two found different types for a new column, the first counts, and the other runs
        again with what is known by then.
        """
        from dataclasses import replace

        done: dict[int, WrittenRange] = {}
        while len(done) < len(tasks):
            left = [index for index in range(len(tasks)) if index not in done]
            found = self._engine.map(write_range, [replace(tasks[index], schema=schema) for index in left])
            for index, each in zip(left, found, strict=True):
                try:
                    schema = merged(schema, each.schema)
                except UnfitTypeError:
                    continue
                done[index] = each
        return schema, [done[index] for index in range(len(tasks))]

    def _log(self) -> LogState:
        definition = self._definition
        return log_state(self._cluster, definition.topic, read_committed=definition.read_committed)

    def _begins(self, recorded: TableOffsets | None, log: LogState) -> dict[int, int]:
        if recorded is not None:
            check_topic(recorded, log)
        return next_offsets(recorded, log, from_latest=self._definition.start == "latest")


def _commit(table: LakeTable, base: Snapshot, change: Change) -> None:
    """Commit, and again on top of a merge of files that came in between: the offsets tell that it was no writer."""
    for _ in range(_MOST_CONFLICTS):
        try:
            table.commit(base, change)
        except ConflictError:
            fresh = table.snapshot()
            if fresh.offsets != base.offsets or fresh.schema != base.schema:
                raise
            base = fresh
        else:
            return
    raise ConflictError("Other programs keep changing the table.")


# ---- dead letters


@dataclass(frozen=True, slots=True)
class _KnownLetters:
    """Dead letters that are in their table, of ranges that are to be written: after a crash between two commits."""

    offsets: dict[int, frozenset[int]]
    ends: dict[int, int]


_NO_LETTERS: Final = _KnownLetters({}, {})


def _known_letters(letters: LakeTable, snapshot: Snapshot, ranges: list[OffsetRange]) -> _KnownLetters:
    ends = dict(snapshot.offsets.next_offsets) if snapshot.offsets is not None else {}
    ahead = [each for each in ranges if ends.get(each.partition, 0) > each.start]
    if not ahead:
        return _KnownLetters({}, ends)
    filesystem = filesystem_of(letters.data_location)[0]
    paths = [filesystem_of(each.path)[1] for each in letters.files(snapshot)]
    rows = ds.dataset(paths, schema=DEAD_LETTER_SCHEMA, format="parquet", filesystem=filesystem)
    found = {}
    for each in ahead:
        wanted = (pc.field("partition") == each.partition) & (pc.field("offset") >= each.start)
        found[each.partition] = frozenset(rows.to_table(["offset"], filter=wanted).column(0).to_pylist())
    return _KnownLetters(found, ends)


def _commit_letters(
    letters: LakeTable, snapshot: Snapshot, written: list[WrittenRange], offsets: TableOffsets
) -> None:
    """Commit on the snapshot that the tasks were planned with: a second writer's letters are a conflict."""
    files = [file for each in written for file in each.letters]
    if not files:
        return  # the next ones will bring the offsets along
    known = snapshot.offsets or TableOffsets(offsets.topic, offsets.topic_id)
    ends = {
        partition: max(end, known.next_offsets.get(partition, 0))
        for partition, end in offsets.next_offsets.items()
    }
    letters.commit(snapshot, Change(known.advanced(ends), snapshot.schema, files))
