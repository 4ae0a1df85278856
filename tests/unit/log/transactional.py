"""Transactions on a bare log: batches, markers, and what a reader of committed records sees."""

from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.logs import read_all

from ottla.log.log import Log
from ottla.records.batch import BatchView
from ottla.records.control import TransactionMarker

TRANSACTIONAL = 0x10


def sent(
    sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0, value: bytes = b"v"
) -> bytearray:
    """A transactional batch."""
    return batch(
        count,
        producer_id=producer,
        producer_epoch=epoch,
        sequence=sequence,
        attributes=TRANSACTIONAL,
        value=value,
    )


def end(
    log: Log,
    *,
    commit: bool,
    producer: int = 7,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    version: int = 0,
) -> int:
    """End a producer's transaction as its coordinator does; the end offset after the marker."""
    marker = TransactionMarker(producer, epoch, coordinator_epoch, commit, version)
    return log.append_marker(marker, leader_epoch=0, now_ms=NOW_MS)


def committed(log: Log, offset: int, upper_offset: int) -> list[BatchView]:
    """The data batches between two offsets, without those that the log names as aborted."""
    aborted = log.aborted_transactions(offset, upper_offset)
    return [
        found
        for found in read_all(log, from_offset=offset)
        if found.base_offset < upper_offset
        and not found.is_control
        and not any(
            found.is_transactional
            and entry.producer_id == found.producer_id
            and entry.first_offset <= found.base_offset <= entry.last_offset
            for entry in aborted
        )
    ]
