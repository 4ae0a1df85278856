"""Neighbours of the same size and layout: where their fields lie, and how they are cut out in one go.

Records of one batch are such a run, or batches of one record each (`single_record_batches`). Used by
`decoding`, which tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from struct import iter_unpack
from typing import Final, NamedTuple

from ottla.records.varint import read_zigzag, varint

# Offset deltas from which on one byte more is needed.
_SECOND_BYTE, _THIRD_BYTE, _FOURTH_BYTE = 1 << 6, 1 << 13, 1 << 20
_ZIGZAG: Final = tuple([number >> 1 ^ -(number & 1) for number in range(128)])


def signed(columns: Sequence[bytes]) -> Iterable[int]:
    """Numbers of one or two bytes, from the columns of their bytes."""
    if len(columns) == 1:
        return map(_ZIGZAG.__getitem__, columns[0])
    numbers = [low & 127 | high << 7 for low, high in zip(*columns, strict=True)]
    return [number >> 1 ^ -(number & 1) for number in numbers]


class Layout(NamedTuple):
    """Where the fields of a record begin. A key or value of -1 bytes is null."""

    timestamp_at: int
    offset_at: int
    delta: int  # in zig-zag
    key_length_at: int
    key_at: int
    key_bytes: int
    value_length_at: int
    value_at: int
    value_bytes: int


def layout_of(data: bytes | memoryview, body: int, end: int) -> Layout | None:
    """The layout of the record whose body begins there; None if it has headers, or does not end where it
    should.
    """
    _, offset_at = read_zigzag(data, body + 1)
    delta, key_length_at = read_zigzag(data, offset_at)
    key_length, key_at = read_zigzag(data, key_length_at)
    value_length_at = key_at + (key_length >> 1)
    if value_length_at >= end:
        return None
    value_length, value_at = read_zigzag(data, value_length_at)
    if value_at + (value_length >> 1) != end - 1 or data[end - 1]:
        return None
    key_bytes, value_bytes = key_length >> 1 ^ -(key_length & 1), value_length >> 1 ^ -(value_length & 1)
    if key_bytes < -1 or value_bytes < -1:
        return None
    return Layout(
        body + 1,
        offset_at,
        delta,
        key_length_at,
        key_at,
        key_bytes,
        value_length_at,
        value_at,
        value_bytes,
    )


def cut_out(run: memoryview, at: int, size: int, stride: int, count: int) -> Iterable[bytes | None]:
    """The bytes at the same place of each record of a run."""
    if size < 0:
        return [None] * count
    return chain.from_iterable(iter_unpack(f"{at}x{size}s{stride - at - size}x", run))


def common_prefix(one: bytes, other: bytes) -> int:
    """How many bytes are the same from the beginning on."""
    if one == other:
        return len(one)
    return next(at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)


def room(delta: int) -> int:
    """How many offset deltas from this one on take as many bytes, and are in the same table."""
    if delta < _THIRD_BYTE:
        return (_SECOND_BYTE if delta < _SECOND_BYTE else _THIRD_BYTE) - delta
    return 0 if delta >= _FOURTH_BYTE else _THIRD_BYTE - delta % _THIRD_BYTE


def offset_bytes(delta: int, width: int, count: int) -> bytes:
    """Offset deltas without a gap, as they are written, one behind the other."""
    first = delta % _THIRD_BYTE
    table = _offset_table(delta // _THIRD_BYTE, width)
    return table[first * width : (first + count) * width]


@lru_cache(maxsize=16)
def _offset_table(piece: int, width: int) -> bytes:
    first = piece * _THIRD_BYTE
    return b"".join([varint(delta).ljust(width, b"\0") for delta in range(first, first + _THIRD_BYTE)])
