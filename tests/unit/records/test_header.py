"""The batch header on its own."""

import pytest

from ottla.records.builder import build_batch
from ottla.records.corruption import CorruptRecord
from ottla.records.header import HEADER, HEADER_BYTES, BatchHeader, read_header
from ottla.records.record import Record

BATCH = bytes(build_batch([Record(0, 5, b"k", b"v")], producer_id=7, producer_epoch=2, base_sequence=11))


def test_every_field_is_read_from_its_place() -> None:
    fields = BatchHeader(9, 49, 4, 2, 0xFFFFFFFF, 0x71, 3, -5, 6, 1 << 62, -1, 8, 10)
    assert read_header(b"\x00" * 3 + HEADER.pack(*fields), 3) == fields


def test_the_records_need_not_be_there() -> None:
    header = read_header(BATCH[:HEADER_BYTES])
    assert (header.size_bytes, header.last_offset, header.producer_id) == (len(BATCH), 0, 7)


@pytest.mark.parametrize("size", range(HEADER_BYTES))
def test_a_header_that_is_cut_off_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptRecord, match=f"{size} bytes are left"):
        read_header(BATCH[:size])


def test_a_position_behind_the_buffer_is_corrupt() -> None:
    with pytest.raises(CorruptRecord, match="0 bytes are left"):
        read_header(BATCH, len(BATCH) + 100)


@pytest.mark.parametrize("magic", [0, 1, 3, -1])
def test_another_magic_is_corrupt(magic: int) -> None:
    damaged = bytearray(BATCH)
    damaged[16] = magic & 0xFF
    with pytest.raises(CorruptRecord, match=f"magic is {magic}"):
        read_header(damaged)


@pytest.mark.parametrize("length", [48, 0, -1, -(1 << 31)])
def test_a_length_without_room_for_the_header_is_corrupt(length: int) -> None:
    damaged = bytearray(BATCH)
    damaged[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptRecord, match=f"batch length {length}"):
        read_header(damaged)


def test_zeros_are_no_batch() -> None:
    with pytest.raises(CorruptRecord):
        read_header(bytes(1000))
