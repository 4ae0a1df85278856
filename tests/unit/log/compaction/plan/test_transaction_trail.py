"""Transactions as compaction sees them (RET-7)."""

from collections.abc import Iterator

import pytest
from tests.simulation.world.disk import SimulatedDisk
from tests.unit.log.batches import NOW_MS, batch
from tests.unit.log.compaction_model import unhurried

from ottla.log.compaction.plan.transaction_trail import (
    AbortedTransaction,
    TransactionTrail,
    find_aborted,
    kept_entries,
)
from ottla.log.compaction.segment_reader import SegmentReader
from ottla.records.batch import TRANSACTIONAL, read_header
from ottla.records.control import EndTransactionMarker, build_marker
from ottla.records.index_entries import TXN_INDEX_ENTRY


def data(offset: int, producer_id: int) -> bytes:
    return bytes(
        batch(
            1,
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            sequence=0,
            attributes=TRANSACTIONAL,
        )
    )


def end(offset: int, producer_id: int, *, is_commit: bool) -> bytes:
    marker = EndTransactionMarker(is_commit, 0)
    return bytes(
        build_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp=NOW_MS, base_offset=offset)
    )


def readers(*segments: list[bytes]) -> Iterator[SegmentReader]:
    disk = SimulatedDisk()
    for number, parts in enumerate(segments):
        path = f"/data/t-0/{number}.log"
        disk.put(path, b"".join(parts))
        yield SegmentReader(
            disk.open(path), path, disk.size(path), range(100), piece_bytes=100, throttle=unhurried()
        )


def test_a_transaction_is_aborted_if_the_next_marker_of_its_producer_says_so() -> None:
    first = [data(0, 7), data(1, 8), bytes(batch(1, base_offset=2)), end(3, 7, is_commit=False)]
    second = [data(4, 7), end(5, 8, is_commit=True), data(6, 8), end(7, 7, is_commit=True)]
    third = [end(8, 8, is_commit=False), data(9, 7)]
    assert list(find_aborted(readers(first, second, third), 0)) == [
        AbortedTransaction(7, 0, 3),
        AbortedTransaction(8, 6, 8),
    ]
    assert list(find_aborted(readers(first, second, third), 4)) == [AbortedTransaction(8, 6, 8)]


def test_only_batches_between_the_first_one_and_the_marker_are_aborted() -> None:
    trail = TransactionTrail(lambda: [AbortedTransaction(7, 4, 9), AbortedTransaction(7, 20, 29)])
    outcomes = {offset: trail.is_aborted(read_header(data(offset, 7))) for offset in (3, 4, 8, 15, 20, 30)}
    assert outcomes == {3: False, 4: True, 8: True, 15: False, 20: True, 30: False}
    assert not trail.is_aborted(read_header(data(5, 8)))
    assert not trail.is_aborted(read_header(batch(1, base_offset=5, producer_id=7)))


def test_nothing_is_looked_for_before_there_is_a_transactional_batch() -> None:
    def find() -> list[AbortedTransaction]:
        raise AssertionError("nobody asked")

    trail = TransactionTrail(find)
    assert not trail.is_aborted(read_header(batch(1)))
    with pytest.raises(AssertionError):
        trail.is_aborted(read_header(data(0, 7)))


def test_entries_of_the_transaction_index_stay_while_a_batch_of_theirs_does() -> None:
    trail = TransactionTrail(list)
    for offset, producer_id in ((0, 7), (10, 8)):
        trail.see_data(read_header(data(offset, producer_id)))
    assert trail.see_marker(read_header(end(5, 7, is_commit=False)), is_commit=False)
    assert trail.see_marker(read_header(end(15, 8, is_commit=True)), is_commit=True)
    assert not trail.see_marker(read_header(end(25, 7, is_commit=False)), is_commit=False)
    entries = [TXN_INDEX_ENTRY.pack(0, 7, first, last, last) for first, last in ((0, 5), (20, 25), (90, 99))]
    assert kept_entries(b"".join(entries) + b"torn", trail, 50) == entries[0] + entries[2]
