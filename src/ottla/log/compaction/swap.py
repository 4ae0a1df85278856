"""Replaces segments by a cleaned one, so that a crash leaves the old ones or the new one.

    1  x.index.cleaned, … → x.index.swap, …, and last x.log.cleaned → x.log.swap     now the new one holds
    2  the old files → .deleted, and last the old x.log
    3  x.index.swap, … → x.index, …, and last x.log.swap → x.log

The .cleaned files are durable before. The steps are renames only, and file systems keep the order of renames
in a directory, so nothing here waits for the disk: after a power loss the directory is as it was after one of
the renames. The next opening (`opening.leftovers`) removes .cleaned files and completes the swap that an
x.log.swap began. The last batch of a cleaned segment is always kept, so x.log.swap itself tells which
segments it replaces. While x.log exists beside x.log.swap, all files of x are old ones; without x.log, they
are new ones.

All of it happens in one callback of the event loop: a reader opens files by name, and must not do so in
between.
"""

from collections.abc import Sequence

from ottla.log.compaction.cleaned_segment import CleanedSegment
from ottla.log.files.file_names import CLEANED, INDEX, LOG, SWAP, TIME_INDEX, TXN_INDEX
from ottla.log.files.location import Location
from ottla.log.reading.reader import Reader
from ottla.log.segments.extent import Extent
from ottla.log.segments.segment import Segment
from ottla.log.status import Status
from ottla.log.writing.deletion import DeletedSegments
from ottla.log.writing.durability import Durability
from ottla.log.writing.retention import Retention


class SegmentSwap:
    """Replaces segments of one log by cleaned ones."""

    __slots__ = ("_durability", "_extent", "_reader", "_retention", "_status")

    def __init__(
        self, extent: Extent, durability: Durability, retention: Retention, reader: Reader, status: Status
    ) -> None:
        self._extent = extent
        self._durability = durability
        self._retention = retention
        self._reader = reader
        self._status = status

    def swap(self, replaced: Sequence[Segment], cleaned: CleanedSegment, now_ms: int) -> None:
        """Replace adjacent sealed segments; `Retention` removes their files later. OSError if it failed.

        After an OSError in the second or third step the log refuses writes until it is opened again, which
        completes the swap.
        """
        location = self._extent.location
        self._reader.forget_places()
        for kind in cleaned.kinds:
            _rename(location, cleaned.base_offset, kind + CLEANED, kind + SWAP)
        try:
            deleted = _set_aside(location, replaced)
            for kind in cleaned.kinds:
                _rename(location, cleaned.base_offset, kind + SWAP, kind)
        except OSError as problem:
            self._status.refuse(f"a swap of segments was interrupted ({problem})")
            raise
        self._durability.note_names()
        self._install(replaced, cleaned)
        self._retention.remove_later(deleted, now_ms)

    def discard(self, cleaned: CleanedSegment) -> None:
        """Remove the files of a cleaned segment whose group has changed."""
        location = self._extent.location
        for kind in cleaned.kinds:
            location.disk.remove(location.path(cleaned.base_offset, kind + CLEANED))

    def remove_cleaned(self) -> None:
        """Remove all .cleaned files, which a failed pass left; in any thread."""
        disk, directory = self._extent.location.disk, self._extent.location.directory
        for entry in disk.list(directory):
            if entry.name.endswith(CLEANED):
                disk.remove(f"{directory}/{entry.name}")

    def _install(self, replaced: Sequence[Segment], cleaned: CleanedSegment) -> None:
        fresh = Segment(
            self._extent.location,
            cleaned.base_offset,
            size_bytes=cleaned.size_bytes,
            created_ms=replaced[0].created_ms,
            modified_ms=replaced[-1].modified_ms,
            next_offset=replaced[-1].next_offset,
        )
        self._extent.segments.replace(replaced, fresh)
        for segment in replaced:
            segment.close()


def _rename(location: Location, base_offset: int, old_kind: str, new_kind: str) -> None:
    location.disk.rename(location.path(base_offset, old_kind), location.path(base_offset, new_kind))


def _set_aside(location: Location, replaced: Sequence[Segment]) -> DeletedSegments:
    first, *others = replaced
    deleted = DeletedSegments(location)
    for segment in others:
        deleted.add(segment)
    # The producer snapshot at the first one's base offset stays: it holds the state before the new segment.
    for kind in (TXN_INDEX, INDEX, TIME_INDEX, LOG):
        deleted.add_file(first.path(kind))
    return deleted
