"""A partition's log: the door to everything in this room.

One thread, the event loop's, calls everything here but the jobs, which run in any thread. Offsets are per
log, rise by one per record and are never given to a second record (STO-4). The state of a log is in its
parts; each field is changed by the part that has it, and by no other:

    extent        segments, log start offset, leader epochs, the first lost offset
    tail          the active segment's roll, the topic settings
    durability    the flushed offset, flushes, truncations that are not durable yet
    producers     idempotence and transactions
    retention     segments that left the log
    compaction    how far the log is compacted, and the passes
    timestamps    records by their timestamps
    status        whether the log can be written, and where it could not be read
"""

from collections.abc import Collection, Sequence
from typing import Self

from ottla.config import TopicConfig
from ottla.errors import KafkaError
from ottla.log.compaction.log_compaction import LogCompaction
from ottla.log.compaction.swap import SegmentSwap
from ottla.log.files.location import Location
from ottla.log.files.open_files import OpenFiles
from ottla.log.opening.loading import LogParts, Opening, load
from ottla.log.producers.verification import Verification
from ottla.log.reading.aborted_transactions import find_aborted
from ottla.log.reading.reader import FileRange, Reader
from ottla.log.reading.timestamps import Timestamps
from ottla.log.scrubbing.quarantine import set_aside
from ottla.log.scrubbing.segment_check import Damage
from ottla.log.segments.truncation_job import TruncationJob
from ottla.log.writing.append import Appended, Appender
from ottla.log.writing.coordinator_append import CoordinatorAppender
from ottla.log.writing.deletion import DeletedLog, delete_directory
from ottla.log.writing.flush import FlushJob
from ottla.log.writing.replicated import ReplicatedAppender, batch_around
from ottla.log.writing.retention import Retention
from ottla.log.writing.truncation import Truncation
from ottla.log.writing.writer import Writer
from ottla.model import EpochEnd
from ottla.records.batch import CorruptRecord
from ottla.records.control import TransactionMarker
from ottla.records.index_entries import AbortedEntry
from ottla.runtime.disk import Disk


class Log:
    """One partition's batches, oldest segment first. Made by `Log.open`."""

    __slots__ = (
        "_appender",
        "_coordinator",
        "_reader",
        "_replicated",
        "_segments",
        "_snapshots",
        "_truncation",
        "compaction",
        "directory",
        "durability",
        "extent",
        "producers",
        "retention",
        "status",
        "tail",
        "timestamps",
    )

    def __init__(self, parts: LogParts) -> None:
        self.extent = extent = parts.extent
        self.tail = tail = parts.tail
        self.durability = durability = parts.durability
        self.producers = producers = parts.producers
        self.status = status = parts.status
        self.directory = extent.location.directory
        self._segments = extent.segments
        self._snapshots = parts.snapshots
        self._reader = Reader(extent, status)
        writer = Writer(extent, tail, durability, producers, status)
        self._appender = Appender(writer, extent, tail, producers, status)
        self._replicated = ReplicatedAppender(writer, extent, status)
        self._coordinator = CoordinatorAppender(self._replicated, extent, producers)
        self._truncation = Truncation(extent, tail, durability, producers, parts.snapshots)
        self.timestamps = Timestamps(extent, status)
        self.retention = Retention(extent, tail, durability, producers, self._reader)
        swap = SegmentSwap(extent, durability, self.retention, self._reader, status)
        self.compaction = LogCompaction(extent, tail, producers, status, swap)

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        config: TopicConfig,
        *,
        recovery_point: int,
        log_start_offset: int,
        clean: bool,
        now_ms: int,
        open_files: OpenFiles,
        high_watermark: int | None = None,
    ) -> Self:
        """Open the log in `directory`, or create it.

        `clean`: it was closed cleanly, and nothing is scanned. `high_watermark`: all replicas have the records
        below; None if all of the log is replicated.
        """
        opening = Opening(
            location=Location(disk, directory, open_files),
            config=config,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            is_clean=clean,
            now_ms=now_ms,
            trusted_up_to=recovery_point,
            replicated_up_to=high_watermark,
        )
        return cls(load(opening))

    def __repr__(self) -> str:
        return f"Log({self.extent.location.name}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def log_start_offset(self) -> int:
        return self.extent.start_offset

    @property
    def log_end_offset(self) -> int:
        return self._segments.active.next_offset

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the last record; -1 without one."""
        return self.extent.leader_epochs.latest

    def end_offset_for(self, epoch: int) -> EpochEnd:
        """The largest leader epoch up to `epoch`, and its end offset; (-1, -1) if that is unknown."""
        return self.extent.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    def append(
        self,
        record_sets: Sequence[memoryview],
        *,
        leader_epoch: int,
        now_ms: int,
        verified: Collection[Verification] | None = None,
    ) -> list[Appended | KafkaError]:
        """Append batches of clients: one batch and one answer per item, in order. Never raises for bad data.

        The views must be writable: base offset and leader epoch are written into them. A batch begins a
        transaction only if its verification is among `verified`; None: nobody verifies.
        """
        return self._appender.append(record_sets, leader_epoch, now_ms, verified)

    def append_records(self, batch: memoryview, *, leader_epoch: int, now_ms: int) -> Appended:
        """Append a batch of the broker itself, control batches included, without a client's checks.

        KafkaError(INVALID_PRODUCER_EPOCH) if it has a producer that was fenced.
        """
        return self._coordinator.append_batch(batch, leader_epoch, now_ms)

    def append_marker(self, marker: TransactionMarker, *, leader_epoch: int, now_ms: int) -> int:
        """Append the marker that ends a transaction, unless the log has it; the end offset after it.

        KafkaError if an older producer epoch, or an older coordinator, is to be written.
        """
        return self._coordinator.append_marker(marker, leader_epoch, now_ms)

    def append_replicated(self, records: memoryview, now_ms: int) -> None:
        """Append batches with a leader's offsets.

        KafkaError if they are damaged or do not follow the log's end.
        """
        start = self.log_start_offset
        if start == self.log_end_offset and (base_offset := batch_around(start, records)) is not None:
            # Records were deleted up to the middle of this batch, and batches are appended whole.
            self.truncate_fully(base_offset)
        self._replicated.append_replicated(records, now_ms)
        self.advance_log_start_offset(start)

    def read(self, offset: int, max_bytes: int, *, upper_offset: int, at_least_one: bool) -> FileRange | None:
        """Whole batches from the one with `offset` on, below `upper_offset` and within `max_bytes`.

        With `at_least_one` the first batch is returned even if it alone is larger. None if there is no batch
        (yet); KafkaError(OFFSET_OUT_OF_RANGE) outside the log.
        """
        try:
            return self._reader.read(offset, max_bytes, upper_offset=upper_offset, at_least_one=at_least_one)
        except (OSError, CorruptRecord) as problem:
            raise self.status.read_error(problem, offset) from problem

    @property
    def first_unstable_offset(self) -> int | None:
        """Where a reader of committed records must stop; None if no transaction holds such readers back."""
        first = self.producers.transactions.first_unstable_offset
        return None if first is None else max(first, self.extent.start_offset)

    def aborted_transactions(self, offset: int, upper_offset: int) -> list[AbortedEntry]:
        """The aborted transactions with records between two offsets that a reader may see."""
        try:
            return find_aborted(self._segments, offset, upper_offset)
        except (OSError, CorruptRecord) as problem:
            raise self.status.read_error(problem) from problem

    def roll(self, now_ms: int) -> None:
        """Begin a new segment, unless the active one is empty."""
        self.tail.roll(self.log_end_offset, now_ms)

    def advance_log_start_offset(self, offset: int) -> None:
        """Delete the records before `offset` for readers; their segments go with the next retention plan."""
        if self.extent.advance_start(offset):
            self.producers.forget_transactions_before(self.extent.start_offset)

    def truncate_to(self, offset: int) -> None:
        """Remove all batches from `offset` on, durably: a follower whose leader has others there.

        OSError if it fails.
        """
        self.begin_truncate(offset)
        self.durability.settle_truncation()

    def begin_truncate(self, offset: int) -> TruncationJob | None:
        """Truncate, and return the job that makes it durable, in any thread; None if it is durable.

        The next append waits for the job.
        """
        self._reader.forget_places()
        self._truncation.truncate_to(offset)
        self.compaction.note_truncation()
        return self.durability.pending_truncation

    def truncate_fully(self, new_start: int) -> None:
        """Remove all batches and begin at `new_start`."""
        self._reader.forget_places()
        self._truncation.restart_at(new_start)
        self.compaction.note_truncation()

    def set_aside(self, damage: Damage) -> str:
        """Take a damaged segment's file out of the log, to be fetched again; where the file is kept.

        OSError if that fails. The log misses the segment's records until a follower truncates it there.
        """
        self._reader.forget_places()
        return set_aside(self.extent, self.durability, damage.segment, damage.position)

    def accept_loss(self) -> None:
        """This replica leads: no other has the records that this log lost."""
        if self.extent.forget_loss():
            self.durability.note_names()

    def close(self, clean: bool = True) -> None:
        """Close all files. A clean close flushes and leaves nothing to be scanned; OSError if it cannot."""
        if self.status.is_closed:
            return
        if not clean:
            self.status.begin_close()
            self._release()
            return
        job, problem = self.begin_close(), None
        try:
            if job is not None:
                job.run()
        except OSError as found:
            problem = found
        self.end_close(job, problem)
        if problem is not None:
            raise problem

    def begin_close(self) -> FlushJob | None:
        """Begin a clean close: the job that flushes the log, in any thread; None if nothing is to be flushed.

        `end_close` follows. After an OSError the log is closed, and not cleanly.
        """
        self.status.begin_close()
        try:
            return self._last_flush() if self.status.refusal is None else None
        except OSError:
            self._release()
            raise

    def end_close(self, job: FlushJob | None, problem: OSError | None) -> None:
        """The job of `begin_close` ended: close all files. The close is clean if there was no problem."""
        if problem is not None:
            self.durability.fail_flush(problem)
        elif job is not None:
            self.durability.complete_flush(job)
        if self.status.refusal is None:
            self.status.note_clean_close()
        self._release()

    def _last_flush(self) -> FlushJob | None:
        end = self.log_end_offset
        if self.durability.is_pristine or (self.durability.is_unchanged and self._snapshots.has(end)):
            return None
        self._segments.active.seal(self.tail.config.segment_index_bytes)
        self._snapshots.write(end)
        return self.durability.begin_flush(is_last=True)

    def _release(self) -> None:
        self._reader.forget_places()
        self.extent.close()
        self.status.complete_close()

    def begin_delete(self) -> DeletedLog:
        """Close the log and rename its directory; `DeletedLog.run` removes the files, in any thread."""
        self.close(clean=False)
        self.status.note_deletion()
        return delete_directory(self.extent.location.disk, self.directory)
