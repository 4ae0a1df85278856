"""The batches that a reader of raw bytes finds by their headers."""

from __future__ import annotations

from ottla.client.sync.range_batches import RangeBatches, placed_batches
from ottla.protocol.messages.fetch import AbortedTransaction
from ottla.records.builder import build_batch
from ottla.records.record import Record


def batch(base: int, count: int) -> bytearray:
    return build_batch([Record(base + at, 1, None, b"v") for at in range(count)], base_offset=base)


def seen(data: bytes | bytearray, start: int, end: int, **more: list[AbortedTransaction]) -> RangeBatches:
    return placed_batches(memoryview(data), start, end, **more)


def offsets(raw: RangeBatches) -> list[tuple[int, int]]:
    return [(each.header.base_offset, each.header.last_offset) for each in raw.batches]


def test_batches_that_reach_into_the_range_are_found() -> None:
    data = batch(0, 5) + batch(5, 5) + batch(10, 5) + batch(15, 5)
    raw = seen(data, 7, 12)
    assert offsets(raw) == [(5, 9), (10, 14)]
    assert raw.next_offset == 12
    assert bytes(data[raw.batches[0].position : raw.batches[0].end]) == bytes(batch(5, 5))


def test_a_batch_behind_a_gap_ends_the_range() -> None:
    raw = seen(batch(0, 5) + batch(50, 5), 0, 20)
    assert offsets(raw) == [(0, 4)]
    assert raw.next_offset == 20


def test_what_was_cut_off_is_fetched_again() -> None:
    for cut in (1, 20, 60):
        raw = seen((batch(0, 5) + batch(5, 5))[:-cut], 0, 10)
        assert offsets(raw) == [(0, 4)]
        assert (raw.next_offset, raw.damage) == (5, None)


def test_nothing_moves_nothing() -> None:
    raw = seen(b"", 7, 12)
    assert (raw.batches, raw.next_offset, raw.damage) == ([], 7, None)


def test_damage_stands_behind_what_is_whole() -> None:
    raw = seen(batch(0, 5) + bytearray(70), 0, 10)
    assert offsets(raw) == [(0, 4)]
    assert raw.next_offset == 5
    assert "magic is 0" in str(raw.damage)
    short = batch(0, 5)
    short[8:12] = (3).to_bytes(4, "big")
    assert "batch length 3 is less" in str(seen(short, 0, 10).damage)


def test_with_aborted_transactions_batches_before_the_range_count() -> None:
    raw = seen(batch(0, 5) + batch(5, 5), 7, 10, aborted=[AbortedTransaction(producer_id=1, first_offset=2)])
    assert offsets(raw) == [(0, 4), (5, 9)]
