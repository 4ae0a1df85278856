"""Cuts a log's end off: a follower does so when its leader has other records there.

Whole segments go first, the newest first, so that a crash in between leaves a shorter log and no gap. The recovery
point on disk must not be above the cut: whoever calls writes that checkpoint before, because recovery takes offsets
below the recovery point for acknowledged and keeps them out of use. (Cuts lie between batches, because leader epochs
begin and end there; one inside a batch takes the whole batch, and the log then ends before the offset asked for.)
"""

from ottla.log.files.file_names import SNAPSHOT, offset_of
from ottla.log.segments.segment import Segment
from ottla.log.segments.truncation_job import CutJob
from ottla.log.state import LogState
from ottla.log.writing.producer_replay import drop_snapshots, load_producers
from ottla.log.writing.producer_rewind import headers_from, rewind_producers


def truncate_to(state: LogState, offset: int) -> CutJob | None:
    """Keep only the batches that end before `offset`. What makes that durable, if it is not."""
    state.settle_cut()
    if offset >= state.log_end_offset:
        _forget_loss(state)
        return None
    if offset <= state.segments[0].base_offset:
        truncate_fully(state, offset)
        return None
    cut = headers_from(state, offset)
    if state.segments.active.base_offset >= offset:
        _remove_segments(state, offset)
    active = state.segments.active
    placed = active.find(offset)
    if placed is None:
        # The segment ends in a hole, and the cut lies in it.
        active.next_offset = offset
    else:
        # Indexes are made anew after a crash, and the rest waits for the next flush.
        state.cut_job = CutJob(state.disk, state.directory, active.file)
        state.cut_job.announce()
        active.truncate(placed.position, min(offset, placed.header.base_offset))
    _settle(state)
    if cut is not None and rewind_producers(state, cut):
        drop_snapshots(state, state.log_end_offset)
    else:
        load_producers(state, state.log_end_offset)
    return state.cut_job


def truncate_fully(state: LogState, new_start: int) -> None:
    """Throw all segments away and begin an empty one."""
    while len(state.segments) > 1:
        _remove(state, state.segments.active)
    last = state.segments.active
    last.remove_files()
    for entry in state.disk.list(state.directory):
        if offset_of(entry.name, SNAPSHOT) is not None:
            state.disk.remove(f"{state.directory}/{entry.name}")
    fresh = Segment.create(state.disk, state.directory, new_start, state.open_files, now_ms=last.created_ms)
    state.segments.add(fresh)
    state.segments.remove(last)
    state.log_start_offset = new_start
    state.leader_epochs.truncate_from_end(0)
    state.loss.forget()
    state.disk.sync_directory(state.directory)
    _settle(state)
    load_producers(state, new_start)


def _remove_segments(state: LogState, offset: int) -> None:
    """Durable before the cut: a crash must not bring a later segment back behind a shorter one."""
    while state.segments.active.base_offset >= offset:
        _remove(state, state.segments.active)
    state.disk.sync_directory(state.directory)


def _remove(state: LogState, segment: Segment) -> None:
    state.segments.remove(segment)
    segment.remove_files()


def _forget_loss(state: LogState) -> None:
    """A log that ends before what was lost misses nothing."""
    if state.loss.first_offset is not None and state.loss.first_offset >= state.log_end_offset:
        state.loss.forget()
        state.unsynced_directories.add(state.directory)


def _settle(state: LogState) -> None:
    """Make all but the producers agree with the shorter log."""
    state.layout_version += 1
    end = state.log_end_offset
    state.log_start_offset = min(state.log_start_offset, end)
    _forget_loss(state)
    state.unsynced_directories.add(state.directory)
    state.leader_epochs.truncate_from_end(end)
    state.leader_epochs.write()
