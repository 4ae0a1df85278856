"""A partition's log: the door to everything in this room.

One thread, the event loop's, calls everything here but `FlushJob.run`. Offsets are per log, rise by one per record and
are never given out twice (STO-4). `flushed_offset` is how far the log is known to survive a power loss.
"""

from collections.abc import Sequence
from typing import Self

from ottla.config import TopicConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.log.compaction.cleaned_segment import CleanedSegment
from ottla.log.compaction.log_compaction import LogCleaning, SegmentGroup
from ottla.log.compaction.swap import discard_cleaned, remove_cleaned, swap_cleaned
from ottla.log.files.open_files import OpenFiles
from ottla.log.opening.loading import Opening, load
from ottla.log.plan.retention import RetentionPlan, SegmentFacts
from ottla.log.producers.producer_state import Producers
from ottla.log.reading.reader import FileRange, Reader
from ottla.log.reading.timestamps import TimestampOffset, max_timestamp, offset_for_timestamp
from ottla.log.segments.leader_epochs import LeaderEpochs
from ottla.log.segments.segment import Segment
from ottla.log.segments.segment_list import Segments
from ottla.log.segments.truncation_job import CutJob
from ottla.log.state import LogState
from ottla.log.writing.append import Appended, Appender
from ottla.log.writing.deletion import DeletedLog, DeletedSegments, delete_directory, delete_segments
from ottla.log.writing.flush import Flushes, FlushJob
from ottla.log.writing.replicated import append_batch, append_replicated, batch_around
from ottla.log.writing.rolling import is_roll_due, roll, snapshot_path, write_snapshot
from ottla.log.writing.truncation import truncate_fully, truncate_to
from ottla.log.writing.writer import Writer
from ottla.model import NO_TIMESTAMP, EpochEnd
from ottla.records.batch import CorruptRecord
from ottla.runtime.disk import Disk


class Log:
    """One partition's batches, oldest segment first. Made by `Log.open`."""

    __slots__ = (
        "_appender",
        "_deleted",
        "_flushes",
        "_reader",
        "_state",
        "_writer",
        "cleaning",
        "is_closed",
        "is_deleted",
        "was_closed_cleanly",
    )

    def __init__(self, state: LogState) -> None:
        self._state = state
        self._writer = Writer(state)
        self._appender = Appender(state, self._writer)
        self._reader = Reader(state)
        self._flushes = Flushes(state)
        self.cleaning = LogCleaning(state)
        self._deleted: list[tuple[int, DeletedSegments]] = []
        self.is_closed = False
        self.is_deleted = False
        self.was_closed_cleanly = False

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
        """Open the log in `directory`, or begin one there. `clean`: it was closed properly, nothing is scanned."""
        opening = Opening(
            directory=directory,
            config=config,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            is_clean=clean,
            now_ms=now_ms,
            trusted_up_to=recovery_point,
        )
        return cls(load(disk, open_files, opening))

    def __repr__(self) -> str:
        return f"Log({self._state.name}, {self.log_start_offset}..{self.log_end_offset})"

    # -- what it is

    @property
    def directory(self) -> str:
        return self._state.directory

    @property
    def config(self) -> TopicConfig:
        return self._state.config

    @property
    def log_start_offset(self) -> int:
        return self._state.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._state.segments.active.next_offset

    @property
    def size_bytes(self) -> int:
        return self._state.segments.size_bytes

    @property
    def segments(self) -> Segments:
        return self._state.segments

    @property
    def leader_epochs(self) -> LeaderEpochs:
        return self._state.leader_epochs

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the last record; -1 without one."""
        return self._state.leader_epochs.latest

    def end_offset_for(self, epoch: int) -> EpochEnd:
        """The largest leader epoch that is at most `epoch`, and where it ends; (-1, -1) if that is unknown."""
        return self._state.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    @property
    def first_lost_offset(self) -> int | None:
        """Where records are missing since a crash. Who has a leader cuts the log there before it fetches from it."""
        return self._state.loss.first_offset

    @property
    def producers(self) -> Producers:
        return self._state.producers

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest open transaction begins: a read-committed reader stops there. None without one."""
        return self._state.producers.first_unstable_offset

    @property
    def flushed_offset(self) -> int:
        """Everything below survives a power loss; what the recovery point checkpoint may say."""
        return self._state.flushed_offset

    @property
    def unflushed_bytes(self) -> int:
        return self._state.appended_bytes - self._state.flushed_bytes

    @property
    def unflushed_messages(self) -> int:
        return self.log_end_offset - self._state.flushed_offset

    @property
    def last_flush_ms(self) -> int:
        """Since when something waits to be flushed: the time of the first append after the last flush began."""
        return self._state.unflushed_since_ms

    @property
    def write_refusal(self) -> KafkaError | None:
        """Why the log accepts no writes any more, after a failed fsync or a write that could not be undone."""
        return self._state.refusal

    @property
    def is_failing(self) -> bool:
        """Whether the last write failed, as on a full disk; the next one may succeed."""
        return self._state.is_failing

    def configure(self, config: TopicConfig) -> None:
        """Take a changed topic configuration."""
        self._state.configure(config)

    # -- appending

    def append(
        self, record_sets: Sequence[memoryview], *, leader_epoch: int, now_ms: int
    ) -> list[Appended | KafkaError]:
        """Append what clients sent: one batch per item, one answer per item, in order. Never raises for bad data.

        The views must be writable: base offset and leader epoch are patched in place.
        """
        return self._appender.append(record_sets, leader_epoch, now_ms)

    def append_records(self, batch: memoryview, *, leader_epoch: int, now_ms: int) -> Appended:
        """Append a batch of the broker's own, control batches too: numbered, but not judged as a client's."""
        return append_batch(self._state, self._writer, batch, leader_epoch, now_ms)

    def append_replicated(self, records: memoryview, now_ms: int) -> None:
        """Append batches as a leader numbered them. KafkaError if they are damaged or do not go on where we are."""
        start = self.log_start_offset
        if start == self.log_end_offset and (base_offset := batch_around(start, records)) is not None:
            # Records were deleted up to the middle of this batch, and batches come whole.
            self.truncate_fully(base_offset)
        append_replicated(self._state, self._writer, records, now_ms)
        self.advance_log_start_offset(start)

    # -- reading

    def read(self, offset: int, max_bytes: int, *, upper_offset: int, at_least_one: bool) -> FileRange | None:
        """Whole batches from the one that holds `offset` on, below `upper_offset` and within `max_bytes`.

        With `at_least_one` the first batch comes even if it alone is larger. None if there is nothing (yet);
        KafkaError(OFFSET_OUT_OF_RANGE) outside the log.
        """
        try:
            return self._reader.read(offset, max_bytes, upper_offset=upper_offset, at_least_one=at_least_one)
        except (OSError, CorruptRecord) as problem:
            raise self._unreadable(problem) from problem

    def offset_for_timestamp(self, timestamp_ms: int, *, upper_offset: int) -> TimestampOffset | None:
        """The first record at or after the time, below `upper_offset`."""
        try:
            return offset_for_timestamp(self._state, timestamp_ms, upper_offset)
        except (OSError, CorruptRecord) as problem:
            raise self._unreadable(problem) from problem

    def max_timestamp(self) -> TimestampOffset:
        """The record with the largest timestamp; (-1, -1, -1) in an empty log."""
        try:
            return max_timestamp(self._state)
        except (OSError, CorruptRecord) as problem:
            raise self._unreadable(problem) from problem

    def _unreadable(self, problem: Exception) -> KafkaError:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._state.name} cannot be read: {problem}")

    # -- durability

    def begin_flush(self) -> FlushJob:
        """What there is to sync now; run it in a thread, then `complete_flush`. One at a time."""
        return self._flushes.begin()

    def complete_flush(self, job: FlushJob) -> None:
        """The job ran: `flushed_offset` moves."""
        self._flushes.complete(job)

    def fail_flush(self, problem: BaseException) -> None:
        """The job failed: nothing is known about what it covered, so the log refuses writes from now on."""
        self._flushes.fail(problem)

    def flush(self) -> None:
        """Flush here and now. OSError if that fails, and the log then refuses writes."""
        self._run_flush(self.begin_flush())

    def _run_flush(self, job: FlushJob) -> None:
        try:
            job.run()
        except OSError as problem:
            self.fail_flush(problem)
            raise
        self.complete_flush(job)

    # -- segments

    def roll(self, now_ms: int) -> None:
        """Begin a new segment, unless the active one is empty."""
        roll(self._state, self.log_end_offset, now_ms)

    def roll_if_due(self, now_ms: int) -> bool:
        """Roll if the active segment is older than segment.ms although nothing comes in."""
        is_due = is_roll_due(self._state, now_ms)
        if is_due:
            self.roll(now_ms)
        return is_due

    def segment_facts(self) -> list[SegmentFacts]:
        """What retention plans from."""
        return [
            SegmentFacts(
                base_offset=segment.base_offset,
                next_offset=segment.next_offset,
                size_bytes=segment.size_bytes,
                max_timestamp_ms=_largest_timestamp(segment),
                modified_ms=segment.modified_ms,
            )
            for segment in self._state.segments
        ]

    def delete_segments(self, plan: RetentionPlan, now_ms: int) -> None:
        """Take segments out of the log. Their files are renamed now and removed by `remove_deleted` later."""
        self._reader.forget_places()
        deleted = delete_segments(self._state, plan.segments, plan.log_start_offset)
        self._deleted.append((now_ms + self.config.file_delete_delay_ms, deleted))

    def swap_cleaned(self, group: SegmentGroup, cleaned: CleanedSegment, now_ms: int) -> bool:
        """Put the cleaned segment in the place of its group. False, and its files are gone, if that is not there any more.

        The old files are renamed now and removed by `remove_deleted` later. OSError if the disk failed.
        """
        if self.is_closed or not self.cleaning.is_intact(group):
            if not self.is_deleted:
                discard_cleaned(self._state, cleaned)
            return False
        self._reader.forget_places()
        deleted = swap_cleaned(self._state, group.segments, cleaned)
        self._deleted.append((now_ms + self.config.file_delete_delay_ms, deleted))
        return True

    def drop_cleaned(self) -> None:
        """Remove what a pass left that could not be completed; in any thread. Nothing if the log itself is gone."""
        if not self.is_deleted:
            remove_cleaned(self._state.disk, self.directory)

    def take_deleted(self, now_ms: int) -> list[DeletedSegments]:
        """What left the log file.delete.delay.ms ago; `DeletedSegments.run` removes the files, in any thread."""
        due = [deleted for due_ms, deleted in self._deleted if due_ms <= now_ms]
        self._deleted = self._deleted[len(due) :]
        return due

    def remove_deleted(self, now_ms: int) -> None:
        """Remove the files that left the log file.delete.delay.ms ago, here and now."""
        for deleted in self.take_deleted(now_ms):
            deleted.run()

    def advance_log_start_offset(self, offset: int) -> None:
        """Records before `offset` are gone for readers; their segments go with the next retention plan."""
        state = self._state
        if offset > state.log_start_offset:
            state.log_start_offset = min(offset, self.log_end_offset)
            state.leader_epochs.truncate_from_start(state.log_start_offset)
            state.producers.forget_transactions_before(state.log_start_offset)

    def truncate_to(self, offset: int) -> None:
        """Cut off everything from `offset` on (a follower whose leader has other records there), durably. OSError if it cannot."""
        self.begin_truncate(offset)
        self._state.settle_cut()

    def begin_truncate(self, offset: int) -> CutJob | None:
        """Cut, and leave it to the caller to make that durable in a thread; the next append waits for it. None: it is."""
        self._reader.forget_places()
        job = truncate_to(self._state, offset)
        self._flushes.cut(self.log_end_offset)
        self.cleaning.cut(self.log_end_offset)
        return job

    def truncate_fully(self, new_start: int) -> None:
        """Throw everything away and begin at `new_start`."""
        self._reader.forget_places()
        truncate_fully(self._state, new_start)
        self._flushes.cut(new_start)
        self.cleaning.cut(new_start)

    def accept_loss(self) -> None:
        """This log is what counts now (its replica leads): what it lost is nowhere else."""
        if self._state.loss.first_offset is not None:
            self._state.loss.forget()
            self._state.unsynced_directories.add(self.directory)

    # -- the end

    def close(self, clean: bool = True) -> None:
        """Let go of all files. A clean close flushes and leaves nothing to be scanned; OSError if it cannot."""
        if self.is_closed:
            return
        self.is_closed = True
        try:
            if clean and self._state.refusal is None:
                self._close_books()
                self.was_closed_cleanly = True
        finally:
            self._reader.forget_places()
            self._state.close()

    def _close_books(self) -> None:
        state = self._state
        if state.is_unchanged and state.disk.exists(snapshot_path(state, self.log_end_offset)):
            return
        state.segments.active.seal(state.config.segment_index_bytes)
        write_snapshot(state, self.log_end_offset)
        self._run_flush(self._flushes.begin(is_last=True))

    def delete(self) -> None:
        """Remove the log and its directory, here and now."""
        self.begin_delete().run()

    def begin_delete(self) -> DeletedLog:
        """Take the directory out of sight in one step; `DeletedLog.run` removes the files, in any thread."""
        self.close(clean=False)
        self.is_deleted = True
        return delete_directory(self._state.disk, self.directory)


def _largest_timestamp(segment: Segment) -> int:
    """A segment that cannot be read must not keep retention from the others: it ages by its last write."""
    try:
        return segment.largest_timestamp[0]
    except (OSError, CorruptRecord):
        return NO_TIMESTAMP
