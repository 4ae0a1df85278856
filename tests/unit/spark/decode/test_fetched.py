"""The Arrow kernel: the same rows, and the same damage, as the decoder that goes record by record."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.records.strategies import record_lists
from tests.unit.records.test_decoding import record_runs

from ottla.client.sync.range_batches import placed_batches
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import AbortedTransaction
from ottla.records.batch import CRC_POSITION, HEADER_BYTES, BatchView
from ottla.records.builder import build_batch
from ottla.records.compression import Compression
from ottla.records.control import EndTransactionMarker, build_marker
from ottla.records.corruption import CorruptRecord
from ottla.records.decoding import decode_columns
from ottla.records.header import CRC
from ottla.records.record import Record
from ottla.spark.decode.fetched import Decoder, Wanted

FAR = 1 << 40
LARGEST_MS = (2**63 - 1) // 1000


def rows(
    data: bytes | bytearray, aborted: Sequence[AbortedTransaction] | None = None, **wanted: Any
) -> list[dict[str, Any]]:
    """All rows of some batches; offsets, timestamps and headers as plain values."""
    raw = placed_batches(memoryview(data), wanted.pop("start", 0), wanted.pop("end", FAR), aborted)
    chosen = Wanted(**{"topic": "orders", "partition": 3, "include_headers": True, **wanted})
    batches = list(Decoder(chosen).decode(raw))
    found: list[dict[str, Any]] = []
    for batch in batches:
        assert batch.num_rows
        batch.validate(full=True)
        plain = batch.set_column(5, "timestamp", batch.column("timestamp").cast("int64"))
        found += plain.to_pylist()
    return found


def expected(records: Sequence[Record], timestamp_type: int = 0, timestamp: int | None = None) -> list[Any]:
    return [
        {
            "key": each.key,
            "value": each.value,
            "topic": "orders",
            "partition": 3,
            "offset": each.offset,
            "timestamp": (each.timestamp if timestamp is None else timestamp) * 1000,
            "timestampType": timestamp_type,
            "headers": [{"key": key, "value": value} for key, value in each.headers] or None,
        }
        for each in records
    ]


def fits(records: Sequence[Record]) -> bool:
    return all(abs(each.timestamp) <= LARGEST_MS for each in records)


def moved(records: Sequence[Record], by: int) -> list[Record]:
    return [each._replace(offset=each.offset + by) for each in records]


def sealed(batch: bytearray) -> bytearray:
    """With the checksum that the bytes have now."""
    CRC.pack_into(batch, CRC_POSITION, BatchView(batch).computed_crc())
    return batch


def complaint(data: bytes | bytearray, **wanted: Any) -> str:
    with pytest.raises(KafkaError) as raised:
        rows(data, **wanted)
    assert raised.value.code == ErrorCode.CORRUPT_MESSAGE
    return raised.value.message


@settings(deadline=None)
@given(record_lists(min_size=1).filter(fits), st.sampled_from(Compression))
def test_all_sorts_of_records_become_rows(records: list[Record], codec: Compression) -> None:
    assert rows(build_batch(records, compression=codec)) == expected(records)


@settings(max_examples=200, deadline=None)
@given(st.lists(record_runs(), min_size=1, max_size=4), st.data())
def test_many_batches_become_rows_in_their_order(batches: list[list[Record]], data: st.DataObject) -> None:
    base, everything, written = 0, list[Record](), bytearray()
    for records in batches:
        records = moved(records, base)
        codec = data.draw(
            st.sampled_from([Compression.NONE, Compression.NONE, Compression.ZSTD, Compression.GZIP])
        )
        written += build_batch(records, base_offset=base, compression=codec)
        everything += records
        base = records[-1].offset + 1
    most_rows = data.draw(st.sampled_from([1, 100, 10_000]))
    most_bytes = data.draw(st.sampled_from([64, 10_000, 1 << 20]))
    assert rows(written, most_rows=most_rows, most_bytes=most_bytes) == expected(everything)


@settings(deadline=None)
@given(record_runs(), st.data())
def test_a_range_is_exact(records: list[Record], data: st.DataObject) -> None:
    last = records[-1].offset
    start = data.draw(st.integers(0, last + 1))
    end = data.draw(st.integers(start, last + 10))
    inside = [each for each in records if start <= each.offset < end]
    assert rows(build_batch(records, base_offset=0), start=start, end=end) == expected(inside)


@settings(deadline=None)
@given(st.one_of(record_runs(), record_lists(min_size=1)), st.data())
def test_a_changed_byte_is_seen_as_the_plain_decoder_sees_it(
    records: list[Record], data: st.DataObject
) -> None:
    batch = build_batch(records)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(HEADER_BYTES, len(batch) - 1))
        near = [batch[place] ^ 1, batch[place] ^ 128, batch[place] + 2 & 255, 0, 1, 255]
        batch[place] = data.draw(st.sampled_from(near))
    agree(sealed(batch))


@settings(deadline=None)
@given(st.binary(max_size=60), st.integers(-2, 12), st.integers(-2, 300))
@example(b"", 0, -1)
@example(b"\0", 0, -1)
def test_random_bytes_are_seen_as_the_plain_decoder_sees_them(block: bytes, count: int, last: int) -> None:
    batch = build_batch([Record(0, 0, None, b"v")])[:HEADER_BYTES] + block
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[23:27] = last.to_bytes(4, "big", signed=True)
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    agree(sealed(batch))


def agree(batch: bytearray) -> None:
    """The kernel and the plain decoder see the same records, or the same damage."""
    damage, records = plainly(batch)
    if damage is not None:
        if BatchView(batch).last_offset >= 0:  # else it is not wanted
            assert complaint(batch) == f"orders-3 is damaged at offset 0: {damage}"
    elif fits(records):
        for row, record in zip(rows(batch), expected(records), strict=True):
            if record["headers"] and not all(each["key"].isprintable() for each in record["headers"]):
                row["headers"] = record["headers"]  # bytes that are no text are tested below
            assert row == record


def plainly(batch: bytearray) -> tuple[CorruptRecord | None, list[Record]]:
    try:
        columns = decode_columns(BatchView(batch).header, batch[HEADER_BYTES:])
    except CorruptRecord as damage:
        return damage, []
    return None, [Record(*row) for row in zip(*columns[:4], columns.headers or repeat(()), strict=False)]


def plain(count: int, base: int = 0, timestamp: int = 1_000) -> list[Record]:
    return [Record(base + at, timestamp, b"k%d" % at, b"v" * at) for at in range(count)]


def test_a_batch_stamped_by_the_broker_gives_its_time_to_every_row() -> None:
    records = [Record(0, 5, None, b"a"), Record(1, 90, None, b"b"), Record(2, 7, None, b"c")]
    batch = build_batch(records)
    batch[21:23] = (8).to_bytes(2, "big")
    batch[35:43] = (777).to_bytes(8, "big")
    by_producers = build_batch(moved(records, 3), base_offset=3)
    found = rows(sealed(batch) + by_producers)
    assert found == expected(records, 1, 777) + expected(moved(records, 3))


def test_control_batches_and_what_compaction_emptied_have_no_rows() -> None:
    marker = EndTransactionMarker(is_commit=True, coordinator_epoch=1)
    written = build_batch(plain(3))
    written += build_marker(marker, producer_id=7, producer_epoch=0, timestamp=1, base_offset=3)
    emptied = build_batch(plain(1, 4), base_offset=4)[:HEADER_BYTES]
    emptied[8:12] = (HEADER_BYTES - 12).to_bytes(4, "big")
    emptied[57:61] = bytes(4)
    written += sealed(emptied) + build_batch(plain(2, 5), base_offset=5)
    assert rows(written) == expected([*plain(3), *plain(2, 5)])


def test_an_aborted_transaction_is_hidden_from_readers_of_committed_records() -> None:
    def transaction(base: int, producer_id: int) -> bytearray:
        return build_batch(
            plain(2, base), base_offset=base, producer_id=producer_id, producer_epoch=0, is_transactional=True
        )

    def marker(base: int, producer_id: int, *, is_commit: bool) -> bytearray:
        ending = EndTransactionMarker(is_commit=is_commit, coordinator_epoch=1)
        return build_marker(ending, producer_id=producer_id, producer_epoch=0, timestamp=1, base_offset=base)

    written = transaction(0, 7) + transaction(2, 8) + marker(4, 7, is_commit=False)
    written += marker(5, 8, is_commit=True) + transaction(6, 7) + marker(8, 7, is_commit=True)
    aborted = [AbortedTransaction(producer_id=7, first_offset=0)]
    assert rows(written, aborted) == expected([*plain(2, 2), *plain(2, 6)])
    assert rows(written, aborted, start=3) == expected([*plain(2, 2)[1:], *plain(2, 6)])
    assert len(rows(written)) == 6


def test_a_wrong_checksum_names_topic_partition_and_offset() -> None:
    good, bad = build_batch(plain(2)), build_batch(plain(2, 2), base_offset=2)
    bad[-2] ^= 1
    text = complaint(good + bad)
    assert text.startswith("orders-3 is damaged at offset 2: the checksum says ")
    assert len(rows(good + bad, check_crcs=False)) == 4


def test_what_is_no_batch_names_the_offset_where_it_stands() -> None:
    text = complaint(build_batch(plain(2)) + bytearray(100))
    assert text == (
        "orders-3 is damaged at offset 2: magic is 0, not 2: no record batch starts here, or one of a format before v2"
    )


def test_a_damaged_compressed_block_names_the_offset() -> None:
    batch = build_batch(plain(200, 5), base_offset=5, compression=Compression.ZSTD)
    batch[HEADER_BYTES + 2] ^= 255
    assert complaint(sealed(batch)).startswith("orders-3 is damaged at offset 5: the zstd block is damaged")


def test_a_batch_that_was_cut_off_is_not_there() -> None:
    whole = build_batch(plain(2))
    assert rows(whole + build_batch(plain(2, 2), base_offset=2)[:-1]) == expected(plain(2))


def test_a_time_beyond_microseconds_is_said_so() -> None:
    text = complaint(build_batch([Record(0, LARGEST_MS + 1, None, b"v")]))
    assert text == (
        "orders-3 is damaged at offset 0: a timestamp does not fit into the 64 bits of Spark's microseconds"
    )
    for timestamp in (LARGEST_MS, -1, 0):
        records = [Record(0, timestamp, None, b"v"), Record(1, max(timestamp, 0), None, b"w")]
        assert rows(build_batch(records)) == expected(records)


def test_header_keys_that_are_no_text_become_text() -> None:
    records = [Record(0, 1, None, b"v", ((b"\xff\xfe".decode("utf-8", "surrogateescape"), b"1"),))]
    [row] = rows(build_batch(records))
    assert row["headers"] == [{"key": "\ufffd\ufffd", "value": b"1"}]


def test_without_headers_there_is_no_such_column() -> None:
    records = [Record(0, 1, None, b"v", (("h", None),))]
    [row] = rows(build_batch(records), include_headers=False)
    assert "headers" not in row
    assert row["value"] == b"v"


def test_batches_outside_a_time_are_left_out() -> None:
    written = bytearray()
    for at, timestamp in enumerate((100, 200, 300)):
        written += build_batch(plain(1, at, timestamp), base_offset=at)
    assert [row["offset"] for row in rows(written, since_ms=200)] == [1, 2]
    assert [row["offset"] for row in rows(written, until_ms=200)] == [
        0,
        1,
        2,
    ]  # a batch tells its newest, not its oldest
    stamped = bytearray(written)
    stamped[21:23] = (8).to_bytes(2, "big")
    assert [row["offset"] for row in rows(sealed(stamped), until_ms=50, end=1)] == []


def test_large_records_and_tiny_batches_come_whole() -> None:
    records = [Record(at, 5, b"k" * (at % 300), b"v" * (1 << at % 18)) for at in range(60)]
    one_by_one = bytearray().join(build_batch([each], base_offset=each.offset) for each in records)
    assert rows(one_by_one) == expected(records)
    for codec in Compression:
        assert rows(build_batch(records, compression=codec), most_bytes=100) == expected(records)
