"""How much of one log survives a power loss (STO-10).

Flushes run in another thread, so that one fsync serves all appends that wait for it: `begin_flush` collects,
on the event loop, what there is to sync; `FlushJob.run` syncs it, in any thread; `complete_flush` moves the
flushed offset, on the event loop again. A sync that failed is never retried: the kernel may have dropped the
pages and would then report success. So after a failed sync the log refuses writes.
"""

from ottla.log.segments.extent import Extent
from ottla.log.segments.truncation_job import TruncationJob
from ottla.log.status import Status
from ottla.log.writing.flush import FlushJob
from ottla.runtime.ordered_set import OrderedSet


class Durability:
    """The flushed offset of one log, its running flush, and its pending truncation."""

    __slots__ = (
        "_appended_bytes",
        "_begun_bytes",
        "_ceiling",
        "_extent",
        "_flushed_bytes",
        "_is_empty_since_creation",
        "_running",
        "_status",
        "_truncation",
        "_unsynced_directories",
        "flushed_offset",
        "unflushed_since_ms",
    )

    def __init__(self, extent: Extent, status: Status, *, flushed_offset: int, now_ms: int) -> None:
        self._extent = extent
        self._status = status
        self._appended_bytes = 0
        self._begun_bytes = 0
        self._flushed_bytes = 0
        self._running: FlushJob | None = None
        # The end of the running flush, or less if the log was truncated since.
        self._ceiling = 0
        self._truncation: TruncationJob | None = None
        self._is_empty_since_creation = False
        # Directories in which files were created or renamed since the last flush began.
        self._unsynced_directories: OrderedSet[str] = OrderedSet()
        self.flushed_offset = flushed_offset
        """All records below survive a power loss; the recovery point checkpoint is written from it."""
        self.unflushed_since_ms = now_ms
        """The time of the first append since the last flush began."""

    @property
    def unflushed_bytes(self) -> int:
        return self._appended_bytes - self._flushed_bytes

    @property
    def unflushed_messages(self) -> int:
        return self._extent.end_offset - self.flushed_offset

    @property
    def is_unchanged(self) -> bool:
        """Whether everything on disk is as it was when the log was opened."""
        return (
            not self._appended_bytes
            and not self._unsynced_directories
            and self._extent.leader_epochs.is_durable
            and self.flushed_offset == self._extent.end_offset
        )

    @property
    def is_pristine(self) -> bool:
        """Whether the log never had a record: nothing in its directory is worth a flush.

        If a power loss takes the directory away, the next opening creates the same log again.
        """
        return self._is_empty_since_creation and not self._appended_bytes and not self._extent.end_offset

    def note_creation(self) -> None:
        """The log never had a record, and its directory may not be durable: the first flush makes it so."""
        self._is_empty_since_creation = True
        directory = self._extent.location.directory
        self.note_names(directory, directory.rpartition("/")[0])

    def note_append(self, size_bytes: int, now_ms: int) -> None:
        """Account for `size_bytes` that were written."""
        if self._appended_bytes == self._begun_bytes:
            self.unflushed_since_ms = now_ms
        self._appended_bytes += size_bytes

    def note_names(self, *directories: str) -> None:
        """Files were created, renamed or removed in these directories; by default in the log's own."""
        for directory in directories or (self._extent.location.directory,):
            self._unsynced_directories.add(directory)

    def begin_flush(self, *, is_last: bool = False) -> FlushJob:
        """Collect what there is to sync. RuntimeError while another flush runs: their order would be lost.

        The caller runs the job in a thread and then calls `complete_flush` or `fail_flush`. The last flush
        before a clean stop also covers the indexes and the producer snapshot.
        """
        if self._running is not None:
            raise RuntimeError(f"{self._extent.location.name} is being flushed already")
        self._extent.leader_epochs.write()
        self._running = job = FlushJob(
            self._extent,
            flushed_offset=self.flushed_offset,
            appended_bytes=self._appended_bytes,
            unsynced_directories=self._unsynced_directories,
            is_last=is_last,
        )
        # Names that appear from here on belong to the next job.
        self._unsynced_directories.clear()
        self._begun_bytes = self._appended_bytes
        self._ceiling = job.offset
        return job

    def complete_flush(self, job: FlushJob) -> None:
        """Everything that the job covered is durable: move the flushed offset."""
        if job is not self._running or not job.is_done:
            raise RuntimeError(f"{self._extent.location.name}: this flush did not run to its end")
        self._running = None
        if self._status.refusal is not None:
            return
        self.flushed_offset = max(self.flushed_offset, min(job.offset, self._ceiling))
        self._flushed_bytes = job.appended_bytes
        self._extent.leader_epochs.synced(job.epochs_version)
        self._check()

    def fail_flush(self, problem: BaseException) -> None:
        """The job failed: the content of the disk is unknown, and the log refuses writes from now on."""
        self._running = None
        self._status.refuse(f"flushing failed ({problem})")

    def flush(self) -> None:
        """Flush in this thread. After an OSError the log refuses writes."""
        job = self.begin_flush()
        try:
            job.run()
        except OSError as problem:
            self.fail_flush(problem)
            raise
        self.complete_flush(job)

    def begin_truncation(self) -> None:
        """The active segment is about to be truncated, which must be durable before the next append."""
        self._truncation = TruncationJob(self._extent.location, self._extent.segments.active.file)
        self._truncation.announce()

    def resume_truncation(self) -> None:
        """The last process truncated the active segment and may not have made that durable."""
        self._truncation = TruncationJob(self._extent.location, self._extent.segments.active.file)

    @property
    def pending_truncation(self) -> TruncationJob | None:
        """The job that makes the last truncation durable; None if it is."""
        return self._truncation

    def note_truncation(self) -> None:
        """The log's end moved down: nothing above it is durable, whatever a running flush covers."""
        end = self._extent.end_offset
        self._ceiling = min(self._ceiling, end)
        self.flushed_offset = min(self.flushed_offset, end)

    def settle_truncation(self) -> None:
        """Make the last truncation durable, if it is not. After an OSError the log refuses writes."""
        job, self._truncation = self._truncation, None
        if job is not None and not job.is_done:
            try:
                job.run()
            except OSError as problem:
                self._status.refuse(f"a truncation could not be made durable ({problem})")
                raise

    def _check(self) -> None:
        end = self._extent.end_offset
        assert self.flushed_offset <= end, f"flushed up to {self.flushed_offset}, but the log ends at {end}"
