"""Keeps the metadata log short: writes a snapshot whenever the log has grown enough, and lets the log forget
what it holds.

Every node does this for itself, of what is committed. The log goes back to the end of the snapshot before the
latest, so that only a node that is far behind has to fetch one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ottla.controller.image import ClusterImage
from ottla.controller.snapshot import snapshot_records
from ottla.raft.messages import SnapshotId
from ottla.raft.voters import VoterSet
from ottla.server.quorum.metadata_log import MetadataLog
from ottla.server.quorum.snapshots import snapshot_content

logger = logging.getLogger(__name__)


class SnapshotWriter:
    """One snapshot at a time, in a thread."""

    def __init__(self, log: MetadataLog, max_bytes: int, now_ms: Callable[[], int]) -> None:
        self._log = log
        self._max_bytes = max_bytes
        self._now_ms = now_ms
        self._grown_bytes = 0
        self._writing: asyncio.Task[None] | None = None

    def grew(self, size_bytes: int) -> None:
        """Account for replayed bytes."""
        self._grown_bytes += size_bytes

    def begin_anew(self) -> None:
        """The state came out of a snapshot."""
        self._grown_bytes = 0

    @property
    def is_due(self) -> bool:
        return self._grown_bytes >= self._max_bytes and self._writing is None

    def write(self, image: ClusterImage) -> None:
        """Write a snapshot of an image; requests go on meanwhile."""
        self._grown_bytes = 0
        self._writing = asyncio.get_running_loop().create_task(self._write(image))

    async def stop(self) -> None:
        """Let the snapshot under way be finished: a thread cannot be stopped."""
        if self._writing is not None:
            await self._writing

    async def _write(self, image: ClusterImage) -> None:
        snapshot_id = SnapshotId(image.last_offset + 1, image.last_epoch)
        voters = self._log.voters_at(snapshot_id.end_offset)
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._keep, snapshot_id, image, voters)
            self._forget(snapshot_id)
        except OSError as problem:
            logger.error("no snapshot of the metadata was written, the next one is tried later: %s", problem)
        except Exception:
            logger.exception("no snapshot of the metadata was written")
        finally:
            self._writing = None

    def _keep(self, snapshot_id: SnapshotId, image: ClusterImage, voters: VoterSet | None) -> None:
        content = snapshot_content(snapshot_records(image), snapshot_id.epoch, self._now_ms(), voters)
        self._log.snapshots.write(snapshot_id, content)

    def _forget(self, snapshot_id: SnapshotId) -> None:
        latest = self._log.latest_snapshot
        if latest is not None and latest >= snapshot_id:
            return  # another came from the leader meanwhile
        oldest = self._log.snapshots.add(snapshot_id)
        logger.info("the metadata up to offset %d is in a snapshot", snapshot_id.end_offset)
        if oldest is not None:
            self._log.forget_before(oldest)
