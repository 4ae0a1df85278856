"""A whole batch decoded into columns: the fast way for readers that want all of it.

`read_records` gives record by record; here offsets, timestamps, keys, values and headers come as one sequence each, and an
application that wants only the values pays only for them. What is damage is the same for both, and `read_record` alone
decides it: the fast ways below take a record only if it is exactly of the shape they know.

Three ways, the fastest that fits:
- a run: neighbours of the same size and layout. Bytes at the same place in each are compared as slices with a stride, and
  keys and values are cut out by `struct`: no bytecode runs per record.
- a shape: numbers take as many bytes as in the record before, lengths differ. One `unpack` reads all fixed fields.
- any record, number by number, which then sets the shape for those behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from struct import Struct, iter_unpack
from struct import error as struct_error
from typing import Any, Final, NamedTuple

from ottla.records.compression import Readable
from ottla.records.corruption import CorruptRecord
from ottla.records.header import LOG_APPEND_TIME, BatchHeader
from ottla.records.record import Header, read_headers, read_record
from ottla.records.varint import read_zigzag, varint

_LOOK_AHEAD: Final = bytes(80)  # zeros behind the block: whatever is peeked at ends in there
_CHUNK: Final = 64  # records of one shape between two looks for a run
_SHORTEST_RUN: Final = 8  # below that, finding out costs more than it saves
_FIRST_OF_TWO, _FIRST_OF_THREE, _FIRST_OF_FOUR = 1 << 6, 1 << 13, 1 << 20  # offset deltas that need so many bytes

_ONE_BYTE: Final = bytes(range(0, 128, 2))
_TWO_BYTES: Final = b"".join(map(varint, range(_FIRST_OF_TWO, _FIRST_OF_THREE)))
_TWO_BYTE_NUMBERS: Final = Struct(f"<{len(_TWO_BYTES) // 2}H").unpack(_TWO_BYTES)
_HIGH_BYTES: Final = bytes(range(128, 256))
_ZIGZAG: Final = tuple([number >> 1 ^ -(number & 1) for number in range(128)])

# By how many bytes the length, the timestamp and the offset take: length, attributes, timestamp, offset, key's length.
_FORMATS: Final = {1: "B", 2: "H", 3: "3s"}
_SHAPES: Final = {
    (length, timestamp, offset): Struct(f"<{_FORMATS[length]}x{_FORMATS[timestamp]}{_FORMATS[offset]}B")
    for length in (1, 2)
    for timestamp in (1, 2, 3)
    for offset in (1, 2, 3)
}
_NO_SHAPE: Final = (0, 0, 0)


class Columns(NamedTuple):
    """The records of a batch; the i-th of each sequence belong together. `headers` is None if no record has any."""

    offsets: Sequence[int]
    timestamps: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[tuple[Header, ...]] | None


def decode_columns(header: BatchHeader, block: Readable) -> Columns:
    """Decode the records of a batch, which must fill the block exactly; CorruptRecord if they do not make sense."""
    count, last_offset_delta = header.records_count, header.last_offset_delta
    if not 0 <= count <= last_offset_delta + 1:
        raise CorruptRecord(f"{count} records in a batch whose last offset delta is {last_offset_delta}")
    records = _Block(header, block)
    while records.left:
        records.take_any()
        while records.left and (records.take_run() or records.take_shaped()):
            pass
    return records.columns()


class _Block:
    """A records block, how far it is decoded, and what came out."""

    __slots__ = (
        "_base_offset",
        "_base_timestamp",
        "_broken",
        "_data",
        "_delta",
        "_first",
        "_headers",
        "_keys",
        "_last_delta",
        "_position",
        "_shape",
        "_size",
        "_timestamps",
        "_use_delta",
        "_values",
        "left",
    )

    def __init__(self, header: BatchHeader, block: Readable) -> None:
        self._data = b"".join((block, _LOOK_AHEAD))
        self._size = len(block)
        self._position = 0
        self.left = header.records_count
        self._use_delta = not header.attributes & LOG_APPEND_TIME
        self._base_timestamp = header.base_timestamp if self._use_delta else header.max_timestamp
        self._base_offset = header.base_offset
        self._last_delta = header.last_offset_delta
        self._delta = 0  # of the next offset, if none is missing
        self._first = 0  # where the offsets without a gap began
        self._broken: list[range] = []  # offsets before that
        self._shape = _NO_SHAPE
        self._timestamps: list[int] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._headers: dict[int, tuple[Header, ...]] = {}  # by the record's place

    def columns(self) -> Columns:
        if self._position != self._size:
            raise CorruptRecord(
                f"{self._size - self._position} bytes are left over behind {len(self._values)} records"
            )
        headers, base = self._headers, self._base_offset
        ranges = [*self._broken, range(base + self._first, base + self._delta)]
        return Columns(
            ranges[0] if len(ranges) == 1 else list(chain.from_iterable(ranges)),
            self._timestamps,
            self._keys,
            self._values,
            [headers.get(at, ()) for at in range(len(self._values))] if headers else None,
        )

    def take_any(self) -> None:
        """One record of any shape."""
        data, position = self._data, self._position
        stamp, offset, key, value, headers, behind = read_record(data, position, self._size)
        delta = offset >> 1 ^ -(offset & 1)
        if delta != self._delta:
            if delta < self._delta or delta + self.left - 1 > self._last_delta:
                raise CorruptRecord(f"offset delta {delta} where {self._delta} is next")
            self._broken.append(range(self._base_offset + self._first, self._base_offset + self._delta))
            self._first = delta
        if headers:
            self._headers[len(self._values)] = headers
        self._timestamps.append(self._base_timestamp + (stamp >> 1 ^ -(stamp & 1)) * self._use_delta)
        self._keys.append(key)
        self._values.append(value)
        self._delta, self._position = delta + 1, behind
        self.left -= 1
        length = _bytes_of_number(data, position)
        stamp_bytes = _bytes_of_number(data, position + length + 1)
        self._shape = length, stamp_bytes, _bytes_of_delta(self._delta)

    # ---- records of one shape

    def take_shaped(self) -> bool:
        """Records of the same shape as the last, up to a chunk of them; whether it was a whole chunk."""
        length_bytes, stamp_bytes, _ = self._shape
        shape = _SHAPES.get((length_bytes, stamp_bytes, offset_bytes := _bytes_of_delta(self._delta)))
        if shape is None:
            return False
        wanted = _wanted_numbers(self._delta, offset_bytes, min(self.left, _CHUNK))
        before = len(self._values)
        try:
            self._position = self._decode_shaped(shape, wanted, length_bytes, stamp_bytes)
        except (struct_error, IndexError):
            raise CorruptRecord(f"the records block ends inside a record, at byte {self._size}") from None
        taken = len(self._values) - before
        self._delta += taken
        self.left -= taken
        return taken == len(wanted)

    def _decode_shaped(
        self, shape: Struct, wanted: Iterable[Any], length_bytes: int, stamp_bytes: int
    ) -> int:
        # Dense on purpose: this is where a consumer's time goes when records differ in size.
        data, size, position, unpack, fixed = (
            self._data,
            self._size,
            self._position,
            shape.unpack_from,
            shape.size,
        )
        add_key, add_value, add_stamp = self._keys.append, self._values.append, self._timestamps.append
        mask, flag = (0x8080, 0x0080) if length_bytes == 2 else (0x80, 0)
        stamp, timestamp, stamp_at = None, 0, length_bytes + 1
        for want in wanted:
            length, delta, offset, n = unpack(data, position)
            if delta != stamp:
                number, behind = read_zigzag(data, position + stamp_at)
                if behind != position + stamp_at + stamp_bytes:
                    break
                stamp = delta
                timestamp = self._base_timestamp + (number >> 1 ^ -(number & 1)) * self._use_delta
            at = position + fixed
            if n == 1:
                key = None
            elif n & 129:  # negative, or longer than one byte
                break
            else:
                key = data[at : (at := at + (n >> 1))]
            n = data[at]
            if n < 128:
                start = at + 1
                stop = start + (n >> 1)
            else:
                start = at + 2
                stop = start + (n >> 1 & 63 | data[at + 1] << 6)  # a third byte makes it too large to fit
            found, behind = read_headers(data, stop, size) if data[stop] else ((), stop + 1)
            end = position + length_bytes + (length >> 1 & 63 | length >> 8 << 6)
            if offset != want or behind != end or end > size or n & 1 or length & mask != flag:
                break
            if found:
                self._headers[len(self._values)] = found
            add_key(key)
            add_value(data[start:stop])
            add_stamp(timestamp)
            position = end
        return position

    # ---- runs

    def take_run(self) -> bool:
        """Records of exactly the same size and layout, as many as there are; False if they are too few."""
        data, position = self._data, self._position
        length, body = read_zigzag(data, position)
        stride = body - position + (length >> 1)
        most = min(self.left, (self._size - position) // stride, _last_of_width(self._delta) - self._delta)
        if most < _SHORTEST_RUN:
            return False
        if data[position : position + _SHORTEST_RUN * stride : stride].count(data[position]) < _SHORTEST_RUN:
            return False
        layout = _layout(data, body, position + stride)
        if layout is None or layout.delta != self._delta << 1:
            return False
        count = self._equal_neighbours(layout, position, body, stride, most)
        timestamps = self._run_timestamps(layout, stride, count) if count >= _SHORTEST_RUN else None
        if timestamps is None:
            return False
        end = position + count * stride
        run = memoryview(data)[position:end]
        self._timestamps += timestamps
        self._keys += _cut(run, layout.key_at - position, layout.key_bytes, stride, count)
        self._values += _cut(run, layout.value_at - position, layout.value_bytes, stride, count)
        self._delta += count
        self.left -= count
        self._position = end
        return True

    def _equal_neighbours(self, layout: _Layout, position: int, body: int, stride: int, most: int) -> int:
        """How many records in a row have the same lengths everywhere, no headers, and offsets one by one."""
        data, count = self._data, most
        fixed = [
            *range(position, body),
            *range(layout.key_length_at, layout.key_at),
            *range(layout.value_length_at, layout.value_at),
            position + stride - 1,
        ]
        for at in fixed:
            column = data[at : at + (count - 1) * stride + 1 : stride]
            count -= len(column.lstrip(data[at : at + 1]))
        width = layout.key_length_at - layout.offset_at
        wanted = _wanted_bytes(self._delta, width, count)
        for at in range(width):
            first = layout.offset_at + at
            column = data[first : first + (count - 1) * stride + 1 : stride]
            count = _common_prefix(column, wanted[at : count * width : width])
        return count

    def _run_timestamps(self, layout: _Layout, stride: int, count: int) -> list[int] | None:
        if not self._use_delta:
            return [self._base_timestamp] * count
        columns = [
            self._data[at : at + (count - 1) * stride + 1 : stride]
            for at in range(layout.timestamp_at, layout.offset_at)
        ]
        base = self._base_timestamp
        if all(column.count(column[0]) == count for column in columns):
            number, _ = read_zigzag(self._data, layout.timestamp_at)
            return [base + (number >> 1 ^ -(number & 1))] * count
        if any(column.translate(None, _HIGH_BYTES) for column in columns[:-1]) or not columns[-1].isascii():
            return None
        if len(columns) == 1:
            return [base + each for each in map(_ZIGZAG.__getitem__, columns[0])]
        if len(columns) == 2:
            numbers = [low & 127 | high << 7 for low, high in zip(*columns, strict=True)]
            return [base + (each >> 1 ^ -(each & 1)) for each in numbers]
        return None


class _Layout(NamedTuple):
    """Where the fields of one record begin. A key or value of -1 bytes is null."""

    timestamp_at: int
    offset_at: int
    delta: int  # in zig-zag
    key_length_at: int
    key_at: int
    key_bytes: int
    value_length_at: int
    value_at: int
    value_bytes: int


def _layout(data: bytes, body: int, end: int) -> _Layout | None:
    """The layout of the record whose body begins there; None if it has headers, or does not end where it should."""
    _, offset_at = read_zigzag(data, body + 1)
    delta, key_length_at = read_zigzag(data, offset_at)
    key_length, key_at = read_zigzag(data, key_length_at)
    value_length_at = key_at + (key_length >> 1)
    if value_length_at >= end:
        return None
    value_length, value_at = read_zigzag(data, value_length_at)
    is_odd = (key_length & 1 and key_length != 1) or (value_length & 1 and value_length != 1)
    if is_odd or value_at + (value_length >> 1) != end - 1 or data[end - 1]:
        return None
    key_bytes, value_bytes = key_length >> 1 ^ -(key_length & 1), value_length >> 1 ^ -(value_length & 1)
    return _Layout(
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


def _cut(run: memoryview, at: int, size: int, stride: int, count: int) -> Iterable[bytes | None]:
    """The bytes at the same place of each record of a run."""
    if size < 0:
        return [None] * count
    return chain.from_iterable(iter_unpack(f"{at}x{size}s{stride - at - size}x", run))


def _common_prefix(one: bytes, other: bytes) -> int:
    """How many bytes are the same from the beginning on."""
    if one == other:
        return len(one)
    return next(at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)


# ---- the numbers that offsets without a gap have


def _bytes_of_number(data: bytes, position: int) -> int:
    return read_zigzag(data, position)[1] - position


def _bytes_of_delta(delta: int) -> int:
    """How many bytes an offset delta takes; 4 stands for all that are more than three."""
    return 1 + (delta >= _FIRST_OF_TWO) + (delta >= _FIRST_OF_THREE) + (delta >= _FIRST_OF_FOUR)


def _last_of_width(delta: int) -> int:
    """The first delta from here on that takes more bytes, or none if it takes more than three already."""
    if delta < _FIRST_OF_THREE:
        return _FIRST_OF_TWO if delta < _FIRST_OF_TWO else _FIRST_OF_THREE
    # Of three bytes there are a million: they are made as they are needed, in pieces.
    return delta if delta >= _FIRST_OF_FOUR else (delta // _FIRST_OF_THREE + 1) * _FIRST_OF_THREE


@lru_cache(maxsize=16)
def _three_bytes(piece: int) -> bytes:
    return b"".join(map(varint, range(piece * _FIRST_OF_THREE, (piece + 1) * _FIRST_OF_THREE)))


def _wanted_bytes(delta: int, width: int, count: int) -> bytes:
    """Offset deltas of the same width one behind the other, as they are written."""
    if width == 1:
        return _ONE_BYTE[delta : delta + count]
    if width == 2:
        first = (delta - _FIRST_OF_TWO) * 2
        return _TWO_BYTES[first : first + count * 2]
    first = delta % _FIRST_OF_THREE * 3
    return _three_bytes(delta // _FIRST_OF_THREE)[first : first + count * 3]


def _wanted_numbers(delta: int, width: int, most: int) -> Sequence[Any]:
    """The same as `unpack` gives them."""
    count = min(most, _last_of_width(delta) - delta)
    if width == 1:
        return _ONE_BYTE[delta : delta + count]
    if width == 2:
        return _TWO_BYTE_NUMBERS[delta - _FIRST_OF_TWO : delta - _FIRST_OF_TWO + count]
    wanted = _wanted_bytes(delta, width, count)
    return [wanted[at : at + 3] for at in range(0, len(wanted), 3)]
