"""Rebuilds producers and leader epochs from the batches' headers, and tells what a control batch ends."""

from ottla.log.producer_state import SEQUENCE_MASK, Incoming, ProducedBatch, Staged
from ottla.log.segment import Placed, Segment
from ottla.log.state import LogState
from ottla.records.batch import CONTROL, TRANSACTIONAL, BatchHeader, BatchView, CorruptRecord

_COORDINATOR_EPOCH_UNKNOWN = -1


def replay_producers(state: LogState, from_offset: int) -> None:
    """Take in every batch from an offset on."""
    staged = Staged(state.producers)
    for segment in state.segments.from_offset(from_offset):
        for placed in segment.walk():
            if placed.header.last_offset >= from_offset and placed.header.producer_id >= 0:
                batch = _read(segment, placed) if placed.header.attributes & CONTROL else None
                stage_batch(staged, placed.header, batch)
    state.producers.install(staged.entries)


def replay_epochs(state: LogState, from_offset: int) -> None:
    """Take in the leader epochs of every batch from an offset on."""
    for segment in state.segments.from_offset(from_offset):
        for placed in segment.walk():
            if placed.header.partition_leader_epoch > state.leader_epochs.latest:
                state.leader_epochs.assign(placed.header.partition_leader_epoch, placed.header.base_offset)


def stage_batch(staged: Staged, header: BatchHeader, batch: BatchView | None) -> None:
    """Take in one batch whose order was decided before; `batch` is needed for control batches only."""
    if header.attributes & CONTROL:
        epoch = _COORDINATOR_EPOCH_UNKNOWN if batch is None else coordinator_epoch(batch)
        staged.end_transaction(header.producer_id, header.producer_epoch, epoch, header.max_timestamp)
        return
    last_sequence = (header.base_sequence + header.last_offset_delta) & SEQUENCE_MASK
    produced = ProducedBatch(
        header.base_sequence, last_sequence, header.base_offset, header.last_offset, header.max_timestamp
    )
    staged.apply(
        Incoming(header.producer_id, header.producer_epoch, bool(header.attributes & TRANSACTIONAL), produced)
    )


def coordinator_epoch(batch: BatchView) -> int:
    """The epoch of the coordinator that wrote an end-transaction marker."""
    try:
        for record in batch.records():
            if record.value is not None and len(record.value) >= 6:
                return int.from_bytes(bytes(record.value[2:6]), "big", signed=True)
    except CorruptRecord:
        pass
    return _COORDINATOR_EPOCH_UNKNOWN


def _read(segment: Segment, placed: Placed) -> BatchView:
    return BatchView(segment.file.read(placed.position, placed.header.size_bytes))
