from __future__ import annotations

import pytest

from ottla.client.fetched_batches import FetchedBatches
from ottla.protocol.messages.fetch import AbortedTransaction
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
