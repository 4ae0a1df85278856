"""Building batches: the same bytes as other clients make, and nothing that Kafka could not read (STO-3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.records.other_clients import (
    AiokafkaBatch,
    AiokafkaBuilder,
    KafkaPythonBatch,
    KafkaPythonBuilder,
    as_aiokafka_takes_it,
)
from tests.unit.records.strategies import record_lists

from ottla.records.batch import BatchView
from ottla.records.builder import Span, build_batch, seal
from ottla.records.compression import Compression
from ottla.records.record import Record


@given(record_lists(dense=True, min_size=1), st.booleans())
def test_kafka_python_makes_the_same_bytes(records: list[Record], is_transactional: bool) -> None:
    theirs = KafkaPythonBuilder(2, 0, is_transactional, 8, 1, 500, 1 << 30)
    for record in records:
        theirs.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    ours = build_batch(
        records,
        producer_id=8,
        producer_epoch=1,
        base_sequence=500,
        is_transactional=is_transactional,
        partition_leader_epoch=0,
    )
    assert ours == theirs.build()


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.SNAPPY, Compression.ZSTD])
@given(records=record_lists(dense=True, min_size=1))
def test_aiokafka_makes_the_same_bytes(codec: Compression, records: list[Record]) -> None:
    # Enough of one letter that compression pays: aiokafka leaves it away when it does not.
    records = [as_aiokafka_takes_it(record)._replace(value=b"z" * 900) for record in records]
    theirs = AiokafkaBuilder(2, codec, 0, -1, -1, -1, 1 << 30)
    for record in records:
        theirs.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    assert build_batch(records, compression=codec) == theirs.build()


@pytest.mark.parametrize("codec", list(Compression))
@given(records=record_lists(dense=True, min_size=1))
def test_aiokafka_reads_what_we_build(codec: Compression, records: list[Record]) -> None:
    records = [as_aiokafka_takes_it(record) for record in records]
    batch = AiokafkaBatch(build_batch(records, compression=codec))
    assert batch.validate_crc()
    seen = [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]
    assert seen == records


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
@given(records=record_lists(min_size=1))
def test_kafka_python_reads_what_we_build(codec: Compression, records: list[Record]) -> None:
    data = build_batch(records, compression=codec)
    batch = KafkaPythonBatch(bytes(data))
    assert batch.validate_crc()
    seen = [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]
    assert seen == records


def test_ten_thousand_records_keep_their_offsets() -> None:
    records = [Record(offset, offset, None, b"v") for offset in range(10_000)]
    batch = BatchView(build_batch(records))
    assert list(batch.records()) == records
    assert batch.last_offset_delta == 9_999


def test_bytes_of_any_kind_are_taken_as_values() -> None:
    values = (bytearray(b"one"), memoryview(b"two"))
    batch = build_batch(Record(at, 1, None, value) for at, value in enumerate(values))  # type: ignore[arg-type]
    assert [record.value for record in BatchView(batch).records()] == [b"one", b"two"]


@pytest.mark.parametrize("offsets", [[0, 0], [1, 0], [-1], [3, 2]])
def test_offsets_that_do_not_rise_are_refused(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="may not follow"):
        build_batch([Record(offset, 0, None, b"v") for offset in offsets])


def test_a_last_offset_before_the_last_record_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot end at offset delta 3"):
        build_batch([Record(4, 0, None, b"v")], last_offset_delta=3)


def test_no_records_need_a_last_offset() -> None:
    with pytest.raises(ValueError, match="cannot end"):
        build_batch([])


def test_a_number_without_room_in_the_header_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit into the batch header"):
        build_batch([Record(0, 0, None, b"v")], producer_epoch=1 << 15)
    with pytest.raises(ValueError, match="does not fit into the batch header"):
        build_batch([Record(0, 1 << 63, None, b"v")])


def test_a_delete_horizon_is_the_base_timestamp() -> None:
    batch = BatchView(build_batch([Record(0, 5, b"k", None)], delete_horizon_ms=9))
    assert (batch.header.base_timestamp, next(batch.records()).timestamp) == (9, 5)
    with pytest.raises(ValueError, match="delete horizon 9 is not the base timestamp 5"):
        seal([b"record"], Span(1, 0, 5, 5), delete_horizon_ms=9)
