"""Rebuilds producers and leader epochs from the batches' headers, and from the producer snapshots beside them."""

from ottla.log.files.file_names import SNAPSHOT, file_name, offset_of
from ottla.log.producers.producer_snapshot import SnapshotError, parse_snapshot
from ottla.log.producers.producer_state import Incoming, Producers, Staged
from ottla.log.segments.segment import Placed, Segment
from ottla.log.state import LogState, logger
from ottla.log.writing.producer_lookup import produced_batch
from ottla.log.writing.rolling import write_snapshot
from ottla.records.batch import CONTROL, TRANSACTIONAL, BatchHeader, BatchView
from ottla.records.control import marker_of


def load_producers(state: LogState, trusted_up_to: int) -> None:
    """The newest snapshot that can be read, and what the batches behind it say, of their leader epochs, too.

    Snapshots above `trusted_up_to` tell of what may no longer be there; they go, like those that cannot be read.
    """
    snapshot_offset = _load_snapshot(state, trusted_up_to)
    if snapshot_offset < state.log_end_offset:
        _replay(state, snapshot_offset)


def drop_snapshots(state: LogState, above_offset: int) -> None:
    """Remove the snapshots that tell of more than the log has."""
    for offset in _snapshot_offsets(state):
        if offset > above_offset:
            state.disk.remove(f"{state.directory}/{file_name(offset, SNAPSHOT)}")


def _snapshot_offsets(state: LogState) -> list[int]:
    names = [entry.name for entry in state.disk.list(state.directory)]
    return sorted(offset for name in names if (offset := offset_of(name, SNAPSHOT)) is not None)


def _load_snapshot(state: LogState, trusted_up_to: int) -> int:
    """The newest good snapshot's offset. Of the older ones only those where a segment begins are kept."""
    offsets = _snapshot_offsets(state)
    bases = {segment.base_offset for segment in state.segments}
    state.producers = Producers()
    loaded = None
    for offset in reversed(offsets):
        path = f"{state.directory}/{file_name(offset, SNAPSHOT)}"
        if loaded is None and offset <= trusted_up_to:
            loaded = _try_snapshot(state, path, offset)
        if offset != loaded and (loaded is None or offset not in bases):
            state.disk.remove(path)
    return state.log_start_offset if loaded is None else loaded


def _try_snapshot(state: LogState, path: str, offset: int) -> int | None:
    try:
        state.producers = parse_snapshot(state.disk.read(path))
    except SnapshotError as problem:
        logger.error("%s cannot be used: %s", path, problem)
        return None
    return offset


def _replay(state: LogState, from_offset: int) -> None:
    """Take in every batch from an offset on, and write a snapshot where each segment begins."""
    for segment in state.segments.from_offset(from_offset):
        if segment.base_offset > from_offset:
            write_snapshot(state, segment.base_offset)
        staged = Staged(state.producers)
        start = segment.find(from_offset) if segment.base_offset < from_offset else None
        for placed in segment.walk(0 if start is None else start.position):
            header = placed.header
            if header.partition_leader_epoch > state.leader_epochs.latest:
                state.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
            if header.producer_id >= 0 and header.last_offset >= from_offset:
                batch = _read(segment, placed) if header.attributes & CONTROL else None
                stage_batch(staged, header, batch)
        state.producers.install(staged.entries)


def replay_epochs(state: LogState) -> None:
    """Take in the leader epochs of all batches."""
    for segment in state.segments:
        for placed in segment.walk():
            if placed.header.partition_leader_epoch > state.leader_epochs.latest:
                state.leader_epochs.assign(placed.header.partition_leader_epoch, placed.header.base_offset)


def stage_batch(staged: Staged, header: BatchHeader, batch: BatchView | None) -> None:
    """Take in one batch whose order was decided before; `batch` is needed for control batches only."""
    if header.attributes & CONTROL:
        # None when compaction took the marker, and with it the whole transaction.
        marker = None if batch is None else marker_of(batch)
        if marker is not None:
            staged.end_transaction(
                header.producer_id, header.producer_epoch, marker.coordinator_epoch, header.max_timestamp
            )
        return
    is_transactional = bool(header.attributes & TRANSACTIONAL)
    produced = produced_batch(header)
    staged.apply(Incoming(header.producer_id, header.producer_epoch, is_transactional, produced))


def _read(segment: Segment, placed: Placed) -> BatchView:
    return BatchView(segment.file.read(placed.position, placed.header.size_bytes))
