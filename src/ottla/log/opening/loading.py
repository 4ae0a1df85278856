"""From a directory to the parts of a log.

After a clean stop nothing is scanned: sizes come from the directory listing, a segment's end from the next
one's name, and only the last segment is read, from its last index entry on. After a crash the segments above
the recovery point are recovered (`recovery`), and indexes, producers and leader epochs are made to agree with
them.

Offsets below the recovery point or the log start offset belong to records that were appended once. If the log
ends before them, because its files were damaged or lost, it continues after them: a gap is acceptable, a
second record at the same offset is not.
"""

import logging
from dataclasses import dataclass, replace
from itertools import pairwise

from ottla.config import TopicConfig
from ottla.log.files.checkpoint import CheckpointError
from ottla.log.files.file_names import LEADER_EPOCHS, LOG, PENDING_CUT, TXN_INDEX, file_name, offset_of
from ottla.log.files.location import Location
from ottla.log.opening.leftovers import clear_leftovers
from ottla.log.opening.recovery import recover_segment
from ottla.log.producers.producer_replay import load_producers, replay_epochs
from ottla.log.producers.producer_state import Producers
from ottla.log.producers.snapshot_files import SnapshotFiles
from ottla.log.segments.extent import Extent
from ottla.log.segments.leader_epochs import LeaderEpochs
from ottla.log.segments.lost_offset import Loss
from ottla.log.segments.segment import Segment
from ottla.log.segments.segment_list import Segments
from ottla.log.status import Status
from ottla.log.writing.durability import Durability
from ottla.log.writing.tail import Tail
from ottla.records.batch import CorruptRecord
from ottla.runtime.disk import Entry

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Opening:
    """The facts about a log that are known before it is opened."""

    location: Location
    config: TopicConfig
    recovery_point: int
    log_start_offset: int
    is_clean: bool
    now_ms: int
    trusted_up_to: int  # after a crash, segments that end below are not scanned
    replicated_up_to: int | None  # the high watermark, if it is known


@dataclass(frozen=True, slots=True)
class LogParts:
    """The parts of an opened log."""

    extent: Extent
    tail: Tail
    durability: Durability
    producers: Producers
    snapshots: SnapshotFiles
    status: Status


def load(opening: Opening) -> LogParts:
    """Open the log in a directory, which is created if it does not exist."""
    try:
        return _load(opening)
    except CorruptRecord as problem:
        logger.error(
            "%s is damaged where it was trusted: %s. All of it is scanned",
            opening.location.directory, problem,
        )  # fmt: skip
        return _load(replace(opening, is_clean=False, trusted_up_to=0))


def _load(opening: Opening) -> LogParts:
    disk, directory = opening.location.disk, opening.location.directory
    is_new = not disk.exists(directory)
    disk.mkdir(directory)
    listing = {} if is_new else clear_leftovers(disk, directory)
    loss = Loss(opening.location, listing)
    segments = _segments(opening, listing, loss)
    # Nothing below the first scanned offset was read; None: nothing at all was scanned.
    scanned_from: int | None = None
    if not segments:
        start = max(opening.log_start_offset, opening.recovery_point)
        if start > opening.log_start_offset:
            loss.note(opening.log_start_offset)
        segments.append(Segment.create(opening.location, start, now_ms=opening.now_ms))
    elif not (opening.is_clean and _load_active(segments[-1])):
        scanned_from = _recover(opening, segments, loss)
    for segment in segments:
        if file_name(segment.base_offset, TXN_INDEX) in listing:
            segment.txn_index.check(segment.next_offset)
    extent = Extent(
        opening.location, Segments(segments), _epochs(opening), loss, start_offset=opening.log_start_offset
    )
    parts = _parts(opening, extent, scanned_from)
    if PENDING_CUT in listing:
        parts.durability.resume_truncation()
    was_trusted = opening.is_clean and PENDING_CUT not in listing
    if not extent.end_offset and (not listing or was_trusted):
        parts.durability.note_creation()
    elif not listing or not opening.is_clean:
        # After a crash a file may exist whose name is not durable: the next flush must sync the directories.
        parts.durability.note_names(directory, directory.rpartition("/")[0])
    _complete(parts, opening, scanned_from)
    return parts


def _parts(opening: Opening, extent: Extent, scanned_from: int | None) -> LogParts:
    end = extent.end_offset
    producers = Producers()
    snapshots = SnapshotFiles(opening.location, producers)
    status = Status(opening.location.name)
    flushed_offset = end if scanned_from is None else min(opening.recovery_point, end)
    durability = Durability(extent, status, flushed_offset=flushed_offset, now_ms=opening.now_ms)
    tail = Tail(extent, durability, snapshots, opening.config)
    return LogParts(extent, tail, durability, producers, snapshots, status)


def _segments(opening: Opening, listing: dict[str, Entry], loss: Loss) -> list[Segment]:
    """The segments by their names and sizes alone."""
    bases = sorted(base for name in listing if (base := offset_of(name, LOG)) is not None)
    segments = []
    for number, base in enumerate(bases):
        entry = listing[file_name(base, LOG)]
        segment = Segment(
            opening.location,
            base,
            size_bytes=entry.size,
            created_ms=opening.now_ms,
            modified_ms=entry.modified_ms,
        )
        if not entry.size and base != bases[-1]:
            # Nothing was written after a roll, or a crash lost all of it; only the last segment may be empty.
            _note_gap(opening, loss, base, bases[number + 1])
            segment.remove_files()
            continue
        segments.append(segment)
    for segment, following in pairwise(segments):
        segment.end_at(following.base_offset)
    return segments


def _load_active(active: Segment) -> bool:
    """Find the active segment's end from its last index entry on; False if there is damage."""
    try:
        active.find_end()
    except CorruptRecord as problem:
        logger.error("%s is damaged although it was closed cleanly: %s", active, problem)
        return False
    return True


def _recover(opening: Opening, segments: list[Segment], loss: Loss) -> int:
    """Scan the last segment and all that end above the recovery point; return the first scanned offset."""
    suspects = [segment for segment in segments[:-1] if segment.next_offset > opening.trusted_up_to]
    for segment in suspects:
        upper_offset = segment.next_offset
        _recover_one(opening, segment, upper_offset, loss)
        _note_gap(opening, loss, segment.next_offset, upper_offset)
        segment.end_at(upper_offset)
    _recover_one(opening, segments[-1], None, loss)
    for emptied in [segment for segment in suspects if not segment.size_bytes]:
        emptied.remove_files()
        segments.remove(emptied)
    return min(segment.base_offset for segment in [*suspects, segments[-1]])


def _note_gap(opening: Opening, loss: Loss, first_offset: int, next_offset: int) -> None:
    """There is no batch between these offsets, which belonged to records."""
    # Records that compaction removed below the recovery point are not lost.
    compacted_up_to = opening.recovery_point if opening.config.is_compacted else 0
    if (lost := max(first_offset, compacted_up_to)) < next_offset and not opening.is_clean:
        loss.note(lost)


def _recover_one(opening: Opening, segment: Segment, upper_offset: int | None, loss: Loss) -> None:
    recover_segment(
        opening.location,
        segment,
        upper_offset=upper_offset,
        recovery_point=opening.recovery_point,
        may_have_holes=opening.config.is_compacted,
        loss=loss,
    )
    segment.rebuild_indexes(opening.config.index_interval_bytes, opening.config.segment_index_bytes)
    segment.txn_index.clear()  # `load_producers` fills it again


def _epochs(opening: Opening) -> LeaderEpochs:
    disk, path = opening.location.disk, f"{opening.location.directory}/{LEADER_EPOCHS}"
    if disk.exists(path):
        try:
            return LeaderEpochs.load(disk, path)
        except CheckpointError as problem:
            logger.error("%s cannot be used and is rebuilt: %s", path, problem)
    return LeaderEpochs(disk, path)


def _complete(parts: LogParts, opening: Opening, scanned_from: int | None) -> None:
    """Make leader epochs and producers agree with the segments."""
    extent, end = parts.extent, parts.extent.end_offset
    _prepare_epochs(extent, scanned_from)
    trusted_up_to = end if scanned_from is None else scanned_from
    load_producers(
        extent,
        parts.producers,
        parts.snapshots,
        trusted_up_to,
        replicated_up_to=opening.replicated_up_to,
        reindex_from=scanned_from,
    )
    extent.leader_epochs.truncate_from_end(end)
    extent.leader_epochs.truncate_from_start(extent.start_offset)
    lowest_end = max(opening.recovery_point, opening.log_start_offset)
    if end < lowest_end:
        logger.error(
            "%s ends at offset %d, but offsets up to %d were given out: the records between are lost",
            opening.location.name, end, lowest_end - 1,
        )  # fmt: skip
        extent.note_loss(end)
        parts.tail.roll(lowest_end, opening.now_ms)
    extent.check()


def _prepare_epochs(extent: Extent, scanned_from: int | None) -> None:
    """Keep the checkpointed epochs of batches that were not scanned; replay assigns those of the others."""
    epochs = extent.leader_epochs
    if not epochs.entries and extent.end_offset > extent.segments[0].base_offset:
        replay_epochs(extent)
    elif scanned_from is not None:
        epochs.truncate_from_end(scanned_from)
