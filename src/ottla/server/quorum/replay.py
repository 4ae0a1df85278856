"""Committed records become the cluster's state here: on every node, in order, once.

Two things happen to a committed record, at two speeds. It is replayed into the controller's state as soon as
it is committed, so that the next decision can be made. And the change of the image is carried out here
(`on_image`: logs are opened, followed, deleted), which may take long; what is committed meanwhile is carried
out together, with the image before and the image after. `replayed` and `delivered` are the end offsets of
each.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from ottla.controller.controller import Controller
from ottla.controller.image import ClusterImage
from ottla.controller.records import decode_record
from ottla.errors import KafkaError
from ottla.raft.messages import SnapshotId
from ottla.records.batch import iter_batches
from ottla.server.answers.watermark import Watermark
from ottla.server.quorum.metadata_log import MetadataLog
from ottla.server.quorum.snapshot_writer import SnapshotWriter

logger = logging.getLogger(__name__)

# Records replayed before other tasks have their turn; some ten milliseconds' worth.
_READ_BYTES: Final = 64 << 10

OnImage = Callable[[ClusterImage, ClusterImage], Awaitable[None]]


class MetadataReplay:
    """Feeds the controller's state from the log."""

    def __init__(
        self, log: MetadataLog, controller: Controller, writer: SnapshotWriter, on_image: OnImage
    ) -> None:
        self._log = log
        self._writer = writer
        self.controller = controller
        self._on_image = on_image
        self._high_watermark = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._is_committed = asyncio.Event()
        self._is_replayed = asyncio.Event()
        self._delivered_image: ClusterImage | None = None
        self._on_failure: Callable[[str], None] | None = None
        self.replayed = Watermark(0)
        self.delivered = Watermark(0)
        if log.latest_snapshot is not None:
            self._load(log.latest_snapshot, log.take_snapshot_records())

    def has_kept(self, epoch: int, end_offset: int) -> bool:
        """Whether all that the leader of `epoch` appended before `end_offset` is in the log.

        Also False if a snapshot has taken the place of the records.
        """
        return self._log.end_offset_for(epoch) >= (epoch, end_offset)

    @property
    def image(self) -> ClusterImage:
        """The cluster as of the last record replayed."""
        return self.controller.image

    def start(self, on_failure: Callable[[str], None]) -> None:
        """Replay what is committed from now on. `on_failure` hears of what cannot be replayed: the node is
        lost then.
        """
        self._on_failure = on_failure
        self._run(self._replay())

    def deliver(self, image: ClusterImage) -> None:
        """Have changes carried out from now on; `image` is carried out already."""
        self._delivered_image = image
        self.delivered.advance(image.last_offset + 1)
        self._run(self._deliver())

    async def stop(self) -> None:
        """Stop where it stands; a change under way is carried out to its end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._writer.stop()

    def fail(self, reason: KafkaError) -> None:
        """Nothing more is replayed: fail all waiting callers."""
        self.replayed.fail(reason)
        self.delivered.fail(reason)

    async def in_force(self, offset: int) -> None:
        """Return when everything below an offset is carried out here, or need not be."""
        await (self.replayed if self._delivered_image is None else self.delivered).reached(offset)

    def committed(self, high_watermark: int) -> None:
        """Every record below may be replayed."""
        self._high_watermark = max(self._high_watermark, high_watermark)
        self._is_committed.set()

    def load(self, snapshot_id: SnapshotId) -> None:
        """Take a snapshot's state in place of one's own."""
        self._load(snapshot_id, self._log.snapshots.records(snapshot_id))

    def _load(self, snapshot_id: SnapshotId, records: list[Any]) -> None:
        self.controller.load_snapshot(records, snapshot_id.end_offset - 1, snapshot_id.epoch)
        self._writer.begin_anew()
        self._replayed_up_to(snapshot_id.end_offset)

    async def _replay(self) -> None:
        while True:
            await self._is_committed.wait()
            self._is_committed.clear()
            while self.replayed.value < self._high_watermark:
                self._replay_some(self.replayed.value)
                await asyncio.sleep(0)

    def _replay_some(self, offset: int) -> None:
        data = self._log.read(offset, _READ_BYTES, self._high_watermark)
        next_offset = offset
        for batch in iter_batches(memoryview(data)):
            epoch = batch.partition_leader_epoch
            for record in batch.records():
                if record.offset >= offset:
                    # A control record changes nothing but the offset.
                    content = None if batch.is_control else decode_record(record.value or b"")
                    self.controller.replay(content, record.offset, epoch)
            next_offset = batch.next_offset
        if next_offset == offset:
            raise RuntimeError(f"the metadata log has no record at {offset}, which is committed")
        self._replayed_up_to(next_offset)
        self._writer.grew(len(data))
        if self._writer.is_due:
            self._writer.write(self.image)

    def _replayed_up_to(self, offset: int) -> None:
        self.replayed.advance(offset)
        self._is_replayed.set()

    async def _deliver(self) -> None:
        while True:
            await self._is_replayed.wait()
            self._is_replayed.clear()
            before, after = self._delivered_image, self.image
            assert before is not None
            if after is not before:
                work = asyncio.get_running_loop().create_task(self._carry_out(before, after))
                try:
                    await asyncio.shield(work)
                except asyncio.CancelledError:
                    await asyncio.gather(work, return_exceptions=True)
                    raise
            self.delivered.advance(after.last_offset + 1)

    async def _carry_out(self, before: ClusterImage, after: ClusterImage) -> None:
        try:
            await self._on_image(before, after)
        except Exception:
            # It is decided, and the others act on it: what failed here must not keep the next change back.
            logger.exception("a change of metadata, up to offset %d, was not carried out", after.last_offset)
        self._delivered_image = after

    def _run(self, work: Awaitable[None]) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        task.add_done_callback(self._done)
        self._tasks.append(task)

    def _done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.critical("the metadata cannot be replayed", exc_info=error)
            assert self._on_failure is not None
            self._on_failure(f"The metadata cannot be replayed from offset {self.replayed.value} on: {error}")
