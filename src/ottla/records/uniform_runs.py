"""Neighbours of the same size and layout: where their fields lie, and how they are cut out in one go.

Records of one batch are such a run (`run_at`), or batches of one record each (`single_record_batches`). Used by
`decoding`, which tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from struct import iter_unpack
from typing import Final, NamedTuple

from ottla.records.corruption import CorruptRecord
from ottla.records.varint import read_zigzag, varint

SHORTEST_RUN: Final = 20  # below that, finding out costs more than it saves
_HIGH_BYTES: Final = bytes(range(128, 256))
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


class Run(NamedTuple):
    """Records of one size and layout whose offsets follow each other, and where they end."""

    end: int
    timestamps: list[int]
    keys: Iterable[bytes | None]
    values: Iterable[bytes | None]


def run_at(
    source: bytes | memoryview,
    position: int,
    end: int,
    *,
    most: int,
    delta: int,
    base_timestamp: int,
    use_delta: bool,
) -> Run | None:
    """Up to `most` records, the first with this offset delta (in zig-zag); None if they are too few."""
    try:
        length, body = read_zigzag(source, position)
        stride = body - position + (length >> 1)
        most = min(most, (end - position) // stride, room(delta >> 1))
        # The first look is cheap: it fails for records of different sizes.
        first = bytes(source[position : position + SHORTEST_RUN * stride : stride])
        if most < SHORTEST_RUN or first.count(source[position]) < SHORTEST_RUN or length & 1:
            return None
        layout = layout_of(source, body, position + stride)
    except (IndexError, CorruptRecord):
        return None  # one by one, it is found out what is wrong
    if layout is None or layout.delta != delta:
        return None
    rows = _Rows(source, stride)
    count = rows.neighbours(layout, position, most)
    timestamps = rows.timestamps(layout, count, base_timestamp if use_delta else None)
    if count < SHORTEST_RUN or timestamps is None:
        return None
    run_end = position + count * stride
    run = memoryview(source)[position:run_end]
    return Run(
        run_end,
        timestamps if use_delta else [base_timestamp] * count,
        cut_out(run, layout.key_at - position, layout.key_bytes, stride, count),
        cut_out(run, layout.value_at - position, layout.value_bytes, stride, count),
    )


class _Rows(NamedTuple):
    """Records of one size, one behind the other."""

    source: bytes | memoryview
    stride: int

    def column(self, at: int, count: int) -> bytes:
        """The byte at the same place of each record."""
        return bytes(self.source[at : at + (count - 1) * self.stride + 1 : self.stride])

    def neighbours(self, layout: Layout, position: int, most: int) -> int:
        """How many have the same lengths everywhere, no headers, and offsets without a gap."""
        count = most
        same = (
            *range(position, layout.timestamp_at - 1),
            *range(layout.key_length_at, layout.key_at),
            *range(layout.value_length_at, layout.value_at),
            position + self.stride - 1,  # no headers
        )
        for at in same:
            column = self.column(at, count)
            count -= len(column.lstrip(column[:1]))
        width = layout.key_length_at - layout.offset_at
        offsets = offset_bytes(layout.delta >> 1, width, count)
        for byte in range(width):
            column = self.column(layout.offset_at + byte, count)
            count = common_prefix(column, offsets[byte : count * width : width])
        return count

    def timestamps(self, layout: Layout, count: int, base: int | None) -> list[int] | None:
        """The timestamps, none without a base; None if they have to be read one by one."""
        if base is None or count < SHORTEST_RUN:
            return []
        places = range(layout.timestamp_at, layout.offset_at)
        columns = [self.column(at, count) for at in places]
        # In each of them all bytes but the last must say that more follow.
        if any(column.translate(None, _HIGH_BYTES) for column in columns[:-1]) or not columns[-1].isascii():
            return None
        timestamps: list[int] = []
        # Often many records in a row have the same timestamp.
        for _ in range(count // SHORTEST_RUN):
            same = min(len(column) - len(column.lstrip(column[:1])) for column in columns)
            number, _ = read_zigzag(bytes(column[0] for column in columns), 0)
            timestamps += [base + (number >> 1 ^ -(number & 1))] * same
            columns = [column[same:] for column in columns]
            if not columns[0]:
                return timestamps
        return None if len(columns) > 2 else timestamps + [base + each for each in signed(columns)]
