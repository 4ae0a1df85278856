from __future__ import annotations

import pytest

from ottla.client.fetching.plan.partition_reader import ConsumerRecord, PartitionReader
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.messages.fetch import PartitionData
from ottla.records.builder import build_batch
from ottla.records.compression import Compression
from ottla.records.control import EndTransactionMarker, build_marker
from ottla.records.record import Record

KEY = TopicPartition("t", 3)


def batch(*offsets: int, compression: Compression = Compression.NONE, epoch: int = 7) -> bytes:
    records = [Record(offset, 1_000 + offset, b"k", b"v%d" % offset, (("h", b"x"),)) for offset in offsets]
    return bytes(
        build_batch(records, base_offset=offsets[0], compression=compression, partition_leader_epoch=epoch)
    )


def marker(offset: int) -> bytes:
    made = build_marker(
        EndTransactionMarker(True, 0), producer_id=1, producer_epoch=0, timestamp=5, base_offset=offset
    )
    return bytes(made)


def reader_at(offset: int, *batches: bytes) -> PartitionReader:
    reader = PartitionReader(KEY)
    reader.seek(offset)
    fetch(reader, *batches)
    return reader


def fetch(reader: PartitionReader, *batches: bytes) -> None:
    reader.fetched(
        PartitionData(high_watermark=99, log_start_offset=2, records=memoryview(b"".join(batches)))
    )


def offsets(records: list[ConsumerRecord]) -> list[int]:
    return [record.offset for record in records]


def test_records_are_handed_out_with_all_that_is_known_of_them() -> None:
    reader = reader_at(0, batch(0))
    assert reader.take(9) == [ConsumerRecord("t", 3, 0, 1_000, b"k", b"v0", (("h", b"x"),))]
    assert (reader.high_watermark, reader.log_start_offset) == (99, 2)


@pytest.mark.parametrize("compression", Compression)
def test_every_compression_is_read(compression: Compression) -> None:
    assert offsets(reader_at(0, batch(0, 1, 2, compression=compression)).take(9)) == [0, 1, 2]


def test_the_position_moves_with_what_is_handed_out_and_fetching_runs_ahead() -> None:
    reader = reader_at(0, batch(0, 1, 2), batch(3, 4))
    assert (reader.position, reader.fetch_offset) == (0, 5)
    assert offsets(reader.take(2)) == [0, 1]
    assert (reader.position, reader.leader_epoch) == (2, 7)
    assert offsets(reader.take(2)) == [2, 3]
    assert not reader.is_drained
    assert offsets(reader.take(9)) == [4]
    assert (reader.position, reader.is_drained, reader.buffered_bytes) == (5, True, 0)
    assert reader.take(9) == []


def test_a_batch_that_begins_before_the_position_is_cut() -> None:
    assert offsets(reader_at(2, batch(0, 1, 2, 3)).take(9)) == [2, 3]


def test_a_batch_that_ends_before_the_position_is_left_out() -> None:
    reader = reader_at(5, batch(0, 1), batch(5))
    assert offsets(reader.take(9)) == [5]


def test_gaps_of_compaction_are_passed_over() -> None:
    reader = reader_at(0, batch(0, 4), batch(9))
    assert offsets(reader.take(9)) == [0, 4, 9]
    assert reader.position == 10


def test_control_batches_are_no_records_but_move_the_position() -> None:
    reader = reader_at(0, batch(0), marker(1), batch(2), marker(3))
    assert offsets(reader.take(9)) == [0, 2]
    assert reader.position == 4
    fetch(reader, marker(4))
    assert reader.take(9) == []
    assert reader.position == 5


def test_a_batch_that_is_cut_off_at_the_end_waits_for_the_next_fetch() -> None:
    whole = batch(1, 2)
    reader = reader_at(0, batch(0), whole[:-1])
    assert offsets(reader.take(9)) == [0]
    assert reader.fetch_offset == 1
    fetch(reader, whole)
    assert offsets(reader.take(9)) == [1, 2]


def test_a_seek_forgets_what_was_buffered() -> None:
    reader = reader_at(0, batch(0, 1, 2), batch(3))
    reader.take(1)
    reader.seek(7)
    assert (reader.position, reader.fetch_offset, reader.buffered_bytes) == (7, 7, 0)
    assert reader.take(9) == []
    reader.forget_position()
    assert (reader.position, reader.needs_position) == (None, True)


def damaged(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def test_a_wrong_checksum_is_told_after_the_records_before_it_and_again_until_somebody_seeks() -> None:
    reader = reader_at(0, batch(0, 1), damaged(batch(2, 3)), batch(4))
    assert offsets(reader.take(9)) == [0, 1]
    for _ in range(2):
        with pytest.raises(KafkaError, match="t-3 is damaged at offset 2: the checksum says") as caught:
            reader.take(9)
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
        assert (reader.position, reader.fetch_offset) == (2, 2)
        fetch(reader, damaged(batch(2, 3)))
    reader.seek(4)
    fetch(reader, batch(4))
    assert offsets(reader.take(9)) == [4]


def test_bytes_that_are_no_batch_are_an_error_behind_what_came_before() -> None:
    reader = reader_at(0, batch(0), bytes(80))
    assert offsets(reader.take(9)) == [0]
    with pytest.raises(KafkaError, match="t-3 is damaged at offset 1: magic is 0"):
        reader.take(9)


def test_a_reader_out_of_range_hands_out_what_it_has_before_it_asks_for_a_position() -> None:
    reader = reader_at(0, batch(0))
    reader.is_out_of_range = True
    assert not reader.needs_position
    reader.take(9)
    assert reader.needs_position
    reader.seek(5)
    assert not reader.needs_position
