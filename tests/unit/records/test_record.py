"""Decoding records: round trips, and what happens to bytes that are not records."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.records.strategies import MalformedError, plain_decode, record_lists

from ottla.records.batch import HEADER_BYTES, BatchView
from ottla.records.builder import build_batch
from ottla.records.corruption import CorruptRecord
from ottla.records.header import HEADER, BatchHeader, read_header
from ottla.records.record import Record, read_records
from ottla.records.varint import varint


def decode(block: bytes, count: int, last_offset_delta: int, base_timestamp: int = 0) -> list[Record]:
    header = BatchHeader(0, 0, 0, 2, 0, 0, last_offset_delta, base_timestamp, 0, -1, -1, -1, count)
    return list(read_records(header, block))


def agree(block: bytes, count: int, last_offset_delta: int) -> None:
    """The decoder and the plain one see the same records, or both see damage."""
    try:
        expected = plain_decode(block, count, last_offset_delta, 0)
    except MalformedError:
        with pytest.raises(CorruptRecord):
            decode(block, count, last_offset_delta)
    else:
        assert decode(block, count, last_offset_delta) == expected


@given(record_lists(min_size=1))
def test_records_come_back_as_they_were_put_in(records: list[Record]) -> None:
    assert list(BatchView(build_batch(records)).records()) == records


@given(record_lists(min_size=1), st.data())
def test_a_changed_byte_is_seen_as_the_plain_decoder_sees_it(
    records: list[Record], data: st.DataObject
) -> None:
    batch = build_batch(records)
    block = batch[HEADER_BYTES:]
    for _ in range(data.draw(st.integers(1, 3))):
        block[data.draw(st.integers(0, len(block) - 1))] = data.draw(st.integers(0, 255))
    header = read_header(batch)
    agree(bytes(block), header.records_count, header.last_offset_delta)


@given(record_lists(min_size=1), st.data())
def test_a_cut_block_is_corrupt(records: list[Record], data: st.DataObject) -> None:
    batch = build_batch(records)
    block = bytes(batch[HEADER_BYTES:])
    header = read_header(batch)
    cut = block[: data.draw(st.integers(0, len(block) - 1))]
    with pytest.raises(CorruptRecord):
        decode(cut, header.records_count, header.last_offset_delta)


@given(st.binary(max_size=60), st.integers(-2, 12), st.integers(-2, 300))
@example(varint(6) + b"\0\0\0\1\1\0" * 2, 2, 1)
def test_random_bytes_are_seen_as_the_plain_decoder_sees_them(block: bytes, count: int, last: int) -> None:
    if count < 0 or count > last + 1:
        with pytest.raises(CorruptRecord):
            decode(block, count, last)
    else:
        agree(block, count, last)


def test_every_length_in_one_or_two_bytes_is_decoded() -> None:
    for size in [*range(200), *range(8100, 8300)]:
        for key in (None, b"", b"k" * 63, b"k" * 64):
            records = [Record(0, 0, key, b"v" * size), Record(1, 64, key, b"w", (("h", None),))]
            assert list(BatchView(build_batch(records)).records()) == records


def test_more_records_than_bytes_are_refused_without_making_them() -> None:
    with pytest.raises(CorruptRecord):
        decode(b"\x0c\0\0\0\1\1\0", (1 << 31) - 1, (1 << 31) - 1)


def test_more_headers_than_bytes_are_refused_without_making_them() -> None:
    body = b"\0\0\0\1\1" + varint((1 << 31) - 1)
    with pytest.raises(CorruptRecord, match="headers do not fit"):
        decode(varint(len(body)) + body, 1, 0)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"\0\0\0\1\1\0\0", "ends at byte"),
        (b"\0\0\0\1\1", "ends inside a record, at byte 6"),
        (b"\0\0\0\3\1\0", "a field of -2 bytes"),
        (b"\0\0\0\1\x7e\0", "a field of 63 bytes"),
        (b"\0\0\0\1\1\1", "-1 headers"),
        (b"\0\0\0\1\1\2\1\1", "without a key"),
        (b"\0\0\1\1\1\0", "offset delta -1"),
        (b"\0\0\4\1\1\0", "offset delta 2"),
    ],
)
def test_damage_is_named(body: bytes, complaint: str) -> None:
    with pytest.raises(CorruptRecord, match=complaint):
        decode(varint(len(body)) + body, 1, 1)


def test_bytes_behind_the_records_are_corrupt() -> None:
    with pytest.raises(CorruptRecord, match="3 bytes are left over"):
        decode(b"\x0c\0\0\0\1\1\0" + b"abc", 1, 0)


def test_records_before_the_damage_are_given() -> None:
    batch = build_batch([Record(0, 0, None, b"whole"), Record(1, 0, None, b"damaged")])
    batch[-1] = 9
    records = BatchView(batch).records()
    assert next(records).value == b"whole"
    with pytest.raises(CorruptRecord):
        next(records)


def test_a_header_key_that_is_no_text_survives_a_round_trip() -> None:
    body = b"\0\0\0\1\1\2\4\xff\xfe\2v"
    block = varint(len(body)) + body
    records = decode(block, 1, 0)
    assert records[0].headers == (("\udcff\udcfe", b"v"),)
    assert bytes(build_batch(records)[HEADER_BYTES:]) == block


def test_a_batch_that_the_broker_stamped_gives_its_time_to_every_record() -> None:
    batch = build_batch([Record(0, 5, None, b"a"), Record(1, 900, None, b"b")])
    fields = read_header(batch)._replace(attributes=0x08, max_timestamp=777)
    HEADER.pack_into(batch, 0, *fields)
    assert [record.timestamp for record in BatchView(batch).records()] == [777, 777]


def test_timestamps_may_go_back() -> None:
    times = [100, 99, -1, (1 << 62), 0]
    batch = build_batch([Record(offset, time, None, b"v") for offset, time in enumerate(times)])
    assert [record.timestamp for record in BatchView(batch).records()] == times
    assert BatchView(batch).base_timestamp == 100
    assert BatchView(batch).max_timestamp == 1 << 62
