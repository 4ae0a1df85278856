"""Varints and tagged sections, read and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.primitives import DecodeError, put_tags, read_uvarint, skip_tags, uuid_of, uvarint


@given(st.integers(0, 2**32 - 1))
def test_a_varint_is_read_back(value: int) -> None:
    data = uvarint(value)
    assert read_uvarint(memoryview(b"?" + data + b"?"), 1) == (value, 1 + len(data))


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (0, b"\0"),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (300, b"\xac\x02"),
        (2**32 - 1, b"\xff\xff\xff\xff\x0f"),
    ],
)
def test_varints_are_little_endian_groups_of_seven_bits(value: int, data: bytes) -> None:
    assert uvarint(value) == data


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\x10", b"\x80\x80\x80\x80\x80\x00", b"\xff" * 20])
def test_a_varint_beyond_32_bits_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        read_uvarint(memoryview(data), 0)


def test_a_section_of_tags_is_skipped_to_its_end() -> None:
    out = bytearray(b"before")
    put_tags(out, [(0, bytearray(b"abc")), (7, bytearray()), (300, bytearray(200))])
    out += b"after"
    assert skip_tags(memoryview(out), len(b"before")) == len(out) - len(b"after")


def test_a_tag_longer_than_the_bytes_left_is_refused() -> None:
    with pytest.raises(DecodeError):
        skip_tags(memoryview(b"\x01\x00\x7fabc"), 0)


def test_equal_ids_are_the_same_object() -> None:
    assert uuid_of(bytes(15) + b"\x07") is uuid_of(bytes(15) + b"\x07")
