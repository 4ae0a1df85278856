"""Whole batches decoded into columns: the fast way for readers that want all of it.

`read_records` gives record by record; here offsets, timestamps, keys, values and headers come as one sequence each, and an
application that wants only the values pays only for them. What is damage is the same for both: a record that is not of
a shape known here goes to `read_record`, and that alone decides.

Three ways, the faster one where it fits:
- a run: neighbours of the same size and layout. Bytes at the same place in each are compared as slices with a stride, and
  keys and values are cut out by `struct`: no bytecode runs per record.
- lone records, in batches of their own: header and record are looked at together, and nothing is done twice.
- one by one, with as few looks at the bytes as possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from struct import Struct, iter_unpack
from struct import error as struct_error
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.records.compression import Readable
from ottla.records.corruption import CorruptRecord
from ottla.records.header import (
    BATCH_OVERHEAD_BYTES,
    CODEC_MASK,
    CONTROL,
    CRC_START,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BatchHeader,
)
from ottla.records.record import Header, read_headers, read_record
from ottla.records.varint import read_zigzag, varint

_LOOK_AHEAD: Final = bytes(80)  # zeros behind the block: whatever is peeked at ends in there
_SHORTEST_RUN: Final = 20  # below that, finding out costs more than it saves
_LARGE: Final = 512
_CHUNK: Final = 64  # records one by one between two looks for a run
_peek: Final = Struct("8B").unpack_from
# A batch of one record: base offset, length, leader epoch, checksum, attributes, last offset delta, first timestamp, count;
# and what its record begins with.
_peek_lone: Final = Struct(">qiixIhiq22xi6B").unpack_from
_NOT_LONE: Final = CODEC_MASK | CONTROL | LOG_APPEND_TIME  # any of these, and `add` has to see to it

# Offset deltas from which on one byte more is needed.
_SECOND_BYTE, _THIRD_BYTE, _FOURTH_BYTE = 1 << 6, 1 << 13, 1 << 20
_HIGH_BYTES: Final = bytes(range(128, 256))
_ZIGZAG: Final = tuple([number >> 1 ^ -(number & 1) for number in range(128)])


class RecordColumns(NamedTuple):
    """The records of a batch; the i-th of each sequence belong together. `headers` is None if no record has any."""

    offsets: Sequence[int]
    timestamps: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[tuple[Header, ...]] | None


def decode_columns(header: BatchHeader, block: Readable) -> RecordColumns:
    """Decode the records of a batch, which must fill the block exactly; CorruptRecord if they do not make sense."""
    decoder = ColumnsDecoder()
    decoder.add(header, decodable(block, header.records_count), 0, len(block))
    return decoder.columns()


def decodable(data: Readable, records_count: int) -> bytes | memoryview:
    """What records are decoded from: bytes with something behind them, or, if records are large, the data as they are."""
    # Small records are taken apart faster in bytes; large ones cost more to copy than to look at from afar.
    return memoryview(data) if len(data) > _LARGE * records_count else b"".join((data, _LOOK_AHEAD))


class ColumnsDecoder:
    """Decodes batches, one behind the other, into the same columns."""

    __slots__ = (
        "_base_offset",
        "_base_timestamp",
        "_data",
        "_delta",
        "_end",
        "_first_offset",
        "_gaps",
        "_headers",
        "_keys",
        "_known_headers",
        "_left",
        "_most_missing",
        "_next_offset",
        "_position",
        "_source",
        "_timestamps",
        "_use_delta",
        "_values",
    )

    def __init__(self) -> None:
        self._first_offset = self._next_offset = -1
        self._gaps: list[tuple[int, int]] = []  # the place of a record behind a gap, and its offset
        self._timestamps: list[int] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._headers: dict[int, tuple[Header, ...]] = {}  # by the record's place
        self._known_headers: dict[bytes, tuple[Header, ...]] = {}  # by their bytes

    def __len__(self) -> int:
        return len(self._values)

    def add(self, header: BatchHeader, source: bytes | memoryview, start: int, end: int) -> None:
        """Decode the batch whose records lie there in the source, which is `decodable`; CorruptRecord leaves no trace."""
        # By index and in one go: with batches of one record, this is most of the work.
        base_offset, _, _, _, _, attributes, last_delta, base, latest, _, _, _, count = header
        if not 0 <= count <= last_delta + 1:
            raise CorruptRecord(f"{count} records in a batch whose last offset delta is {last_delta}")
        before = len(self._values)
        if not before:
            self._first_offset = base_offset
        elif base_offset != self._next_offset and count:
            self._gaps.append((before, base_offset))
        self._source, self._data = source, source if isinstance(source, bytes) else b""
        self._position, self._end, self._left = start, end, count
        self._use_delta = not attributes & LOG_APPEND_TIME
        self._base_offset, self._base_timestamp = base_offset, base if self._use_delta else latest
        self._most_missing = last_delta + 1 - count - before
        self._delta = 0  # in zig-zag: of the next offset, if none is missing
        try:
            while self._left:
                if self._left < _SHORTEST_RUN or not self._take_run():
                    self._take_one_by_one()
            if self._position != self._end:
                raise CorruptRecord(
                    f"{self._end - self._position} bytes are left over behind {count} records"
                )
        except CorruptRecord:
            self._cut(before)
            raise
        self._next_offset = base_offset + (self._delta >> 1)

    def add_lone(
        self, source: bytes, start: int, end: int, *, wanted: int, check_crcs: bool
    ) -> tuple[int, int]:
        """Decode whole batches of one usual record each, until there are so many; answers where they end, and the next offset.

        They have one leader epoch. It stops at the first that is anything else, damage included: that one is for `add`.
        """
        # Dense on purpose: producers that do not wait write such batches, and this is all that is done with each.
        keys, values, timestamps, peek = self._keys, self._values, self._timestamps, _peek_lone
        position, next_offset, common_epoch = start, self._next_offset, None
        self._data = source
        key: bytes | None
        value: bytes | None
        while position < end and len(values) < wanted:
            base, length, epoch, crc, attributes, last, time, count, a, b, c, d, e, n = peek(source, position)
            if count != 1 or last or attributes & _NOT_LONE or (epoch != common_epoch is not None):
                break
            behind = self._end = position + length + BATCH_OVERHEAD_BYTES
            if a < 128:  # the length has one byte: the key's length is one place nearer
                d, e, n, at = c, d, e, position + HEADER_BYTES + 5
                stop = at - 4 + (a >> 1)
            else:
                at = position + HEADER_BYTES + 6
                stop = at - 4 + (a >> 1 & 63 | b << 6)
            if d or e or stop != behind or (n & 129 and n != 1) or a & 1:
                break
            key = None if n == 1 else source[at : (at := at + (n >> 1))]
            if (n := source[at]) < 128:
                stop = at + 1 + (n >> 1)
                value = source[at + 1 : stop]
            else:  # a third byte would make it too large to fit
                stop = at + 2 + (n >> 1 & 63 | source[at + 1] << 6)
                value = source[at + 2 : stop]
            if check_crcs and crc32c(source[position + CRC_START : behind]) != crc:
                break
            if stop + 1 != behind or source[stop] or n & 1:
                if not self._is_complete_alone(stop, behind, n):
                    break
                value = None if n == 1 else value
            if base != next_offset:
                self._begin_at(base)
            keys.append(key)
            values.append(value)
            timestamps.append(time)
            position, next_offset, common_epoch = behind, base + 1, epoch
        self._next_offset = next_offset
        return position, next_offset

    def _begin_at(self, offset: int) -> None:
        """The next record has this offset, which does not follow the last one."""
        if self._values:
            self._gaps.append((len(self._values), offset))
        else:
            self._first_offset = offset

    def _is_complete_alone(self, stop: int, end: int, value_length: int) -> bool:
        try:
            return self._is_complete(stop, end, value_length)
        except (CorruptRecord, IndexError):
            return False  # what is wrong with it is for `add` to say

    def _cut(self, count: int) -> None:
        """Forget what came behind so many records."""
        for column in (self._keys, self._values, self._timestamps):
            del column[count:]
        self._gaps = [gap for gap in self._gaps if gap[0] < count]
        self._headers = {place: headers for place, headers in self._headers.items() if place < count}

    def columns(self) -> RecordColumns:
        """What came out."""
        headers = self._headers
        return RecordColumns(
            self._offsets(),
            self._timestamps,
            self._keys,
            self._values,
            [headers.get(at, ()) for at in range(len(self._values))] if headers else None,
        )

    def _offsets(self) -> Sequence[int]:
        count, first = len(self._values), self._first_offset
        if not self._gaps:
            return range(first, first + count)
        offsets, at = list[int](), 0
        for place, behind in [*self._gaps, (count, 0)]:
            offsets += range(first, first + place - at)
            at, first = place, behind
        return offsets

    def _take_one_by_one(self) -> None:
        """A chunk of records, whatever their sizes; it ends with one that is unusual."""
        if not self._data:
            self._source = self._data = b"".join((self._source[self._position : self._end], _LOOK_AHEAD))
            self._position, self._end = 0, self._end - self._position
        wanted = min(self._left, _CHUNK)
        try:
            taken = self._take_usual(wanted)
        except (IndexError, struct_error):
            self._position = self._end + 1
        if self._position > self._end:
            raise CorruptRecord(f"the records block ends inside a record, at byte {self._end}")
        self._left -= taken
        if taken < wanted:
            self._take_unusual()

    def _take_usual(self, wanted: int) -> int:
        """Up to so many records whose numbers take two bytes at most; answers how many there were."""
        # Dense on purpose: this is where a consumer's time goes when records differ in size. Eight bytes are looked at
        # together: length, attributes, timestamp, offset, the key's length; they move up where a number has one byte.
        data, position, delta, base = self._data, self._position, self._delta, self._base_timestamp
        keys, values, timestamps, before = self._keys, self._values, self._timestamps, len(self._values)
        stamp, timestamp, most_missing, peek = -1, 0, self._most_missing, _peek
        key: bytes | None
        value: bytes | None
        for _ in range(wanted):
            a, b, c, d, e, f, n, m = peek(data, position)
            if a > 127:
                if b > 127:
                    break
                a = a & 127 | b << 7
                at, end = position + 7, position + 2 + (a >> 1)
            else:
                d, e, f, n, m = c, d, e, f, n
                at, end = position + 6, position + 1 + (a >> 1)
            if d > 127:
                if e > 127:
                    break
                d, e, f, n = d & 127 | e << 7, f, n, m
                at += 1
            if e > 127:
                if f > 127:
                    break
                e = e & 127 | f << 7
            else:
                n = f
                at -= 1
            if n & 129 and n != 1:  # negative, or longer than one byte
                break
            key = None if n == 1 else data[at : (at := at + (n >> 1))]
            if (n := data[at]) < 128:
                stop = at + 1 + (n >> 1)
                value = data[at + 1 : stop]
            else:  # a third byte would make it too large to fit
                stop = at + 2 + (n >> 1 & 63 | data[at + 1] << 6)
                value = data[at + 2 : stop]
            if stop + 1 != end or data[stop] or (a | n) & 1:
                if a & 1 or not self._is_complete(stop, end, n):
                    break
                value = None if n == 1 else value
            if e != delta:
                if e < delta or e & 1 or (e >> 1) - len(values) > most_missing:
                    break
                self._gaps.append((len(values), self._base_offset + (e >> 1)))
            if d != stamp:
                timestamps += [timestamp] * (len(values) - len(timestamps))
                stamp, timestamp = d, base + (d >> 1 ^ -(d & 1)) * self._use_delta
            keys.append(key)
            values.append(value)
            position, delta = end, e + 2
        timestamps += [timestamp] * (len(values) - len(timestamps))
        self._position, self._delta = position, delta
        return len(values) - before

    def _is_complete(self, stop: int, end: int, value_length: int) -> bool:
        """Whether a record with headers, or without a value, is usual otherwise."""
        if value_length & 1 and value_length != 1:
            return False
        written = self._data[stop:end]  # many records have the same headers
        headers = self._known_headers.get(written)
        if headers is None:
            headers, behind = read_headers(self._data, stop, self._end)
            if behind != end:
                return False
            self._known_headers[written] = headers
        if headers:
            self._headers[len(self._values)] = headers
        return True

    def _take_unusual(self) -> None:
        """One record of any shape, or the damage that it is."""
        place = len(self._values)
        stamp, offset, key, value, headers, behind = read_record(self._data, self._position, self._end)
        if offset != self._delta:
            if offset < self._delta or offset & 1 or (offset >> 1) - place > self._most_missing:
                raise CorruptRecord(
                    f"offset delta {offset >> 1 ^ -(offset & 1)} where {self._delta >> 1} is next"
                )
            self._gaps.append((place, self._base_offset + (offset >> 1)))
        if headers:
            self._headers[place] = headers
        self._timestamps.append(self._base_timestamp + (stamp >> 1 ^ -(stamp & 1)) * self._use_delta)
        self._keys.append(key)
        self._values.append(value)
        self._delta, self._position = offset + 2, behind
        self._left -= 1

    # ---- runs

    def _take_run(self) -> bool:
        """Records of exactly the same size and layout, as many as there are; False if they are too few."""
        source, position = self._source, self._position
        try:
            length, body = read_zigzag(source, position)
            stride = body - position + (length >> 1)
            most = min(self._left, (self._end - position) // stride, _room(self._delta >> 1))
            # The first look is cheap: it fails for records of different sizes.
            first = bytes(source[position : position + _SHORTEST_RUN * stride : stride])
            if most < _SHORTEST_RUN or first.count(source[position]) < _SHORTEST_RUN or length & 1:
                return False
            layout = _layout(source, body, position + stride)
        except (IndexError, CorruptRecord):
            return False  # one by one, it is found out what is wrong
        if layout is None or layout.delta != self._delta:
            return False
        count = self._neighbours(layout, position, stride, most)
        timestamps = self._timestamps_of_run(layout, stride, count) if count >= _SHORTEST_RUN else None
        if timestamps is None:
            return False
        end = position + count * stride
        run = memoryview(source)[position:end]
        self._timestamps += timestamps
        self._keys += _cut(run, layout.key_at - position, layout.key_bytes, stride, count)
        self._values += _cut(run, layout.value_at - position, layout.value_bytes, stride, count)
        self._delta += 2 * count
        self._position = end
        self._left -= count
        return True

    def _column(self, at: int, stride: int, count: int) -> bytes:
        """The byte at the same place of each record of a run."""
        return bytes(self._source[at : at + (count - 1) * stride + 1 : stride])

    def _neighbours(self, layout: _Layout, position: int, stride: int, most: int) -> int:
        """How many records in a row have the same lengths everywhere, no headers, and offsets without a gap."""
        count = most
        same = (
            *range(position, layout.timestamp_at - 1),
            *range(layout.key_length_at, layout.key_at),
            *range(layout.value_length_at, layout.value_at),
            position + stride - 1,  # no headers
        )
        for at in same:
            column = self._column(at, stride, count)
            count -= len(column.lstrip(column[:1]))
        width = layout.key_length_at - layout.offset_at
        offsets = _offset_bytes(self._delta >> 1, width, count)
        for byte in range(width):
            column = self._column(layout.offset_at + byte, stride, count)
            count = _common_prefix(column, offsets[byte : count * width : width])
        return count

    def _timestamps_of_run(self, layout: _Layout, stride: int, count: int) -> list[int] | None:
        base = self._base_timestamp
        if not self._use_delta:
            return [base] * count
        places = range(layout.timestamp_at, layout.offset_at)
        columns = [self._column(at, stride, count) for at in places]
        # In each of them all bytes but the last must say that more follow.
        if any(column.translate(None, _HIGH_BYTES) for column in columns[:-1]) or not columns[-1].isascii():
            return None
        timestamps: list[int] = []
        # Often many records in a row have the same timestamp.
        for _ in range(count // _SHORTEST_RUN):
            same = min(len(column) - len(column.lstrip(column[:1])) for column in columns)
            number, _ = read_zigzag(bytes(column[0] for column in columns), 0)
            timestamps += [base + (number >> 1 ^ -(number & 1))] * same
            columns = [column[same:] for column in columns]
            if not columns[0]:
                return timestamps
        return None if len(columns) > 2 else timestamps + [base + each for each in _signed(columns)]


def _signed(columns: Sequence[bytes]) -> Iterable[int]:
    """Numbers of one or two bytes, from the columns of their bytes."""
    if len(columns) == 1:
        return map(_ZIGZAG.__getitem__, columns[0])
    numbers = [low & 127 | high << 7 for low, high in zip(*columns, strict=True)]
    return [number >> 1 ^ -(number & 1) for number in numbers]


class _Layout(NamedTuple):
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


def _layout(data: bytes | memoryview, body: int, end: int) -> _Layout | None:
    """The layout of the record whose body begins there; None if it has headers, or does not end where it should."""
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


def _room(delta: int) -> int:
    """How many offset deltas from this one on take as many bytes, and are in the same table."""
    if delta < _THIRD_BYTE:
        return (_SECOND_BYTE if delta < _SECOND_BYTE else _THIRD_BYTE) - delta
    return 0 if delta >= _FOURTH_BYTE else _THIRD_BYTE - delta % _THIRD_BYTE


def _offset_bytes(delta: int, width: int, count: int) -> bytes:
    """Offset deltas without a gap, as they are written, one behind the other."""
    first = delta % _THIRD_BYTE
    table = _offset_table(delta // _THIRD_BYTE, width)
    return table[first * width : (first + count) * width]


@lru_cache(maxsize=16)
def _offset_table(piece: int, width: int) -> bytes:
    first = piece * _THIRD_BYTE
    return b"".join([varint(delta).ljust(width, b"\0") for delta in range(first, first + _THIRD_BYTE)])
