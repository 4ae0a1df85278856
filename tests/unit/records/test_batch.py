"""Batches as views: fields, walks, damage, and batches that other clients built (STO-3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.records.other_clients import AiokafkaBuilder, KafkaPythonBuilder, as_aiokafka_takes_it
from tests.unit.records.strategies import record_lists

from ottla.records.batch import (
    HEADER_BYTES,
    BatchView,
    CorruptRecord,
    TimestampType,
    iter_batches,
    read_header,
)
from ottla.records.builder import build_batch
from ottla.records.compression import Compression
from ottla.records.record import Record

RECORDS = [Record(10, 5, b"k", b"v", (("h", b"1"),)), Record(11, 9, None, None), Record(14, 7, b"", b"")]
CODECS = st.sampled_from(list(Compression))


def test_a_view_tells_the_header_and_what_follows_from_it() -> None:
    batch = BatchView(
        build_batch(
            RECORDS,
            base_offset=10,
            partition_leader_epoch=3,
            producer_id=1 << 40,
            producer_epoch=6,
            base_sequence=77,
            is_transactional=True,
            compression=Compression.ZSTD,
        )
    )
    assert (batch.base_offset, batch.last_offset, batch.next_offset, batch.last_offset_delta) == (
        10,
        14,
        15,
        4,
    )
    assert (batch.base_timestamp, batch.max_timestamp) == (5, 9)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (1 << 40, 6, 77)
    assert (batch.partition_leader_epoch, batch.magic, batch.records_count) == (3, 2, 3)
    assert (batch.compression, batch.timestamp_type) == (Compression.ZSTD, TimestampType.CREATE_TIME)
    assert (batch.is_transactional, batch.is_control, batch.has_delete_horizon) == (True, False, False)
    assert batch.size_bytes == batch.batch_length + 12 == len(batch.view())
    assert batch.crc == batch.computed_crc()
    assert batch.delete_horizon_ms is None
    assert "offsets 10..14" in repr(batch)


def test_a_batch_is_read_where_it_lies() -> None:
    data = b"before" + build_batch(RECORDS, base_offset=10) + b"behind"
    for buffer in (data, bytearray(data), memoryview(data)):
        batch = BatchView(buffer, 6)
        assert batch.crc_is_valid()
        assert list(batch.records()) == RECORDS


def test_offset_and_epoch_may_be_patched_without_touching_the_checksum() -> None:
    data = build_batch(RECORDS, base_offset=10)
    data[0:8] = (5000).to_bytes(8, "big")
    data[12:16] = (9).to_bytes(4, "big")
    batch = BatchView(data)
    assert batch.crc_is_valid()
    assert [record.offset for record in batch.records()] == [5000, 5001, 5004]


@given(record_lists(min_size=1), st.data())
def test_a_changed_byte_is_noticed_by_the_checksum(records: list[Record], data: st.DataObject) -> None:
    batch = build_batch(records)
    place = data.draw(st.integers(17, len(batch) - 1))
    batch[place] ^= data.draw(st.integers(1, 255))
    assert not BatchView(batch).crc_is_valid()


@given(record_lists(min_size=1), CODECS, st.data())
def test_a_changed_byte_ends_in_records_or_in_corrupt(
    records: list[Record], codec: Compression, data: st.DataObject
) -> None:
    batch = build_batch(records, compression=codec)
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    try:
        for view in iter_batches(batch):
            for record in view.records(limit_bytes=1 << 20):
                assert isinstance(record, Record)
    except CorruptRecord:
        pass


@given(record_lists(min_size=1), st.data())
def test_a_cut_batch_is_corrupt(records: list[Record], data: st.DataObject) -> None:
    batch = build_batch(records)
    size = data.draw(st.integers(0, len(batch) - 1))
    with pytest.raises(CorruptRecord):
        BatchView(batch[:size])


def test_a_batch_that_claims_more_than_there_is_says_so() -> None:
    batch = build_batch(RECORDS, base_offset=10)
    with pytest.raises(CorruptRecord, match=f"claims {len(batch)} bytes and {len(batch) - 1} are there"):
        BatchView(batch[:-1])


def test_a_codec_that_does_not_exist_is_corrupt_when_asked_for() -> None:
    batch = build_batch(RECORDS, base_offset=10)
    batch[22] |= 5
    with pytest.raises(CorruptRecord, match="codec 5"):
        BatchView(batch).records()


def test_batches_are_walked_one_by_one() -> None:
    buffer = b"".join(build_batch([Record(n, n, None, b"v" * n)], base_offset=n) for n in range(5))
    assert [batch.base_offset for batch in iter_batches(buffer)] == [0, 1, 2, 3, 4]
    assert list(iter_batches(b"")) == []


@pytest.mark.parametrize("rest", [1, 11, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 3])
def test_a_partial_batch_at_the_end_is_corrupt_unless_it_is_allowed(rest: int) -> None:
    batch = build_batch(RECORDS, base_offset=10)
    buffer = batch + batch[:rest]
    assert [view.position for view in iter_batches(buffer, allow_partial_end=True)] == [0]
    with pytest.raises(CorruptRecord):
        list(iter_batches(buffer))


def test_garbage_is_corrupt_even_where_a_partial_batch_is_allowed() -> None:
    with pytest.raises(CorruptRecord, match="magic"):
        list(iter_batches(bytes(100), allow_partial_end=True))


def test_a_batch_that_compaction_emptied_keeps_its_offsets() -> None:
    data = build_batch(
        [], base_offset=50, last_offset_delta=9, max_timestamp=123, compression=Compression.GZIP
    )
    batch = BatchView(data)
    assert (batch.records_count, batch.last_offset, batch.base_timestamp, batch.max_timestamp) == (
        0,
        59,
        -1,
        123,
    )
    assert batch.compression is Compression.NONE
    assert batch.crc_is_valid()
    assert list(batch.records()) == []


def test_an_empty_block_under_a_codec_is_no_damage() -> None:
    data = build_batch([], base_offset=50, last_offset_delta=9)
    data[22] |= Compression.LZ4
    assert list(BatchView(data).records()) == []


def test_a_delete_horizon_is_told_and_leaves_timestamps_alone() -> None:
    tombstones = [Record(0, 100, b"a", None), Record(3, 200, b"b", None)]
    batch = BatchView(build_batch(tombstones, delete_horizon_ms=90_000))
    assert (batch.has_delete_horizon, batch.delete_horizon_ms, batch.base_timestamp) == (True, 90_000, 90_000)
    assert list(batch.records()) == tombstones


def test_append_time_is_told() -> None:
    data = build_batch([Record(0, 44, None, b"v")], timestamp_type=TimestampType.LOG_APPEND_TIME)
    batch = BatchView(data)
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp for record in batch.records()] == [44]


@pytest.mark.parametrize("codec", list(Compression))
@given(records=record_lists(dense=True, min_size=1))
def test_batches_built_by_aiokafka_are_read(codec: Compression, records: list[Record]) -> None:
    records = [as_aiokafka_takes_it(record) for record in records]
    builder = AiokafkaBuilder(2, codec, 0, 99, 3, 12, 1 << 30)
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    batch = BatchView(builder.build())
    assert batch.crc_is_valid()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (99, 3, 12)
    assert list(batch.records()) == records


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
@given(records=record_lists(dense=True, min_size=1))
def test_batches_built_by_kafka_python_are_read(codec: Compression, records: list[Record]) -> None:
    builder = KafkaPythonBuilder(2, codec, True, 99, 3, 12, 1 << 30)
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    batch = BatchView(builder.build())
    assert batch.crc_is_valid()
    assert batch.is_transactional
    assert list(batch.records()) == records


def test_a_header_is_read_without_a_view() -> None:
    assert read_header(build_batch(RECORDS, base_offset=10)).records_count == 3
