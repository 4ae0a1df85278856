"""Decoding whole batches into columns: the same records, and the same damage, as one by one; in Python, and by the
compiled loop where this installation has it.
"""

from __future__ import annotations

import gc
import sys
from itertools import repeat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.records.strategies import MalformedError, plain_decode, record_lists

from ottla.records.batch import HEADER_BYTES, BatchView
from ottla.records.builder import build_batch
from ottla.records.compiled import Take, compiled_take
from ottla.records.corruption import CorruptRecord
from ottla.records.decoding import ColumnsDecoder, RecordColumns, decodable
from ottla.records.decoding import decode_columns as decode_columns_by
from ottla.records.header import HEADER, BatchHeader, read_header
from ottla.records.record import Record
from ottla.records.varint import varint

LOOPS: list[Take | None] = [None] if compiled_take is None else [None, compiled_take]


def decode_columns(header: BatchHeader, block: bytes | memoryview) -> RecordColumns:
    """In every way there is, which have to agree."""
    outcomes: list[RecordColumns | CorruptRecord] = []
    for take in LOOPS:
        try:
            outcomes.append(decode_columns_by(header, block, take))
        except CorruptRecord as damage:
            outcomes.append(damage)
    first = outcomes[0]
    if isinstance(first, CorruptRecord):
        assert all(isinstance(each, CorruptRecord) for each in outcomes), outcomes
        raise first
    assert all(each == first for each in outcomes), outcomes
    return first


def rows(columns: RecordColumns) -> list[Record]:
    return [Record(*row) for row in zip(*columns[:4], columns.headers or repeat(()), strict=False)]


def decode(block: bytes, count: int, last_offset_delta: int) -> list[Record]:
    return rows(
        decode_columns(
            BatchHeader(0, 0, 0, 2, 0, 0, last_offset_delta, 0, 0, -1, -1, -1, count), memoryview(block)
        )
    )


def agree(block: bytes, count: int, last_offset_delta: int) -> None:
    """The columns and the plain decoder see the same records, or both see damage."""
    try:
        expected = plain_decode(block, count, last_offset_delta, 0)
    except MalformedError:
        with pytest.raises(CorruptRecord):
            decode(block, count, last_offset_delta)
    else:
        assert decode(block, count, last_offset_delta) == expected


def decoded(batch: bytearray) -> list[Record]:
    return rows(decode_columns(read_header(batch), memoryview(batch)[HEADER_BYTES:]))


@st.composite
def record_runs(draw: st.DrawFn) -> list[Record]:
    """Several runs of records of the same size, with odd ones and gaps between them."""
    records: list[Record] = []
    offset = draw(st.sampled_from([0, 0, 50, 8150, 16_300]))
    timestamp = draw(st.integers(0, 1_000))
    for _ in range(draw(st.integers(1, 4))):
        key = draw(st.none() | st.sampled_from([b"", b"k", b"k" * 63, b"k" * 64]))
        value = draw(st.none() | st.sampled_from([b"", b"v", b"v" * 56, b"v" * 100, b"v" * 9_000]))
        headers = draw(st.sampled_from([(), (), (("h", b"1"),)]))
        step = draw(st.sampled_from([0, 0, 1, 30, 5_000]))
        for _ in range(draw(st.sampled_from([1, 7, 8, 9, 70, 200]))):
            records.append(Record(offset, timestamp, key, value, headers))
            offset += 1
            timestamp += step
        offset += draw(st.sampled_from([0, 0, 1, 100, 9_000]))
        timestamp += draw(st.sampled_from([0, 1, -300, 70]))
    return records


@given(record_lists(min_size=1))
def test_all_sorts_of_records_come_back_as_they_were_put_in(records: list[Record]) -> None:
    assert decoded(build_batch(records)) == records


@settings(max_examples=200, deadline=None)
@given(record_runs())
def test_runs_come_back_as_they_were_put_in(records: list[Record]) -> None:
    assert decoded(build_batch(records)) == records


@settings(deadline=None)
@given(record_runs(), st.data())
def test_a_changed_byte_in_a_run_is_seen_as_the_plain_decoder_sees_it(
    records: list[Record], data: st.DataObject
) -> None:
    batch = build_batch(records)
    block = batch[HEADER_BYTES:]
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(block) - 1))
        near = [block[place] ^ 1, block[place] ^ 128, block[place] + 2 & 255, 0, 1, 255]
        block[place] = data.draw(st.sampled_from(near))
    header = read_header(batch)
    agree(bytes(block), header.records_count, header.last_offset_delta)


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


@settings(deadline=None)
@given(record_runs(), st.data())
def test_a_cut_block_is_corrupt(records: list[Record], data: st.DataObject) -> None:
    batch = build_batch(records)
    block = bytes(batch[HEADER_BYTES:])
    header = read_header(batch)
    cut = block[: data.draw(st.integers(0, len(block) - 1))]
    with pytest.raises(CorruptRecord):
        decode(cut, header.records_count, header.last_offset_delta)


@given(st.binary(max_size=60), st.integers(-2, 12), st.integers(-2, 300))
def test_random_bytes_are_seen_as_the_plain_decoder_sees_them(block: bytes, count: int, last: int) -> None:
    if count < 0 or count > last + 1:
        with pytest.raises(CorruptRecord):
            decode(block, count, last)
    else:
        agree(block, count, last)


@settings(deadline=None)
@given(st.lists(record_runs() | record_lists(min_size=1), min_size=1, max_size=4), st.booleans())
def test_batches_one_behind_the_other_become_the_same_columns(
    batches: list[list[Record]], in_one_place: bool
) -> None:
    base, expected, log = 5, list[Record](), bytearray()
    for records in batches:
        shifted = [record._replace(offset=record.offset + base) for record in records]
        log += build_batch(shifted, base_offset=base)
        expected += shifted
        base = shifted[-1].offset + 1 + len(records) % 2
    source = decodable(log, 1 << 30 if in_one_place else 1)
    for take in LOOPS:
        decoder, position = ColumnsDecoder(take), 0
        while position < len(log):
            header = read_header(log, position)
            position += header.size_bytes
            decoder.add(header, source, position - header.size_bytes + HEADER_BYTES, position)
        assert len(decoder) == len(expected)
        assert rows(decoder.columns()) == expected


@pytest.mark.parametrize("take", LOOPS)
def test_a_damaged_batch_leaves_no_trace(take: Take | None) -> None:
    whole = build_batch([Record(0, 0, b"k", b"v", (("h", b"1"),))])
    damaged = build_batch([Record(3, 0, b"k", b"v", (("h", b"1"),)), Record(7, 0, None, b"w")], base_offset=1)
    damaged[-1] = 9
    decoder = ColumnsDecoder(take)
    for batch in (whole, damaged, whole):
        header, block = read_header(batch), memoryview(batch)[HEADER_BYTES:]
        if batch is damaged:
            with pytest.raises(CorruptRecord):
                decoder.add(header, decodable(block, 2), 0, len(block))
        else:
            decoder.add(header._replace(base_offset=len(decoder) * 10), decodable(block, 1), 0, len(block))
    assert [record.offset for record in rows(decoder.columns())] == [0, 10]


def test_offset_deltas_of_every_width_are_one_range() -> None:
    records = [Record(offset, offset // 100, None, b"value") for offset in range(20_000)]
    columns = decode_columns(read_header(batch := build_batch(records)), memoryview(batch)[HEADER_BYTES:])
    assert columns.offsets == range(20_000)
    assert columns.headers is None
    assert list(columns.timestamps) == [record.timestamp for record in records]


def test_a_batch_that_the_broker_stamped_gives_its_time_to_every_record() -> None:
    for count in (2, 20):
        batch = build_batch([Record(offset, offset * 3, None, b"a") for offset in range(count)])
        fields = read_header(batch)._replace(attributes=0x08, max_timestamp=777)
        HEADER.pack_into(batch, 0, *fields)
        assert [record.timestamp for record in decoded(batch)] == [777] * count


def test_a_batch_that_compaction_emptied_has_no_records() -> None:
    header = BatchHeader(5, 49, 0, 2, 0, 0, 9, 0, 0, -1, -1, -1, 0)
    assert decode_columns(header, b"") == RecordColumns(range(5, 5), [], [], [], None)


def test_more_records_than_bytes_are_refused_without_making_them() -> None:
    with pytest.raises(CorruptRecord):
        decode(b"\x0c\0\0\0\1\1\0", (1 << 31) - 1, (1 << 31) - 1)


@pytest.mark.parametrize("count", [1, 30])
@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"\0\0\0\1\1\0\0", "ends at byte|where 1 is next"),
        (b"\0\0\0\3\1\0", "a field of -2 bytes"),
        (b"\0\0\0\1\x7e\0", "ends inside a record|a field of 63 bytes|ends at byte"),
        (b"\0\0\0\1\1\1", "-1 headers"),
        (b"\0\0\1\1\1\0", "offset delta -1"),
    ],
)
def test_damage_is_named(count: int, body: bytes, complaint: str) -> None:
    with pytest.raises(CorruptRecord, match=complaint):
        decode((varint(len(body)) + body) * count, count, count)


def test_columns_and_records_agree_about_a_real_batch() -> None:
    records = [Record(n, 1_000 + n, b"k%d" % (n % 7), b"v" * (n % 90)) for n in range(3_000)]
    batch = build_batch(records)
    assert decoded(batch) == list(BatchView(batch).records()) == records


@pytest.mark.parametrize("take", LOOPS)
def test_damaged_records_leave_no_memory_behind(take: Take | None) -> None:
    """Each record is cut short at every place: whatever was read of it is given back."""
    batch = build_batch(
        [Record(0, 0, b"key" * 20, b"value" * 20, (("name" * 9, b"h" * 50), ("other", None)))]
    )
    header, block = read_header(batch), bytes(batch[HEADER_BYTES:])

    def decode_every_cut() -> None:
        for end in range(len(block)):
            with pytest.raises(CorruptRecord):
                decode_columns_by(header, block[:end], take)

    decode_every_cut()
    gc.collect()
    before = len(gc.get_objects()), sys.getallocatedblocks()
    for _ in range(5):
        decode_every_cut()
    gc.collect()
    assert len(gc.get_objects()) - before[0] < 100
    assert sys.getallocatedblocks() - before[1] < 500


def test_the_compiled_loop_refuses_places_outside_of_the_block() -> None:
    for take in LOOPS[1:]:
        assert take is not None
        for position, end in ((-1, 3), (3, 2), (0, 11)):
            with pytest.raises(ValueError, match="the records are not within the block"):
                take(bytes(10), position, end, 1, 0, 0, 0, True, 0, [], [], [], {}, [])
        with pytest.raises(TypeError):
            take("text", 0, 1, 1, 0, 0, 0, True, 0, [], [], [], {}, [])  # type: ignore[arg-type]


def test_numbers_that_only_python_can_add_are_added_by_python() -> None:
    far = 1 << 62
    block = varint(6) + b"\0" + varint(5) + varint(0) + varint(-1) + varint(-1) + b"\0"
    header = BatchHeader(0, 0, 0, 2, 0, 0, 0, far, far, -1, -1, -1, 1)
    assert decode_columns(header, block).timestamps == [far + 5]
