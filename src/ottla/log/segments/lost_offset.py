"""The first offset that recovery found missing, kept until somebody decides about it: the file `first-lost-offset`.

A log keeps what lies behind damage: it may be all there is. But a replica that has a leader can do better: it cuts its log
there and fetches again what it lost, and must, because a hole would be taken for a record's absence when it leads one day.
So the file is durable before the damage is taken out, and goes when the log was cut at or before the offset, or when
this log is what counts (`Log.accept_loss`).
"""

import logging
from collections.abc import Container

from ottla.log.files.file_names import FIRST_LOST_OFFSET
from ottla.runtime.disk import Disk

logger = logging.getLogger(__name__)


class Loss:
    """What is missing in one log: `first_offset`, and perhaps more behind it; None if nothing is."""

    __slots__ = ("_disk", "_path", "first_offset")

    def __init__(self, disk: Disk, directory: str, names: Container[str]) -> None:
        self._disk = disk
        self._path = f"{directory}/{FIRST_LOST_OFFSET}"
        self.first_offset = self._read() if FIRST_LOST_OFFSET in names else None

    def _read(self) -> int:
        try:
            return int(self._disk.read(self._path))
        except ValueError:
            logger.error("%s cannot be used: any record of the log may be missing", self._path)
            return 0

    def note(self, offset: int) -> None:
        """A record at `offset` was there once. Durable when this returns."""
        if self.first_offset is None or offset < self.first_offset:
            self._disk.write_atomically(self._path, f"{offset}\n".encode())
            self.first_offset = offset

    def forget(self) -> None:
        """Nothing is missing, or nobody has it. Durable with the next sync of the directory."""
        if self.first_offset is not None:
            self._disk.remove(self._path)
            self.first_offset = None
