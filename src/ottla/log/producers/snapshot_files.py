"""The producer snapshots of one log, as files beside its segments.

A snapshot is written where each segment begins and when the log is closed cleanly. The next flush makes it
durable.
"""

import logging
from collections.abc import Container

from ottla.log.files.file_names import SNAPSHOT, offset_of
from ottla.log.files.location import Location
from ottla.log.producers.producer_snapshot import SnapshotError, parse_snapshot, render_snapshot
from ottla.log.producers.producer_state import Producers

logger = logging.getLogger(__name__)


class SnapshotFiles:
    """Writes and reads the snapshots of one log's producers."""

    __slots__ = ("_location", "_producers")

    def __init__(self, location: Location, producers: Producers) -> None:
        self._location = location
        self._producers = producers

    def has(self, offset: int) -> bool:
        """Whether there is a snapshot of the producer state before `offset`."""
        return self._location.disk.exists(self._location.path(offset, SNAPSHOT))

    def write(self, offset: int) -> None:
        """Write the current producer state as the state before `offset`."""
        path = self._location.path(offset, SNAPSHOT)
        self._location.disk.write_atomically(path, render_snapshot(self._producers), sync=False)

    def load(self, trusted_up_to: int, segment_bases: Container[int]) -> int | None:
        """Load the newest readable snapshot at or below `trusted_up_to`; return its offset.

        Without one, None is returned and there are no producers. Newer and unreadable snapshots are removed;
        of the older ones only those at the base offset of a segment are kept.
        """
        self._producers.restore({})
        loaded = None
        for offset in reversed(self._offsets()):
            if loaded is None and offset <= trusted_up_to and self._read(offset):
                loaded = offset
            elif loaded is None or offset not in segment_bases:
                self._remove(offset)
        return loaded

    def remove_above(self, offset: int) -> None:
        """Remove the snapshots of states after `offset`."""
        for found in self._offsets():
            if found > offset:
                self._remove(found)

    def remove_all(self) -> None:
        """Remove every snapshot."""
        for offset in self._offsets():
            self._remove(offset)

    def _offsets(self) -> list[int]:
        names = [entry.name for entry in self._location.disk.list(self._location.directory)]
        return sorted(offset for name in names if (offset := offset_of(name, SNAPSHOT)) is not None)

    def _read(self, offset: int) -> bool:
        path = self._location.path(offset, SNAPSHOT)
        try:
            self._producers.restore(dict(parse_snapshot(self._location.disk.read(path)).items()))
        except SnapshotError as problem:
            logger.error("%s cannot be used: %s", path, problem)
            return False
        return True

    def _remove(self, offset: int) -> None:
        self._location.disk.remove(self._location.path(offset, SNAPSHOT))
