"""The `quorum-state` file: what a voter promised, beside the metadata log. See `ottla.raft.quorum_state`."""

from __future__ import annotations

import logging

from ottla.raft.quorum_state import FILE_NAME, QuorumState, QuorumStateError, parse, render
from ottla.runtime.disk import Disk

logger = logging.getLogger(__name__)


class QuorumStateFile:
    """One file. `write` may run in any thread, one at a time."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{FILE_NAME}"

    def read(self) -> QuorumState | None:
        """The vote on disk; None if it is not known."""
        if not self._disk.exists(self._path):
            return None
        try:
            return parse(self._disk.read(self._path))
        except QuorumStateError as problem:
            logger.error("%s: %s. This voter has forgotten what it promised", self._path, problem)
            return None

    def forget(self) -> None:
        """The voter knows nothing any more, durably."""
        if self._disk.exists(self._path):
            self._disk.remove(self._path)
            self._disk.sync_directory(self._path.rpartition("/")[0])

    def write(self, state: QuorumState) -> None:
        """Make it durable. OSError if that fails."""
        self._disk.write_atomically(self._path, render(state))
