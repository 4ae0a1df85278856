"""The first offset that recovery found missing, kept until the leader is known: the file `first-lost-offset`.

A log keeps the batches after damage: no other replica may have them. A follower can do better: it truncates
its log at the first lost offset and fetches the records again. It must, because once it leads, the gap would
be taken for the absence of those records. So the file is durable before the damage is removed. The file is
deleted when the log is truncated at or before the offset, or when this replica leads and no other has the
records (`Log.accept_loss`).
"""

import logging
from collections.abc import Container

from ottla.log.files.file_names import FIRST_LOST_OFFSET
from ottla.log.files.location import Location

logger = logging.getLogger(__name__)


class Loss:
    """The records that one log lost: `first_offset` is the first of them; None if there are none."""

    __slots__ = ("_disk", "_path", "first_offset", "has_damaged_tail")

    def __init__(self, location: Location, names: Container[str]) -> None:
        self._disk = location.disk
        self._path = f"{location.directory}/{FIRST_LOST_OFFSET}"
        # Whether the opening of the log truncated a last batch that had been written whole.
        self.has_damaged_tail = False
        self.first_offset = self._read() if FIRST_LOST_OFFSET in names else None

    def _read(self) -> int:
        try:
            return int(self._disk.read(self._path))
        except ValueError:
            logger.error("%s cannot be used: any record of the log may be missing", self._path)
            return 0

    def note(self, offset: int) -> None:
        """A record at `offset` was in the log once. Durable when this returns."""
        if self.first_offset is None or offset < self.first_offset:
            self._disk.write_atomically(self._path, f"{offset}\n".encode())
            self.first_offset = offset

    def note_damaged_tail(self) -> None:
        """The last batch had been written whole, and is damaged."""
        self.has_damaged_tail = True

    def forget(self) -> None:
        """No record is missing, or no replica has the missing ones.

        Durable with the next sync of the directory.
        """
        if self.first_offset is not None:
            self._disk.remove(self._path)
            self.first_offset = None
