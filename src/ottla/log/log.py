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
    status        whether the log can be written
"""

from collections.abc import Sequence
from typing import Self

from ottla.config import TopicConfig
from ottla.errors import KafkaError
from ottla.log.compaction.log_compaction import LogCompaction
from ottla.log.compaction.swap import SegmentSwap
from ottla.log.files.location import Location
from ottla.log.files.open_files import OpenFiles
from ottla.log.opening.loading import LogParts, Opening, load
from ottla.log.reading.reader import FileRange, Reader
from ottla.log.reading.timestamps import Timestamps
from ottla.log.segments.truncation_job import TruncationJob
from ottla.log.writing.append import Appended, Appender
from ottla.log.writing.deletion import DeletedLog, delete_directory
from ottla.log.writing.replicated import ReplicatedAppender, batch_around
from ottla.log.writing.retention import Retention
from ottla.log.writing.truncation import Truncation
from ottla.log.writing.writer import Writer
from ottla.model import EpochEnd
from ottla.records.batch import CorruptRecord
from ottla.runtime.disk import Disk


class Log:
    """One partition's batches, oldest segment first. Made by `Log.open`."""

    __slots__ = (
        "_appender",
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
        self._reader = Reader(extent)
        writer = Writer(extent, tail, durability, producers, status)
        self._appender = Appender(writer, extent, tail, producers, status)
        self._replicated = ReplicatedAppender(writer, extent, status)
        self._truncation = Truncation(extent, tail, durability, producers, parts.snapshots)
        self.timestamps = Timestamps(extent, status)
        self.retention = Retention(extent, tail, durability, self._reader)
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
    ) -> Self:
        """Open the log in `directory`, or create it.

        `clean`: it was closed cleanly, and nothing is scanned.
        """
        opening = Opening(
            location=Location(disk, directory, open_files),
            config=config,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            is_clean=clean,
            now_ms=now_ms,
            trusted_up_to=recovery_point,
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
        self, record_sets: Sequence[memoryview], *, leader_epoch: int, now_ms: int
    ) -> list[Appended | KafkaError]:
        """Append batches of clients: one batch and one answer per item, in order. Never raises for bad data.

        The views must be writable: base offset and leader epoch are written into them.
        """
        return self._appender.append(record_sets, leader_epoch, now_ms)

    def append_records(self, batch: memoryview, *, leader_epoch: int, now_ms: int) -> Appended:
        """Append a batch of the broker itself, control batches included, without a client's checks."""
        return self._replicated.append_batch(batch, leader_epoch, now_ms)

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

    def accept_loss(self) -> None:
        """This replica leads: no other has the records that this log lost."""
        if self.extent.forget_loss():
            self.durability.note_names()

    def close(self, clean: bool = True) -> None:
        """Close all files. A clean close flushes and leaves nothing to be scanned; OSError if it cannot."""
        if self.status.is_closed:
            return
        self.status.begin_close()
        try:
            if clean and self.status.refusal is None:
                self._make_clean()
                self.status.note_clean_close()
        finally:
            self._reader.forget_places()
            self.extent.close()
            self.status.complete_close()

    def _make_clean(self) -> None:
        end = self.log_end_offset
        if self.durability.is_unchanged and self._snapshots.has(end):
            return
        self._segments.active.seal(self.tail.config.segment_index_bytes)
        self._snapshots.write(end)
        self.durability.flush(is_last=True)

    def begin_delete(self) -> DeletedLog:
        """Close the log and rename its directory; `DeletedLog.run` removes the files, in any thread."""
        self.close(clean=False)
        self.status.note_deletion()
        return delete_directory(self.extent.location.disk, self.directory)
