"""Makes a cut durable, in another thread: the file may have much that was never flushed, and an fsync takes all of it along.

Until then nothing is appended: a power loss could mix what was cut off with what came instead, batch by batch, and no checksum would
tell. So the log waits for the job before its next append, wherever that comes from; who wants to be spared that wait runs it first.
The file `pending-cut` says so to the next process, should this one die: it need not be durable, because a power loss leaves what is durable.
"""

from contextlib import suppress

from ottla.log.files.file_names import PENDING_CUT
from ottla.runtime.disk import Disk, File


class CutJob:
    """Syncs one file. `run` is called in any thread; OSError when it failed, and the log then refuses writes."""

    __slots__ = ("_disk", "_file", "_mark", "is_done", "problem")

    def __init__(self, disk: Disk, directory: str, file: File) -> None:
        self._disk = disk
        self._file = file
        self._mark = f"{directory}/{PENDING_CUT}"
        self.is_done = False
        self.problem: OSError | None = None

    def announce(self) -> None:
        """The file is about to be cut."""
        self._disk.open(self._mark, create=True)

    def run(self) -> None:
        """Sync. A sync that failed is never tried again: what it covered is unknown."""
        if self.problem is not None:
            raise self.problem
        try:
            self._file.sync()
        except OSError as problem:
            self.problem = problem
            raise
        with suppress(FileNotFoundError):
            self._disk.remove(self._mark)
        self.is_done = True
