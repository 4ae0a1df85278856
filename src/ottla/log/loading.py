"""From a directory to the state of a log.

After a clean stop nothing is scanned: sizes come from the directory listing, a segment's end from the next one's name,
and only the last segment is looked into, from its last index entry on. After a crash the segments above the recovery
point are recovered (recovery.py) and what stands beside them is made to agree: indexes, producers, leader epochs.
"""

from dataclasses import dataclass
from itertools import pairwise

from ottla.config import TopicConfig
from ottla.log.checkpoint import CheckpointError
from ottla.log.disk import Disk, Entry
from ottla.log.leader_epochs import LeaderEpochs
from ottla.log.leftovers import clear_leftovers
from ottla.log.names import LEADER_EPOCHS, LOG, SNAPSHOT, file_name, offset_of
from ottla.log.open_files import OpenFiles
from ottla.log.producer_snapshot import SnapshotError, parse_snapshot
from ottla.log.producer_state import Producers
from ottla.log.recovery import rebuild_indexes, recover_segment
from ottla.log.replay import replay_epochs, replay_producers
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.log.state import LogState, logger
from ottla.records.batch import CorruptRecord


@dataclass(frozen=True, slots=True)
class Opening:
    """What is known about a log before it is opened."""

    directory: str
    config: TopicConfig
    recovery_point: int
    log_start_offset: int
    is_clean: bool
    now_ms: int


def load(disk: Disk, open_files: OpenFiles, opening: Opening) -> LogState:
    """Open the log in a directory, which is made if it is not there."""
    disk.mkdir(opening.directory)
    listing = clear_leftovers(disk, opening.directory)
    segments = _segments(disk, open_files, opening, listing)
    scanned_from = None if opening.is_clean else _recover(disk, opening, segments)
    if not segments:
        start = max(opening.log_start_offset, 0)
        segments.append(Segment.create(disk, opening.directory, start, open_files, now_ms=opening.now_ms))
    if opening.is_clean and not _load_active(segments[-1]):
        scanned_from = _recover_active(disk, opening, segments)
    state = LogState(
        disk, opening.directory, opening.config, open_files, Segments(segments), _epochs(disk, opening)
    )
    _complete(state, opening, scanned_from)
    return state


def _segments(
    disk: Disk, open_files: OpenFiles, opening: Opening, listing: dict[str, Entry]
) -> list[Segment]:
    """The segments by their names and sizes alone."""
    bases = sorted(base for name in listing if (base := offset_of(name, LOG)) is not None)
    segments = []
    for base in bases:
        entry = listing[file_name(base, LOG)]
        if not entry.size and base != bases[-1]:
            disk.remove(f"{opening.directory}/{entry.name}")
            continue
        segment = Segment(
            disk, opening.directory, base, open_files, size_bytes=entry.size, now_ms=opening.now_ms
        )
        segment.modified_ms = entry.modified_ms
        segments.append(segment)
    for segment, following in pairwise(segments):
        segment.next_offset = following.base_offset
    return segments


def _load_active(active: Segment) -> bool:
    """Find the active segment's end from its last index entry on; False if that makes no sense."""
    last_offset, position = active.index.last()
    if position > active.size_bytes or (position and last_offset < active.base_offset):
        return False
    try:
        for placed in active.walk(position):
            active.next_offset = placed.next_offset
    except CorruptRecord:
        return False
    active.since_index_bytes = active.size_bytes - position
    return True


def _recover(disk: Disk, opening: Opening, segments: list[Segment]) -> int | None:
    """Scan what ends above the recovery point; the offset from which on that was."""
    scanned_from = None
    for number in range(len(segments)):
        segment = segments[number]
        is_last = number == len(segments) - 1
        if not is_last and segment.next_offset <= opening.recovery_point:
            continue
        upper = None if is_last else segments[number + 1].base_offset
        _recover_one(disk, opening, segment, upper)
        scanned_from = segment.base_offset if scanned_from is None else scanned_from
    return scanned_from


def _recover_active(disk: Disk, opening: Opening, segments: list[Segment]) -> int:
    logger.error("%s: the last segment is damaged although the log was closed properly", opening.directory)
    _recover_one(disk, opening, segments[-1], None)
    return segments[-1].base_offset


def _recover_one(disk: Disk, opening: Opening, segment: Segment, upper_offset: int | None) -> None:
    found = recover_segment(
        disk, opening.directory, segment, upper_offset=upper_offset, keeps_tail=upper_offset is not None
    )
    config = opening.config
    rebuild_indexes(segment, config.index_interval_bytes, config.segment_index_bytes)
    if upper_offset is not None:
        segment.seal(config.segment_index_bytes)
        segment.next_offset = upper_offset
    else:
        segment.next_offset = found.next_offset


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
    state.log_start_offset = max(opening.log_start_offset, state.segments[0].base_offset)
    end = state.log_end_offset
    has_epochs = state.leader_epochs.entries or not state.segments[0].size_bytes
    if scanned_from is not None or not has_epochs:
        replay_epochs(state, scanned_from if scanned_from is not None and has_epochs else 0)
    state.leader_epochs.truncate_from_end(end)
    state.leader_epochs.truncate_from_start(state.log_start_offset)
    load_producers(state, end if scanned_from is None else scanned_from)
    state.flushed_offset = (
        end if opening.is_clean and scanned_from is None else min(opening.recovery_point, end)
    )


def load_producers(state: LogState, trusted_up_to: int) -> None:
    """The newest snapshot that can be read, and what the batches behind it say.

    Snapshots above `trusted_up_to` tell of what may no longer be there; they are removed, like those that cannot be
    read.
    """
    snapshot_offset = _load_snapshot(state, trusted_up_to)
    if snapshot_offset < state.log_end_offset:
        replay_producers(state, snapshot_offset)


def _load_snapshot(state: LogState, trusted_up_to: int) -> int:
    names = [entry.name for entry in state.disk.list(state.directory)]
    offsets = sorted(offset for name in names if (offset := offset_of(name, SNAPSHOT)) is not None)
    for offset in reversed(offsets):
        path = f"{state.directory}/{file_name(offset, SNAPSHOT)}"
        if offset <= trusted_up_to:
            try:
                state.producers = parse_snapshot(state.disk.read(path))
                return offset
            except SnapshotError as problem:
                logger.error("%s cannot be used and is removed: %s", path, problem)
        state.disk.remove(path)
    state.producers = Producers()
    return state.log_start_offset
