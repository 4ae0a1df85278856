"""Truncates the end of a log: a follower does so when its leader has other records there.

Whole segments are removed first, the newest first, so that a crash in between leaves a shorter log without a
gap. The recovery point on disk must not be above the truncation: the caller writes that checkpoint before,
because recovery takes offsets below the recovery point for acknowledged and does not use them again.
Truncations lie between batches, because leader epochs begin and end there; a truncation inside a batch
removes the whole batch, and the log then ends before the requested offset.
"""

from ottla.log.producers.producer_replay import load_producers
from ottla.log.producers.producer_rewind import headers_from, rewind_producers
from ottla.log.producers.producer_state import Producers
from ottla.log.producers.snapshot_files import SnapshotFiles
from ottla.log.segments.extent import Extent
from ottla.log.segments.segment import Segment
from ottla.log.writing.durability import Durability
from ottla.log.writing.tail import Tail


class Truncation:
    """Truncates one log."""

    __slots__ = ("_durability", "_extent", "_producers", "_snapshots", "_tail")

    def __init__(
        self,
        extent: Extent,
        tail: Tail,
        durability: Durability,
        producers: Producers,
        snapshots: SnapshotFiles,
    ) -> None:
        self._extent = extent
        self._tail = tail
        self._durability = durability
        self._producers = producers
        self._snapshots = snapshots

    def truncate_to(self, offset: int) -> None:
        """Keep only the batches that end before `offset`.

        `Durability` holds the job that makes it durable, if any.
        """
        extent, segments = self._extent, self._extent.segments
        self._durability.settle_truncation()
        if offset >= extent.end_offset:
            if extent.forget_loss_above_end():
                self._durability.note_names()
        elif offset <= segments[0].base_offset:
            self._restart(offset)
        else:
            truncated = headers_from(segments, offset)
            self._truncate_segments(offset)
            self._settle()
            if truncated is not None and rewind_producers(segments, self._producers, truncated):
                self._snapshots.remove_above(extent.end_offset)
            else:
                self._load_producers()
        self._durability.note_truncation()
        extent.check()

    def restart_at(self, new_start: int) -> None:
        """Remove all segments and begin an empty one."""
        self._restart(new_start)
        self._durability.note_truncation()
        self._extent.check()

    def _restart(self, new_start: int) -> None:
        extent, location = self._extent, self._extent.location
        while len(extent.segments) > 1:
            self._remove(extent.segments.active)
        last = extent.segments.active
        last.remove_files()
        self._snapshots.remove_all()
        extent.restart(Segment.create(location, new_start, now_ms=last.created_ms))
        location.disk.sync_directory(location.directory)
        self._settle()
        self._load_producers()

    def _truncate_segments(self, offset: int) -> None:
        segments = self._extent.segments
        if segments.active.base_offset >= offset:
            self._remove_segments(offset)
        placed = segments.active.find(offset)
        if placed is None:
            # The segment ends in a gap, and `offset` lies in it.
            segments.active.end_at(offset)
        else:
            # Only the .log must be durable: indexes are rebuilt after a crash.
            self._durability.begin_truncation()
            segments.active.truncate(placed.position, min(offset, placed.header.base_offset))

    def _remove_segments(self, offset: int) -> None:
        """Durable before the truncation: a crash must not bring back a later segment after a shorter one."""
        location = self._extent.location
        while self._extent.segments.active.base_offset >= offset:
            self._remove(self._extent.segments.active)
        location.disk.sync_directory(location.directory)

    def _remove(self, segment: Segment) -> None:
        self._extent.segments.remove(segment)
        segment.remove_files()

    def _settle(self) -> None:
        """Make everything but the producers agree with the shorter log."""
        self._tail.note_truncation()
        self._extent.agree_with_end()
        self._durability.note_names()

    def _load_producers(self) -> None:
        load_producers(
            self._extent,
            self._producers,
            self._snapshots,
            self._extent.end_offset,
            replicated_up_to=self._producers.transactions.first_unreplicated_marker,
        )
