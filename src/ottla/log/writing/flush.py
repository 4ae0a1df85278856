"""Makes what was written durable, in another thread, so that one fsync serves everybody who waits (STO-10).

`begin_flush` notes, on the loop, what there is to sync; `FlushJob.run` syncs it, anywhere; `complete_flush` moves the
flushed offset, on the loop again. A sync that failed is never tried again: the kernel may have dropped the pages and
would then report success. So a failed job makes the log refuse writes.
"""

from ottla.log.files.file_names import INDEX, LEADER_EPOCHS, LOG, SNAPSHOT, TIME_INDEX
from ottla.log.state import LogState
from ottla.log.writing.rolling import snapshot_path
from ottla.runtime.disk import Disk, File
from ottla.runtime.ordered_set import OrderedSet


class FlushJob:
    """Syncs a fixed set of files, oldest first. `run` is called once, in any thread; OSError when it failed."""

    __slots__ = (
        "_active",
        "_directories",
        "_disk",
        "_paths",
        "appended_bytes",
        "epochs_version",
        "is_done",
        "offset",
    )

    def __init__(self, state: LogState, *, is_last: bool) -> None:
        segments = state.segments
        self._disk: Disk = state.disk
        self._active: File = segments.active.file
        self._paths = [
            segment.path(kind)
            # The segment of the last flushed record may have been sealed since: its indexes are new.
            for segment in segments.from_offset(state.flushed_offset - 1)
            if segment is not segments.active
            for kind in (LOG, INDEX, TIME_INDEX, SNAPSHOT)
        ]
        self.offset = state.log_end_offset
        self.appended_bytes = state.appended_bytes
        self._directories = OrderedSet(state.unsynced_directories)
        self.epochs_version = state.leader_epochs.version
        if state.directory in self._directories:
            self._paths.append(segments.active.path(SNAPSHOT))
        if is_last:
            # After a clean stop nothing is looked at again: the indexes and the producers must be as they are.
            self._paths += [segments.active.path(kind) for kind in (INDEX, TIME_INDEX)]
            self._paths.append(snapshot_path(state, self.offset))
            self._directories.add(state.directory)
        if not state.leader_epochs.is_durable:
            self._paths.append(f"{state.directory}/{LEADER_EPOCHS}")
            self._directories.add(state.directory)
        self.is_done = False

    def run(self) -> None:
        """Sync. Only after this returned is anything known to be durable."""
        for path in self._paths:
            self._sync(path)
        self._active.sync()
        for directory in self._directories:
            self._disk.sync_directory(directory)
        self.is_done = True

    def _sync(self, path: str) -> None:
        try:
            file = self._disk.open(path)
        except FileNotFoundError:
            # Retention took the segment meanwhile: nobody needs it to be durable any more.
            return
        file.sync()


class Flushes:
    """The flushes of one log, one at a time."""

    __slots__ = ("_ceiling", "_running", "_state")

    def __init__(self, state: LogState) -> None:
        self._state = state
        self._running: FlushJob | None = None
        self._ceiling = 0

    def begin(self, *, is_last: bool = False) -> FlushJob:
        """What there is to sync now. RuntimeError while another flush is under way: their order would be lost."""
        if self._running is not None:
            raise RuntimeError(f"{self._state.name} is being flushed already")
        state = self._state
        state.leader_epochs.write()
        self._running = job = FlushJob(state, is_last=is_last)
        # Names that appear from here on are the next job's business.
        state.unsynced_directories.clear()
        state.begun_bytes = state.appended_bytes
        self._ceiling = job.offset
        return job

    def complete(self, job: FlushJob) -> None:
        """The job ran: what it covered is durable."""
        if job is not self._running or not job.is_done:
            raise RuntimeError(f"{self._state.name}: this flush did not run to its end")
        self._running = None
        state = self._state
        if state.refusal is not None:
            return
        state.flushed_offset = max(state.flushed_offset, min(job.offset, self._ceiling))
        state.flushed_bytes = job.appended_bytes
        state.leader_epochs.synced(job.epochs_version)

    def fail(self, problem: BaseException) -> None:
        """The job failed: what it covered is unknown."""
        self._running = None
        self._state.refuse(f"flushing failed ({problem})")

    def cut(self, offset: int) -> None:
        """The log was cut: what a running flush covers above the cut is no longer there."""
        self._ceiling = min(self._ceiling, offset)
        state = self._state
        state.flushed_offset = min(state.flushed_offset, offset)
