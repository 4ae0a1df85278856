"""Rebuilds producers and leader epochs from batch headers and producer snapshots."""

from ottla.log.producers.producer_lookup import produced_batch
from ottla.log.producers.producer_state import Incoming, Producers, Staged
from ottla.log.producers.snapshot_files import SnapshotFiles
from ottla.log.segments.extent import Extent
from ottla.log.segments.segment import Placed, Segment
from ottla.records.batch import CONTROL, TRANSACTIONAL, BatchHeader, BatchView
from ottla.records.control import marker_of


def load_producers(
    extent: Extent, producers: Producers, snapshots: SnapshotFiles, trusted_up_to: int
) -> None:
    """Load the newest readable snapshot at or below `trusted_up_to` and replay the batches after it.

    The leader epochs of the replayed batches are assigned as well. Snapshots above `trusted_up_to` may
    describe batches that are no longer in the log.
    """
    bases = {segment.base_offset for segment in extent.segments}
    loaded = snapshots.load(trusted_up_to, bases)
    from_offset = extent.start_offset if loaded is None else loaded
    if from_offset < extent.end_offset:
        _replay(extent, producers, snapshots, from_offset)


def _replay(extent: Extent, producers: Producers, snapshots: SnapshotFiles, from_offset: int) -> None:
    """Replay every batch from an offset on, and write a snapshot where each segment begins."""
    epochs = extent.leader_epochs
    for segment in extent.segments.from_offset(from_offset):
        if segment.base_offset > from_offset:
            snapshots.write(segment.base_offset)
        staged = Staged(producers)
        start = segment.find(from_offset) if segment.base_offset < from_offset else None
        for placed in segment.walk(0 if start is None else start.position):
            header = placed.header
            if header.partition_leader_epoch > epochs.latest:
                epochs.assign(header.partition_leader_epoch, header.base_offset)
            if header.producer_id >= 0 and header.last_offset >= from_offset:
                batch = _read(segment, placed) if header.attributes & CONTROL else None
                stage_batch(staged, header, batch)
        producers.install(staged.entries)


def replay_epochs(extent: Extent) -> None:
    """Assign the leader epochs of all batches."""
    epochs = extent.leader_epochs
    for segment in extent.segments:
        for placed in segment.walk():
            if placed.header.partition_leader_epoch > epochs.latest:
                epochs.assign(placed.header.partition_leader_epoch, placed.header.base_offset)


def stage_batch(staged: Staged, header: BatchHeader, batch: BatchView | None) -> None:
    """Record one batch whose order was checked before; `batch` is needed for control batches only."""
    if header.attributes & CONTROL:
        # No marker: compaction removed it, and with it the whole transaction.
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
