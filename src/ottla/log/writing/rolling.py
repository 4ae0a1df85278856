"""Begins a new active segment (STO-5).

The roll is atomic in that each step leaves a directory that opens to the same batches: the indexes of the full segment
are trimmed, the producer state at its end is written, then the new segment's files appear. Nothing here waits for the
disk; the next flush makes all of it durable, and recovery trusts none of it before.
"""

from ottla.config import TopicConfig
from ottla.log.files.file_names import SNAPSHOT, file_name
from ottla.log.producers.producer_snapshot import render_snapshot
from ottla.log.segments.segment import Segment
from ottla.log.state import NO_LIMIT, LogState


def roll(state: LogState, base_offset: int, now_ms: int) -> Segment:
    """Close the active segment and begin one at `base_offset`. OSError leaves the old one active."""
    full = state.segments.active
    if not full.size_bytes and full.base_offset == base_offset:
        return full
    full.seal(state.config.segment_index_bytes)
    write_snapshot(state, base_offset)
    fresh = Segment.create(state.disk, state.directory, base_offset, state.open_files, now_ms=now_ms)
    full.modified_ms = now_ms
    full.next_offset = base_offset
    state.unsynced_directories.add(state.directory)
    state.segments.add(fresh)
    state.layout_version += 1
    if not full.size_bytes:
        state.segments.remove(full)
        full.remove_files()
    return fresh


def snapshot_path(state: LogState, offset: int) -> str:
    """The file of the producer state before `offset`."""
    return f"{state.directory}/{file_name(offset, SNAPSHOT)}"


def write_snapshot(state: LogState, offset: int) -> None:
    """Write the producer state as it is before `offset`; the next flush makes it durable."""
    state.disk.write_atomically(snapshot_path(state, offset), render_snapshot(state.producers), sync=False)


def is_roll_due(state: LogState, now_ms: int) -> bool:
    """Whether the active segment has reached its age by the wall clock, with nothing appended meanwhile."""
    active = state.segments.active
    last_timestamp = state.last_timestamp_before_roll(now_ms)
    return bool(active.size_bytes) and last_timestamp != NO_LIMIT and now_ms > last_timestamp


def must_roll(active: Segment, config: TopicConfig, pending: int = 0) -> bool:
    """Whether the segment's indexes can take no more, once the pending entries are in."""
    max_bytes = config.segment_index_bytes
    return active.index.is_full(max_bytes, pending) or active.time_index.is_full(max_bytes, pending)
