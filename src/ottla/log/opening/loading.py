"""From a directory to the state of a log.

After a clean stop nothing is scanned: sizes come from the directory listing, a segment's end from the next one's name,
and only the last segment is looked into, from its last index entry on. After a crash the segments above the recovery
point are recovered (recovery.py) and what stands beside them is made to agree: indexes, producers, leader epochs.

Offsets below the recovery point or the log start offset were given out once. Should the log end before them, because
its files were damaged or lost, it goes on behind them: a hole is honest, a second record at the same offset is not.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

from ottla.config import TopicConfig
from ottla.log.files.checkpoint import CheckpointError
from ottla.log.files.file_names import LEADER_EPOCHS, LOG, PENDING_CUT, file_name, offset_of
from ottla.log.files.open_files import OpenFiles
from ottla.log.opening.leftovers import clear_leftovers
from ottla.log.opening.recovery import recover_segment
from ottla.log.segments.leader_epochs import LeaderEpochs
from ottla.log.segments.lost_offset import Loss
from ottla.log.segments.segment import Segment
from ottla.log.segments.segment_list import Segments
from ottla.log.segments.truncation_job import CutJob
from ottla.log.state import LogState, logger
from ottla.log.writing.producer_replay import load_producers, replay_epochs
from ottla.log.writing.rolling import roll
from ottla.records.batch import CorruptRecord
from ottla.runtime.disk import Disk, Entry


@dataclass(frozen=True, slots=True)
class Opening:
    """What is known about a log before it is opened."""

    directory: str
    config: TopicConfig
    recovery_point: int
    log_start_offset: int
    is_clean: bool
    now_ms: int
    trusted_up_to: int  # after a crash, what ends below is not scanned


def load(disk: Disk, open_files: OpenFiles, opening: Opening) -> LogState:
    """Open the log in a directory, which is made if it is not there."""
    try:
        return _load(disk, open_files, opening)
    except CorruptRecord as problem:
        logger.error(
            "%s is damaged where it was trusted: %s. All of it is scanned", opening.directory, problem
        )
        return _load(disk, open_files, replace(opening, is_clean=False, trusted_up_to=0))


def _load(disk: Disk, open_files: OpenFiles, opening: Opening) -> LogState:
    directory = opening.directory
    is_new = not disk.exists(directory)
    disk.mkdir(directory)
    listing = clear_leftovers(disk, directory)
    loss = Loss(disk, directory, listing)
    segments = _segments(disk, open_files, opening, listing, loss)
    # Nothing below the first scanned offset was looked at; None: nothing at all was.
    scanned_from: int | None = None
    if not segments:
        start = max(opening.log_start_offset, opening.recovery_point)
        if start > opening.log_start_offset:
            loss.note(opening.log_start_offset)
        segments.append(Segment.create(disk, directory, start, open_files, now_ms=opening.now_ms))
        is_new = True
    elif not (opening.is_clean and _load_active(segments[-1])):
        scanned_from = _recover(disk, opening, segments, loss)
    epochs = _epochs(disk, opening)
    state = LogState(disk, directory, opening.config, open_files, Segments(segments), epochs, loss)
    if PENDING_CUT in listing:
        state.cut_job = CutJob(disk, directory, state.segments.active.file)
    if is_new or not opening.is_clean:
        # After a crash a name may be there that was never made durable, and the next flush must vouch for it.
        state.unsynced_directories.update(dict.fromkeys((directory, directory.rpartition("/")[0])))
    _complete(state, opening, scanned_from)
    return state


def _segments(
    disk: Disk, open_files: OpenFiles, opening: Opening, listing: dict[str, Entry], loss: Loss
) -> list[Segment]:
    """The segments by their names and sizes alone."""
    bases = sorted(base for name in listing if (base := offset_of(name, LOG)) is not None)
    segments = []
    for number, base in enumerate(bases):
        entry = listing[file_name(base, LOG)]
        segment = Segment(
            disk, opening.directory, base, open_files, size_bytes=entry.size, now_ms=opening.now_ms
        )
        if not entry.size and base != bases[-1]:
            # A roll that nothing was written to, or a crash took all of it; only the last segment may be empty.
            _note_gap(opening, loss, base, bases[number + 1])
            segment.remove_files()
            continue
        segment.modified_ms = entry.modified_ms
        segments.append(segment)
    for segment, following in pairwise(segments):
        segment.next_offset = following.base_offset
    return segments


def _load_active(active: Segment) -> bool:
    """Find the active segment's end from its last index entry on; False if that makes no sense."""
    try:
        position = active.index.last()[1]
        for placed in active.walk(position):
            active.next_offset = placed.next_offset
    except CorruptRecord as problem:
        logger.error("%s is damaged although it was closed properly: %s", active, problem)
        return False
    active.since_index_bytes = active.size_bytes - position
    # Once more, now that the end is known.
    active.check_indexes()
    return True


def _recover(disk: Disk, opening: Opening, segments: list[Segment], loss: Loss) -> int:
    """Scan the last segment and all that end above the recovery point; the offset from which on that was."""
    suspects = [segment for segment in segments[:-1] if segment.next_offset > opening.trusted_up_to]
    for segment in suspects:
        upper_offset = segment.next_offset
        _recover_one(disk, opening, segment, upper_offset, loss)
        _note_gap(opening, loss, segment.next_offset, upper_offset)
        segment.next_offset = upper_offset
    _recover_one(disk, opening, segments[-1], None, loss)
    for emptied in [segment for segment in suspects if not segment.size_bytes]:
        emptied.remove_files()
        segments.remove(emptied)
    return min(segment.base_offset for segment in [*suspects, segments[-1]])


def _note_gap(opening: Opening, loss: Loss, first_offset: int, next_offset: int) -> None:
    """There is nothing between these offsets, which were given out."""
    # What compaction took below the recovery point is not lost.
    compacted_up_to = opening.recovery_point if opening.config.is_compacted else 0
    if (lost := max(first_offset, compacted_up_to)) < next_offset and not opening.is_clean:
        loss.note(lost)


def _recover_one(
    disk: Disk, opening: Opening, segment: Segment, upper_offset: int | None, loss: Loss
) -> None:
    recover_segment(
        disk,
        opening.directory,
        segment,
        upper_offset=upper_offset,
        recovery_point=opening.recovery_point,
        may_have_holes=opening.config.is_compacted,
        loss=loss,
    )
    segment.rebuild_indexes(opening.config.index_interval_bytes, opening.config.segment_index_bytes)


def _epochs(disk: Disk, opening: Opening) -> LeaderEpochs:
    path = f"{opening.directory}/{LEADER_EPOCHS}"
    if disk.exists(path):
        try:
            return LeaderEpochs.load(disk, path)
        except CheckpointError as problem:
            logger.error("%s cannot be used and is made anew: %s", path, problem)
    return LeaderEpochs(disk, path)


def _complete(state: LogState, opening: Opening, scanned_from: int | None) -> None:
    """Make what stands beside the segments agree with them."""
    end = state.log_end_offset
    state.log_start_offset = max(opening.log_start_offset, state.segments[0].base_offset)
    state.flushed_offset = end if scanned_from is None else min(opening.recovery_point, end)
    state.unflushed_since_ms = opening.now_ms
    _prepare_epochs(state, scanned_from)
    load_producers(state, end if scanned_from is None else scanned_from)
    state.leader_epochs.truncate_from_end(end)
    state.leader_epochs.truncate_from_start(state.log_start_offset)
    lowest_end = max(opening.recovery_point, opening.log_start_offset)
    if end < lowest_end:
        logger.error(
            "%s ends at offset %d, but offsets up to %d were given out: the records between are lost",
            state.name, end, lowest_end - 1,
        )  # fmt: skip
        state.loss.note(end)
        roll(state, lowest_end, opening.now_ms)


def _prepare_epochs(state: LogState, scanned_from: int | None) -> None:
    """Keep what the file says of batches that were not scanned; those that were tell it themselves."""
    epochs = state.leader_epochs
    if not epochs.entries and state.log_end_offset > state.segments[0].base_offset:
        replay_epochs(state)
    elif scanned_from is not None:
        epochs.truncate_from_end(scanned_from)
