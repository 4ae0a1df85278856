from __future__ import annotations

from itertools import repeat
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.records.strategies import record_lists

from ottla.client.fetching.plan.fetched_batches import FetchedBatches
from ottla.protocol.messages.fetch import AbortedTransaction
from ottla.records.batch import HEADER, HEADER_BYTES, iter_batches, read_header
from ottla.records.builder import build_batch
from ottla.records.compression import Compression
from ottla.records.control import EndTransactionMarker, build_marker
from ottla.records.corruption import CorruptRecord
from ottla.records.record import Record


def batch(*offsets: int, epoch: int = 3, size: int = 1, **options: object) -> bytes:
    records = [Record(offset, 0, None, b"v" * size) for offset in offsets]
    made = build_batch(records, base_offset=offsets[0], partition_leader_epoch=epoch, **options)  # type: ignore[arg-type]
    return bytes(made)


def marker(offset: int, *, is_commit: bool = True) -> bytes:
    made = EndTransactionMarker(is_commit, 0)
    return bytes(
        build_marker(
            made,
            producer_id=7,
            producer_epoch=0,
            timestamp=0,
            base_offset=offset,
            partition_leader_epoch=3,
        )
    )


def fetched(
    *batches: bytes, offset: int = 0, aborted: list[AbortedTransaction] | None = None
) -> FetchedBatches:
    return FetchedBatches(memoryview(b"".join(batches)), offset, aborted)


def decoded(found: FetchedBatches, wanted: int = 500) -> list[tuple[list[int], int]]:
    """The offsets that come together, and where reading goes on, each time."""
    parts = []
    while found.size_bytes:
        part = found.decode(wanted, check_crcs=True)
        parts.append((list(part.columns.offsets), part.next_offset))
    return parts


def test_small_batches_come_together_until_there_are_enough() -> None:
    small = [batch(offset) for offset in range(5)]
    assert decoded(fetched(*small)) == [([0, 1, 2, 3, 4], 5)]
    assert decoded(fetched(*small), 2) == [([0, 1], 2), ([2, 3], 4), ([4], 5)]
    assert decoded(fetched(batch(0, 1, 2), batch(3)), 2) == [([0, 1, 2], 3), ([3], 4)]


def test_large_records_do_not_come_together() -> None:
    large = [batch(offset, size=40_000) for offset in range(3)]
    assert decoded(fetched(*large)) == [([0, 1], 2), ([2], 3)]


def test_what_is_known_before_decoding() -> None:
    found = fetched(batch(0, 1), batch(2, 5, epoch=4), batch(9)[:-1])
    assert (found.next_offset, found.leader_epoch, found.base_offset, found.damage) == (6, 4, 0, None)
    assert fetched(b"").size_bytes == 0


def test_batches_before_the_offset_are_left_out() -> None:
    found = fetched(batch(0, 1), batch(2, 3), batch(4), offset=3)
    assert (found.base_offset, decoded(found)) == (2, [([2, 3, 4], 5)])
    assert fetched(batch(0, 1), offset=2).size_bytes == 0


def test_offsets_that_run_backwards_do_not_lead_back_behind_where_reading_began() -> None:
    assert fetched(batch(5), batch(1), offset=5).next_offset == 5  # base offsets are in no checksum


def test_another_epoch_begins_another_part() -> None:
    parts = decoded(fetched(batch(0), batch(1, epoch=4), batch(2, epoch=4)))
    assert parts == [([0], 1), ([1, 2], 3)]


@pytest.mark.parametrize("compression", Compression)
def test_every_compression_is_decoded(compression: Compression) -> None:
    found = fetched(batch(0, 1, compression=compression), batch(2, compression=compression))
    assert decoded(found) == [([0, 1, 2], 3)]


def test_markers_have_no_records_and_are_passed() -> None:
    assert decoded(fetched(marker(0), batch(1), marker(2))) == [([1], 3)]
    assert decoded(fetched(marker(0))) == [([], 1)]


def test_aborted_transactions_are_hidden_also_if_they_began_before_the_offset() -> None:
    log = [
        batch(n, producer_id=7, producer_epoch=0, base_sequence=n, is_transactional=True) for n in range(3)
    ]
    log += [marker(3, is_commit=False), batch(4)]
    aborted = [AbortedTransaction(producer_id=7, first_offset=1)]
    assert decoded(fetched(*log, aborted=aborted)) == [([0, 4], 5)]
    assert decoded(fetched(*log, offset=2, aborted=aborted)) == [([4], 5)]
    assert decoded(fetched(*log)) == [([0, 1, 2, 4], 5)]


def test_a_wrong_checksum_is_told_after_what_is_whole_and_not_looked_at_if_not_wanted() -> None:
    wrong = bytearray(batch(1))
    wrong[20] ^= 1  # a byte of the checksum itself
    found = fetched(batch(0), bytes(wrong), batch(2))
    assert list(found.decode(9, check_crcs=True).columns.offsets) == [0]
    for _ in range(2):
        with pytest.raises(CorruptRecord, match="the checksum says"):
            found.decode(9, check_crcs=True)
        assert found.base_offset == 1
    assert list(found.decode(9, check_crcs=False).columns.offsets) == [1, 2]


def test_bytes_that_are_no_batch_end_the_batches_before_them() -> None:
    found = fetched(batch(0), bytes(80))
    assert found.damage is not None
    assert "magic is 0" in str(found.damage)
    assert decoded(found) == [([0], 1)]


# ---- small batches


@st.composite
def small_batches(draw: st.DrawFn) -> list[bytearray]:
    """Batches of one record or a few of all sorts, with gaps between some of them."""
    made: list[bytearray] = []
    offset = 0
    most = draw(st.sampled_from([1, 1, 5]))
    for _ in range(draw(st.integers(1, 6))):
        records = draw(record_lists(min_size=1))[: draw(st.integers(1, most))]
        for _ in range(draw(st.sampled_from([1, 1, 20]))):  # many that are alike are a run
            close = [each._replace(offset=offset + at) for at, each in enumerate(records)]
            made.append(build_batch(close, base_offset=offset, partition_leader_epoch=3))
            offset += len(close)
        offset += draw(st.sampled_from([0, 0, 3]))
    return made


def plainly(log: bytes) -> tuple[list[Record], bool]:
    """The records before the first batch that is damaged, and whether there is one, as the plain decoder sees
    it.
    """
    records: list[Record] = []
    for each in iter_batches(log):
        try:
            records += list(each.records())
        except CorruptRecord:
            return records, True
    return records, False


def together(log: bytes, wanted: int, *, check_crcs: bool) -> tuple[list[Record], bool]:
    found, records = fetched(log), list[Record]()
    while found.size_bytes:
        try:
            columns = found.decode(wanted, check_crcs=check_crcs).columns
        except CorruptRecord:
            return records, True
        rows = zip(*columns[:4], columns.headers or repeat(()), strict=False)
        records += [Record(*row) for row in rows]
    return records, False


@settings(deadline=None, max_examples=200)
@given(small_batches(), st.sampled_from([1, 2, 500]))
def test_small_batches_give_what_was_put_in(batches: list[bytearray], wanted: int) -> None:
    log = b"".join(batches)
    assert together(log, wanted, check_crcs=True) == plainly(log)


@settings(deadline=None, max_examples=400)
@given(small_batches(), st.data())
def test_a_changed_byte_in_a_small_batch_is_seen_as_the_plain_decoder_sees_it(
    batches: list[bytearray], data: st.DataObject
) -> None:
    changed = batches[data.draw(st.integers(0, len(batches) - 1))]
    place = data.draw(st.integers(HEADER_BYTES, min(len(changed), HEADER_BYTES + 12) - 1) | st.just(-1))
    place = data.draw(st.just(place) | st.integers(HEADER_BYTES, len(changed) - 1))
    near = [changed[place] ^ 1, changed[place] ^ 128, changed[place] + 2 & 255, 0, 1, 255]
    was, changed[place] = changed[place], data.draw(st.sampled_from(near))
    log = b"".join(batches)
    assert together(log, 500, check_crcs=False) == plainly(log)
    if changed[place] != was:
        assert together(log, 500, check_crcs=True)[1], "the checksum tells"


def test_a_small_batch_with_less_than_no_records_is_damaged() -> None:
    empty = bytearray(batch(1)[:HEADER_BYTES])
    header = read_header(empty)._replace(
        batch_length=HEADER_BYTES - 12, records_count=-1, last_offset_delta=-2
    )
    HEADER.pack_into(empty, 0, *header)
    assert together(batch(0) + bytes(empty), 500, check_crcs=False)[1]


def test_a_timestamp_of_three_bytes_is_not_taken_for_one_of_two() -> None:
    records = [Record(0, 0, None, b"v"), Record(1, 1 << 14, None, b"w"), Record(2, 100, b"", None)]
    log = bytes(build_batch(records)) + bytes(build_batch([Record(3, 9, None, b"x")], base_offset=3))
    assert together(log, 500, check_crcs=True) == (plainly(log)[0], False)


@pytest.mark.parametrize("options", [{"compression": Compression.GZIP}, {"timestamp_type": 1}])
def test_a_batch_of_one_record_among_others_may_be_of_any_kind(options: dict[str, Any]) -> None:
    kinds = [batch(0), batch(1), batch(2, **options), batch(3, 4), batch(5), batch(6), batch(9)]
    assert decoded(fetched(*kinds)) == [([0, 1, 2, 3, 4, 5, 6, 9], 10)]
