"""One record, and the decoder of a records block.

A record is: length, attributes (one byte, unused), timestamp delta, offset delta, key, value, headers. Every
number but the attributes is a zig-zag varint; length -1 means null.

Header keys should be UTF-8. A broker does not look, so any bytes may lie in a log: they come out with
surrogates for the bytes that are not text, and the builder writes the same bytes again.

`decoding` reads whole columns of records instead. If `read_records` were built on columns, a batch of few
records would take 1.5 to 3 times as long.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from ottla.records.compression import Readable
from ottla.records.corruption import CorruptRecord
from ottla.records.header import LOG_APPEND_TIME, BatchHeader
from ottla.records.varint import read_varint, read_zigzag

Header: TypeAlias = tuple[str, bytes | None]
_Fields: TypeAlias = tuple[int, int, bytes | None, bytes | None, tuple[Header, ...], int]

_peek_ten: Final = Struct("10B").unpack_from
_peek_two: Final = Struct("2B").unpack_from
_LOOK_AHEAD: Final = bytes(
    80
)  # zeros behind the block: a key of 63 bytes and all that is peeked at end in there


class Record(NamedTuple):
    """One record as a client sees it.

    A named tuple and not a dataclass: it is made a million times a second, and a tuple is made three times
    faster.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def read_records(header: BatchHeader, block: Readable) -> Iterator[Record]:
    """Decode the records of a batch, which must fill the block exactly.

    Offsets rise and stay within the batch; a batch stamped by the broker gives its time to every record.
    """
    count, last_offset_delta, base_offset = header.records_count, header.last_offset_delta, header.base_offset
    if not 0 <= count <= last_offset_delta + 1:
        raise CorruptRecord(f"{count} records in a batch whose last offset delta is {last_offset_delta}")
    use_delta = not header.attributes & LOG_APPEND_TIME
    base_timestamp = header.base_timestamp if use_delta else header.max_timestamp
    # Dense on purpose: ten bytes are read together, and a record of the usual shape (no number of more than
    # two bytes) is decoded in place; number by number takes half as long again. `a` and `b` are the length, `d`
    # the timestamp, `e` the offset, `f` the key's length, `g` and `h` the value's: moved down by one byte for
    # each number before them that has two. A shape that does not fit makes the length -1, for `read_record`.
    make, size, position = tuple.__new__, len(block), 0
    block = b"".join((block, _LOOK_AHEAD))
    next_delta, stamp, timestamp, key, value = 0, -1, 0, None, None
    headers: tuple[Header, ...]
    for left in range(count - 1, -1, -1):
        a, b, c, d, e, f, g, h, i, j = _peek_ten(block, position)
        if a < 128:
            body = position + 1
            d, e, f, g, h, i = c, d, e, f, g, h
        else:
            body = position + 2
            a = a & 127 | b << 7 if b < 128 else -1
        at = body + 3
        if d > 127:
            a = a if e < 128 else -1
            d, e, f, g, h, i = d & 127 | e << 7, f, g, h, i, j
            at += 1
        if e > 127:
            a = a if f < 128 else -1
            e, f, g, h = e & 127 | f << 7, g, h, i
            at += 1
        if f == 1:
            key = None
            at += 1
        elif f & 129:  # negative, or longer than one byte
            key, a = None, -1
        else:
            key = block[at + 1 : (at := at + 1 + (f >> 1))]
            g, h = _peek_two(block, at)
        # A third byte of the value's length makes `stop` too large for any `a` of two bytes.
        start = at + 1 if g < 128 else at + 2
        stop = start + (g >> 1) if g < 128 else start + (g >> 1 & 63 | h << 6)
        value, headers, behind = block[start:stop], (), stop + 1
        if a > 0 and stop < size and block[stop]:
            headers, behind = read_headers(block, stop, size)
        if a != behind - body << 1 or behind > size or g & 1:
            d, e, key, value, headers, behind = read_record(block, position, size)
        position = behind
        if e != next_delta and (e < next_delta or e & 1 or (e >> 1) + left > last_offset_delta):
            raise CorruptRecord(f"offset delta {e >> 1 ^ -(e & 1)} where {next_delta >> 1} is next")
        next_delta = e + 2
        if d != stamp:
            stamp, timestamp = d, base_timestamp + (d >> 1 ^ -(d & 1)) * use_delta
        yield make(Record, (base_offset + (e >> 1), timestamp, key, value, headers))
    if position != size:
        raise CorruptRecord(f"{size - position} bytes are left over after {count} records")


def read_record(block: bytes, position: int, size: int) -> _Fields:
    """Any record, number by number. Timestamp and offset delta stay in zig-zag form, as the loop above has
    them.
    """
    length, position = read_varint(block, position)
    end = position + length
    timestamp, position = read_zigzag(block, position + 1)
    offset, position = read_zigzag(block, position)
    key, position = _read_bytes(block, position, size)
    value, position = _read_bytes(block, position, size)
    headers, position = read_headers(block, position, size)
    if position != end:
        raise CorruptRecord(f"a record ends at byte {position}, its length says {end}")
    return timestamp, offset, key, value, headers, position


def _read_bytes(block: bytes, position: int, size: int) -> tuple[bytes | None, int]:
    n, position = read_zigzag(block, position)
    if n == 1:
        return None, position
    end = position + (n >> 1)
    if n & 1 or end > size:
        raise CorruptRecord(f"a field of {n >> 1 ^ -(n & 1)} bytes at byte {position} of a block of {size}")
    return block[position:end], end


def read_headers(block: bytes, position: int, size: int) -> tuple[tuple[Header, ...], int]:
    count, position = read_varint(block, position)
    if position > size:
        raise CorruptRecord(f"the records block ends inside a record, at byte {size}")
    # A header has two bytes at least, so this many cannot be: nothing is made for a number that was made up.
    if not 0 <= count << 1 <= size - position:
        raise CorruptRecord(f"{count} headers do not fit into {size - position} bytes")
    headers: list[Header] = []
    for _ in range(count):
        # In place when the length has one byte and is not negative: it nearly always does, and records have
        # many.
        if (n := block[position]) & 129:
            key, position = _read_bytes(block, position, size)
        else:
            key = block[position + 1 : (position := position + 1 + (n >> 1))]
        if key is None or position >= size:
            raise CorruptRecord(f"a header without a key or a value, before byte {position}")
        if (n := block[position]) & 129:
            value, position = _read_bytes(block, position, size)
        else:
            value = block[position + 1 : (position := position + 1 + (n >> 1))]
        headers.append((key.decode("utf-8", "surrogateescape"), value))
    if position > size:
        raise CorruptRecord(f"the records block ends inside a record, at byte {size}")
    return tuple(headers), position
