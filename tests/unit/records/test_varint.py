"""Zig-zag varints at the edges of their lengths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records.corruption import CorruptRecord
from ottla.records.varint import read_varint, varint

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (8191, "fe7f"),
        (-8192, "ff7f"),
        (8192, "808001"),
        ((1 << 31) - 1, "feffffff0f"),
        (-(1 << 31), "ffffffff0f"),
        ((1 << 63) - 1, "feffffffffffffffff01"),
        (-(1 << 63), "ffffffffffffffffff01"),
    ],
)
def test_the_edges_of_every_length_are_written_and_read(number: int, written: str) -> None:
    assert varint(number).hex() == written
    assert read_varint(bytes.fromhex(written), 0) == (number, len(written) // 2)


@given(INT64, st.binary(max_size=3), st.binary(max_size=3))
def test_a_number_is_read_back_from_the_middle_of_other_bytes(
    number: int, before: bytes, behind: bytes
) -> None:
    written = varint(number)
    assert read_varint(before + written + behind, len(before)) == (number, len(before) + len(written))


@pytest.mark.parametrize("written", ["ff" * 10 + "01", "ff" * 9 + "02", "80" * 12 + "00"])
def test_more_than_64_bits_are_refused_when_read(written: str) -> None:
    with pytest.raises(CorruptRecord, match="a varint"):
        read_varint(bytes.fromhex(written), 0)


@pytest.mark.parametrize("number", [1 << 63, -(1 << 63) - 1, 1 << 80, -(1 << 80)])
def test_more_than_64_bits_are_refused_when_written(number: int) -> None:
    with pytest.raises(ValueError, match="64 bits"):
        varint(number)
