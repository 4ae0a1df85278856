"""A snapshot that comes from the leader in pieces, and is kept when it is whole."""

from __future__ import annotations

import asyncio
import logging

from ottla.raft.messages import SnapshotId
from ottla.server.quorum.snapshots import Snapshots

logger = logging.getLogger(__name__)


class FetchedSnapshot:
    """The pieces so far."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots
        self._pieces = bytearray()

    def add(self, position: int, data: bytes | memoryview) -> None:
        """Take the next piece; at position 0 a new attempt begins."""
        if position == 0:
            self._pieces = bytearray()
        self._pieces += data

    def take(self) -> bytes:
        """The whole of it; it is not kept here any more."""
        content, self._pieces = bytes(self._pieces), bytearray()
        return content

    async def keep(self, snapshot_id: SnapshotId, content: bytes) -> bool:
        """Check a snapshot and make it durable. Whether that succeeded."""
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(None, self._snapshots.check, content)
            await loop.run_in_executor(None, self._snapshots.write, snapshot_id, content)
        except (OSError, ValueError) as problem:
            logger.error("the snapshot %s cannot be kept: %s", snapshot_id, problem)
            return False
        return True
