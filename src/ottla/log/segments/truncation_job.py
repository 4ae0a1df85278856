"""Makes a truncation durable, in another thread: the fsync may have many unflushed bytes to write.

Until the truncation is durable nothing is appended: a power loss could mix truncated batches with the batches
that replaced them, and no checksum would tell. So the log waits for the job before its next append; a caller
that wants to avoid this wait runs the job first. The file `pending-cut` tells the next process about the
truncation if this one dies. That file need not be durable, because after a power loss the file has its
durable content.
"""

from contextlib import suppress

from ottla.log.files.file_names import PENDING_CUT
from ottla.log.files.location import Location
from ottla.runtime.disk import Disk, File


class TruncationJob:
    """Syncs one truncated file.

    `run` may be called in any thread; after an OSError the log refuses writes.
    """

    __slots__ = ("_disk", "_file", "_mark", "is_done", "problem")

    def __init__(self, location: Location, file: File) -> None:
        self._disk: Disk = location.disk
        self._file = file
        self._mark = f"{location.directory}/{PENDING_CUT}"
        self.is_done = False
        self.problem: OSError | None = None

    def announce(self) -> None:
        """Create the mark; call this before the file is truncated."""
        self._disk.open(self._mark, create=True)

    def run(self) -> None:
        """Sync. A sync that failed is not retried: the content of the disk is unknown."""
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
