"""Rebuilds producers and leader epochs from batch headers and producer snapshots."""

from ottla.log.producers.producer_lookup import produced_batch
from ottla.log.producers.producer_state import Ending, Incoming, Producers, Staged
from ottla.log.producers.snapshot_files import SnapshotFiles
from ottla.log.segments.extent import Extent
from ottla.log.segments.segment import Placed, Segment
from ottla.records.batch import CONTROL, TRANSACTIONAL, BatchHeader, BatchView
from ottla.records.control import marker_of


def load_producers(
    extent: Extent,
    producers: Producers,
    snapshots: SnapshotFiles,
    trusted_up_to: int,
    *,
    replicated_up_to: int | None = None,
    reindex_from: int | None = None,
) -> None:
    """Load the newest readable snapshot at or below `trusted_up_to` and replay the batches after it.

    The leader epochs of the replayed batches are assigned as well. Snapshots above `trusted_up_to` may
    describe batches that are no longer in the log. A snapshot does not tell of transactions that had ended
    before it; those whose marker is at `replicated_up_to` or above still hold readers back, so a snapshot
    after such a marker is not used. The aborted transactions of segments from `reindex_from`
    on are indexed: the caller emptied their indexes.
    """
    bases = {segment.base_offset for segment in extent.segments}
    loaded = snapshots.load(trusted_up_to, bases)
    if loaded is not None and replicated_up_to is not None and _has_marker(extent, replicated_up_to, loaded):
        loaded = snapshots.load(replicated_up_to, bases)
    from_offset = extent.start_offset if loaded is None else loaded
    if from_offset < extent.end_offset:
        _replay(extent, producers, snapshots, from_offset, reindex_from)
    producers.forget_transactions_before(extent.start_offset)


def _has_marker(extent: Extent, offset: int, end_offset: int) -> bool:
    """Whether a transaction was ended between two offsets. Nearly always they are equal, or close together."""
    if offset >= end_offset:
        return False
    for segment in extent.segments.from_offset(offset):
        start = segment.find(offset) if segment.base_offset < offset else None
        for placed in segment.walk(0 if start is None else start.position):
            if placed.header.base_offset >= end_offset:
                return False
            if placed.header.attributes & CONTROL and placed.header.base_offset >= offset:
                return True
    return False


def _replay(
    extent: Extent,
    producers: Producers,
    snapshots: SnapshotFiles,
    from_offset: int,
    reindex_from: int | None,
) -> None:
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
        if staged.aborted and reindex_from is not None and segment.base_offset >= reindex_from:
            segment.txn_index.add(staged.aborted)
        staged.install()


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
                Ending(
                    header.producer_id,
                    header.producer_epoch,
                    marker,
                    header.base_offset,
                    header.max_timestamp,
                )
            )
        return
    is_transactional = bool(header.attributes & TRANSACTIONAL)
    produced = produced_batch(header)
    staged.apply(Incoming(header.producer_id, header.producer_epoch, is_transactional, produced))


def _read(segment: Segment, placed: Placed) -> BatchView:
    return BatchView(segment.file.read(placed.position, placed.header.size_bytes))
