"""Finding records without decoding them says the same as decoding them, or CorruptRecord."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.records.strategies import MalformedError, plain_decode, record_lists

from ottla.log.compaction.plan.record_spans import Block, open_block, read_spans, timestamp_delta_at
from ottla.records.batch import HEADER_BYTES, BatchView, CorruptRecord
from ottla.records.builder import build_batch
from ottla.records.compression import Compression
from ottla.records.record import Record


@settings(max_examples=80, deadline=None)
@given(record_lists(), st.sampled_from(Compression), st.integers(0, 100))
def test_the_spans_of_a_batch_are_its_records(
    records: list[Record], codec: Compression, position: int
) -> None:
    data = bytes(position) + bytes(build_batch(records, compression=codec, last_offset_delta=100_000))
    batch = BatchView(data + b"what comes behind", position)
    block = open_block(batch)
    found = [
        (delta, key, has_value, batch.base_timestamp + timestamp_delta_at(block.data, start))
        for start, _, delta, key, has_value in read_spans(block)
    ]
    assert found == [
        (record.offset, record.key, record.value is not None, record.timestamp) for record in records
    ]
    ends = [end for _, end, *_ in read_spans(block)]
    assert [start for start, *_ in read_spans(block)] == [block.start, *ends][: len(records)]


@settings(max_examples=120, deadline=None)
@given(record_lists(min_size=1), st.integers(0, 2**32))
def test_damage_is_found_or_steps_over_nothing_that_a_decoder_would_see(
    records: list[Record], seed: int
) -> None:
    random = Random(seed)
    data = bytearray(build_batch(records, last_offset_delta=100_000))
    block = data[HEADER_BYTES:]
    for _ in range(random.randint(1, 3)):
        block[random.randrange(len(block))] = random.choice((0, 1, 127, 128, 255, random.randrange(256)))
    if random.random() < 0.3:
        del block[random.randrange(len(block)) :]
    count, base_timestamp = len(records), BatchView(data).base_timestamp
    try:
        found = list(read_spans(Block(bytes(block), 0, len(block), count, 100_000)))
    except CorruptRecord:
        with pytest.raises(MalformedError):
            plain_decode(bytes(block), count, 100_000, base_timestamp)
        return
    try:
        decoded = plain_decode(bytes(block), count, 100_000, base_timestamp)
    except MalformedError:
        return
    assert [(delta, key, has_value) for _, _, delta, key, has_value in found] == [
        (record.offset, record.key, record.value is not None) for record in decoded
    ]


@pytest.mark.parametrize("last_offset_delta", [0, 1])
def test_a_record_outside_its_batch_is_damage(last_offset_delta: int) -> None:
    data = bytes(build_batch([Record(0, 0, b"k", b"v"), Record(2, 0, b"k", b"v")])[HEADER_BYTES:])
    with pytest.raises(CorruptRecord):
        list(read_spans(Block(data, 0, len(data), 2, last_offset_delta)))


def test_an_emptied_batch_has_no_spans() -> None:
    emptied = bytes(build_batch([], last_offset_delta=4, compression=Compression.LZ4))
    assert list(read_spans(open_block(BatchView(emptied)))) == []
