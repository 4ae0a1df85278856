"""Takes segments out of a log: their files are renamed, and removed file.delete.delay.ms later.

In between, a reader that has such a file open goes on reading it, and a crash leaves files that the next
opening removes. The oldest segments are renamed first, so that the log has no gap at any moment.
"""

from ottla.log.plan.retention import RetentionPlan, SegmentFacts
from ottla.log.producers.producer_state import Producers
from ottla.log.reading.reader import Reader
from ottla.log.segments.extent import Extent
from ottla.log.segments.segment import Segment
from ottla.log.writing.deletion import DeletedSegments
from ottla.log.writing.durability import Durability
from ottla.log.writing.tail import Tail
from ottla.model import NO_TIMESTAMP
from ottla.records.batch import CorruptRecord


class Retention:
    """Deletes segments of one log, and holds the files that wait for their removal."""

    __slots__ = ("_deleted", "_durability", "_extent", "_producers", "_reader", "_tail")

    def __init__(
        self, extent: Extent, tail: Tail, durability: Durability, producers: Producers, reader: Reader
    ) -> None:
        self._extent = extent
        self._producers = producers
        self._tail = tail
        self._durability = durability
        self._reader = reader
        self._deleted: list[tuple[int, DeletedSegments]] = []

    def segment_facts(self) -> list[SegmentFacts]:
        """The facts from which retention plans."""
        return [
            SegmentFacts(
                base_offset=segment.base_offset,
                next_offset=segment.next_offset,
                size_bytes=segment.size_bytes,
                max_timestamp_ms=_largest_timestamp(segment),
                modified_ms=segment.modified_ms,
            )
            for segment in self._extent.segments
        ]

    def delete_segments(self, plan: RetentionPlan, now_ms: int) -> None:
        """Take the planned segments out of the log, never the active one. Their files are renamed now."""
        segments = self._extent.segments
        deleted = DeletedSegments(self._extent.location)
        wanted = set(plan.segments)
        self._reader.forget_places()
        for segment in list(segments):
            if segment is segments.active or segment.base_offset not in wanted:
                break
            deleted.add(segment)
            segments.remove(segment)
            segment.close()
        if self._extent.advance_start(max(segments[0].base_offset, plan.log_start_offset)):
            self._producers.forget_transactions_before(self._extent.start_offset)
        self._durability.note_names()
        self.remove_later(deleted, now_ms)
        self._extent.check()

    def remove_later(self, deleted: DeletedSegments, now_ms: int) -> None:
        """Keep renamed files for file.delete.delay.ms."""
        self._deleted.append((now_ms + self._tail.config.file_delete_delay_ms, deleted))

    def take_deleted(self, now_ms: int) -> list[DeletedSegments]:
        """The deletions whose delay is over; `DeletedSegments.run` removes the files, in any thread."""
        due = [deleted for due_ms, deleted in self._deleted if due_ms <= now_ms]
        self._deleted = self._deleted[len(due) :]
        return due

    def remove_deleted(self, now_ms: int) -> None:
        """Remove the files whose delay is over, in this thread."""
        for deleted in self.take_deleted(now_ms):
            deleted.run()


def _largest_timestamp(segment: Segment) -> int:
    """NO_TIMESTAMP for a segment that cannot be read: its age then counts from its last write."""
    try:
        return segment.largest_timestamp[0]
    except (OSError, CorruptRecord):
        return NO_TIMESTAMP
