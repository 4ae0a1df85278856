"""The records of one batch that compaction keeps (RET-3, RET-4, RET-7)."""

from collections.abc import Mapping

import pytest
from tests.unit.log.batches import NOW_MS

from ottla.log.compaction.plan.batch_cleaning import BatchCleaner, LastBatches
from ottla.log.compaction.plan.offset_map import OffsetMap
from ottla.log.compaction.plan.transaction_trail import AbortedTransaction, TransactionTrail
from ottla.records.batch import BatchView, TimestampType
from ottla.records.builder import BatchOptions, build_batch
from ottla.records.compression import Compression
from ottla.records.control import ControlRecordType, EndTransactionMarker, build_marker, control_key
from ottla.records.record import Record

HORIZON_MS = NOW_MS + 1000
END = 1000


def cleaner(
    newest: Mapping[bytes, int] | None = None,
    *,
    end_offset: int = END,
    now_ms: int = NOW_MS,
    producers: Mapping[int, LastBatches] | None = None,
    aborted: list[AbortedTransaction] | None = None,
) -> BatchCleaner:
    offsets = OffsetMap(4096, 0)
    for key, offset in (newest or {}).items():
        offsets.put(key, offset)
    return BatchCleaner(
        offsets,
        end_offset,
        TransactionTrail(lambda: aborted or []),
        producers or {},
        now_ms=now_ms,
        delete_retention_ms=HORIZON_MS - NOW_MS,
    )


def batch(*pairs: tuple[bytes | None, bytes | None], **options: object) -> BatchView:
    """A batch from offset 100 on, with a record every other offset, ten milliseconds apart."""
    records = [
        Record(100 + 2 * number, NOW_MS + 10 * number, key, value, (("h", b"x"),))
        for number, (key, value) in enumerate(pairs)
    ]
    named: BatchOptions = {"base_offset": 100, "partition_leader_epoch": 3, **options}  # type: ignore[typeddict-item]
    return BatchView(bytes(build_batch(records, **named)))


def cleaned(by: BatchCleaner, found: BatchView, *, is_last: bool = False) -> BatchView | None:
    kept = by.clean(found, is_last=is_last)
    if kept is None:
        return None
    view = BatchView(bytes(kept.data))
    assert view.header._replace(crc=0) == kept.header._replace(crc=0)
    assert view.crc_is_valid()
    return view


def keys(found: BatchView | None) -> list[bytes | None]:
    return [] if found is None else [record.key for record in found.records()]


def test_a_batch_of_which_everything_stays_is_the_same_bytes() -> None:
    found = batch((b"a", b"1"), (b"b", b"2"), compression=Compression.GZIP)
    kept = cleaner({b"a": 100, b"b": 102}).clean(found, is_last=False)
    assert kept is not None
    assert bytes(kept.data) == bytes(found.view())


@pytest.mark.parametrize("codec", Compression)
def test_superseded_records_go_and_the_rest_keeps_offsets_times_headers_and_codec(codec: Compression) -> None:
    found = batch((b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (b"b", b"4"), compression=codec, producer_id=7)
    left = cleaned(cleaner({b"a": 500, b"b": 106}), found)
    assert left is not None
    assert list(left.records()) == [list(found.records())[2], list(found.records())[3]]
    same = ("base_offset", "last_offset_delta", "base_timestamp", "producer_id", "attributes")
    assert [getattr(left, name) for name in same] == [getattr(found, name) for name in same]
    assert left.partition_leader_epoch == 3
    assert left.max_timestamp == NOW_MS + 30
    assert left.records_count == 2


def test_the_largest_timestamp_is_that_of_the_records_that_stay() -> None:
    found = batch((b"a", b"1"), (b"b", b"2"))
    left = cleaned(cleaner({b"b": 500}), found)
    assert left is not None
    assert left.max_timestamp == NOW_MS
    stamped = batch((b"a", b"1"), (b"b", b"2"), timestamp_type=TimestampType.LOG_APPEND_TIME)
    left = cleaned(cleaner({b"b": 500}), stamped)
    assert left is not None
    assert left.max_timestamp == stamped.max_timestamp


def test_a_record_without_a_key_goes() -> None:
    assert keys(cleaned(cleaner(), batch((None, b"1"), (b"", b"2")))) == [b""]


def test_a_key_that_nobody_wrote_again_stays() -> None:
    assert keys(cleaned(cleaner({b"other": 500}), batch((b"a", b"1")))) == [b"a"]


def test_records_at_or_behind_the_end_stay_whatever_they_are() -> None:
    found = batch((None, b"1"), (b"a", None), (None, b"3"), (b"a", None))
    assert keys(cleaned(cleaner(end_offset=104), found)) == [b"a", None, b"a"]
    untouched = cleaner({b"a": 500}, end_offset=100).clean(found, is_last=False)
    assert untouched is not None
    assert bytes(untouched.data) == bytes(found.view())


def test_a_tombstone_gets_a_horizon_when_a_pass_first_sees_it_and_goes_when_that_has_passed() -> None:
    found = batch((b"a", None), (b"b", b"2"), compression=Compression.ZSTD, producer_id=7, base_sequence=5)
    first = cleaner()
    seen = cleaned(first, found)
    assert seen is not None
    assert first.take_tally().next_horizon_ms == HORIZON_MS
    assert seen.delete_horizon_ms == HORIZON_MS
    assert list(seen.records()) == list(found.records())
    same = (
        "base_offset",
        "last_offset_delta",
        "max_timestamp",
        "producer_id",
        "base_sequence",
        "compression",
    )
    assert [getattr(seen, name) for name in same] == [getattr(found, name) for name in same]

    second = cleaner(now_ms=HORIZON_MS - 1)
    still = second.clean(seen, is_last=False)
    assert still is not None
    assert bytes(still.data) == bytes(seen.view())
    assert second.take_tally().next_horizon_ms == HORIZON_MS

    third = cleaner(now_ms=HORIZON_MS)
    gone = cleaned(third, seen)
    assert gone is not None
    assert list(gone.records()) == list(found.records())[1:]
    assert gone.delete_horizon_ms == HORIZON_MS
    assert third.take_tally().next_horizon_ms is None


def test_a_stamped_batch_keeps_its_time_when_it_gets_a_horizon() -> None:
    found = batch((b"a", None), timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=NOW_MS + 7)
    seen = cleaned(cleaner(), found)
    assert seen is not None
    assert [record.timestamp for record in seen.records()] == [NOW_MS + 7]


def test_an_emptied_batch_goes_unless_it_is_the_last_of_its_segment() -> None:
    found = batch((b"a", b"1"), (b"b", b"2"), compression=Compression.LZ4)
    newest = {b"a": 500, b"b": 500}
    assert cleaned(cleaner(newest), found) is None
    left = cleaned(cleaner(newest), found, is_last=True)
    assert left is not None
    assert (left.records_count, left.size_bytes, left.base_timestamp) == (0, 61, -1)
    assert (left.base_offset, left.last_offset, left.max_timestamp) == (100, 102, found.max_timestamp)
    assert left.compression == Compression.NONE
    assert cleaned(cleaner(newest), left) is None
    assert cleaned(cleaner(newest), left, is_last=True) is not None


def test_sequences_that_a_live_producer_may_send_again_stay_even_if_their_records_go() -> None:
    found = batch((b"a", b"1"), producer_id=7, producer_epoch=2, base_sequence=41)
    newest = {b"a": 500}
    assert cleaned(cleaner(newest, producers={7: LastBatches(2, 101)}), found) is None
    left = cleaned(cleaner(newest, producers={7: LastBatches(2, 100)}), found)
    assert left is not None
    assert (left.producer_id, left.producer_epoch, left.base_sequence, left.records_count) == (7, 2, 41, 0)
    assert cleaned(cleaner(newest, producers={7: LastBatches(3, 100)}), found) is None  # of an older epoch


def marker(*, is_commit: bool = True, offset: int = 200, epoch: int = 0) -> BatchView:
    data = build_marker(
        EndTransactionMarker(is_commit, 4),
        producer_id=7,
        producer_epoch=epoch,
        timestamp=NOW_MS,
        base_offset=offset,
    )
    return BatchView(bytes(data))


def transactional(*pairs: tuple[bytes, bytes]) -> BatchView:
    return batch(*pairs, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)


def test_aborted_records_go_at_once_and_committed_ones_stay() -> None:
    found = transactional((b"a", b"1"))
    assert keys(cleaned(cleaner(), found)) == [b"a"]
    assert cleaned(cleaner(aborted=[AbortedTransaction(7, 100, 200)]), found) is None
    assert keys(cleaned(cleaner(aborted=[AbortedTransaction(8, 100, 200)]), found)) == [b"a"]
    assert keys(cleaned(cleaner(aborted=[AbortedTransaction(7, 101, 200)]), found)) == [b"a"]


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_stays_as_long_as_its_transaction_has_a_batch_even_one_that_goes_now(
    is_commit: bool,
) -> None:
    aborted = [] if is_commit else [AbortedTransaction(7, 100, 200)]
    by = cleaner({b"a": 500}, aborted=aborted, now_ms=HORIZON_MS + 9)
    assert cleaned(by, transactional((b"a", b"1"))) is None
    kept = by.clean(marker(is_commit=is_commit), is_last=False)
    assert kept is not None
    assert bytes(kept.data) == bytes(marker(is_commit=is_commit).view())


def test_a_marker_of_nothing_gets_a_horizon_and_goes_when_that_has_passed() -> None:
    first = cleaner()
    seen = cleaned(first, marker())
    assert seen is not None
    assert seen.delete_horizon_ms == first.take_tally().next_horizon_ms == HORIZON_MS
    assert list(seen.records()) == list(marker().records())
    second = cleaner(now_ms=HORIZON_MS - 1)
    assert cleaned(second, seen) is not None
    assert second.take_tally().next_horizon_ms == HORIZON_MS
    assert cleaned(cleaner(now_ms=HORIZON_MS), seen) is None
    last = cleaner(now_ms=HORIZON_MS)
    assert cleaned(last, seen, is_last=True) is not None
    assert last.take_tally().next_horizon_ms is None


def test_the_marker_that_is_all_a_live_producer_has_stays() -> None:
    producers = {7: LastBatches(5, -1)}
    for now_ms in (NOW_MS, HORIZON_MS + 9):
        left = cleaned(cleaner(now_ms=now_ms, producers=producers), marker(epoch=5))
        assert left is not None
        assert not left.has_delete_horizon
    assert cleaned(cleaner(producers=producers), marker(epoch=4)) is not None


def test_control_records_that_are_no_markers_stay() -> None:
    record = Record(100, NOW_MS, control_key(ControlRecordType.LEADER_CHANGE), b"\0" * 8)
    found = BatchView(bytes(build_batch([record], base_offset=100, is_control=True)))
    kept = cleaner(now_ms=HORIZON_MS).clean(found, is_last=False)
    assert kept is not None
    assert bytes(kept.data) == bytes(found.view())


def test_a_control_batch_that_was_emptied_goes_unless_it_is_the_last() -> None:
    emptied = BatchView(
        bytes(build_batch([], base_offset=100, last_offset_delta=0, is_control=True, is_transactional=True))
    )
    assert cleaned(cleaner(), emptied) is None
    assert cleaned(cleaner(), emptied, is_last=True) is not None


def test_it_counts_what_it_saw_and_kept() -> None:
    by = cleaner({b"a": 500})
    by.clean(batch((b"a", b"1"), (b"b", b"2"), (b"c", b"3")), is_last=False)
    tally = by.take_tally()
    assert (tally.records_seen, tally.records_kept) == (3, 2)
    assert by.take_tally() == (0, 0, None)
