"""Where each record of a batch lies, what its key is, and whether it has a value: all that compaction asks.

A record that stays is copied as the bytes it is. So values and headers are stepped over by the record's length, and
nothing is decoded or encoded again: half the time of reading whole records.
"""

from collections.abc import Iterator
from typing import TypeAlias

from ottla.records.batch import HEADER_BYTES, BatchView, CorruptRecord
from ottla.records.compression import decompress
from ottla.records.varint import read_varint

Span: TypeAlias = tuple[int, int, int, bytes | None, bool]
"""Start, end, offset delta, key, whether there is a value."""


class Block:
    """The records of a batch, open: bytes from `start` to `end` of `data`."""

    __slots__ = ("data", "end", "start")

    def __init__(self, data: bytes, start: int, end: int) -> None:
        self.data = data
        self.start = start
        self.end = end


def open_block(batch: BatchView) -> Block:
    """The records of a batch, decompressed if they must be. CorruptRecord if that cannot be."""
    if not batch.compression or not batch.records_count:
        start = batch.position + HEADER_BYTES
        data = batch.buffer if isinstance(batch.buffer, bytes) else bytes(batch.buffer)
        return Block(data, start, batch.position + batch.size_bytes)
    data = decompress(batch.compression, batch.view()[HEADER_BYTES:])
    return Block(data, 0, len(data))


def read_spans(block: Block, count: int) -> Iterator[Span]:
    """One after the other; they must fill the block. CorruptRecord where that makes no sense."""
    try:
        yield from _read_spans(block, count)
    except IndexError:
        raise CorruptRecord(f"the records block ends inside a record, at byte {block.end}") from None


def _read_spans(block: Block, count: int) -> Iterator[Span]:
    # Dense on purpose: once per record of every compaction. Numbers of one and two bytes are read in place.
    data, position, end = block.data, block.start, block.end
    previous = -1
    for _ in range(count):
        start = position
        length = data[position]
        position += 1
        if length > 127:
            if (more := data[position]) < 128:
                length, position = length & 127 | more << 7, position + 1
            else:
                signed, position = read_varint(data, start)
                length = signed << 1
        stop = position + (length >> 1)
        position += 1
        while data[position] > 127:
            position += 1
        position += 1
        delta = data[position]
        position += 1
        if delta > 127:
            if (more := data[position]) < 128:
                delta, position = delta & 127 | more << 7, position + 1
            else:
                signed, position = read_varint(data, position - 1)
                delta = signed << 1
        delta >>= 1
        size = data[position]
        position += 1
        if size > 127:
            signed, position = read_varint(data, position - 1)
            size = signed << 1
        if size == 1:
            key = None
        else:
            key = data[position : (position := position + (size >> 1))]
        if not position < stop <= end or delta <= previous:
            raise CorruptRecord(f"no record starts at byte {start} of a block that ends at {end}")
        previous = delta
        yield start, stop, delta, key, data[position] != 1
        position = stop
    if position != end:
        raise CorruptRecord(f"{end - position} bytes are left over behind {count} records")


def timestamp_delta_at(data: bytes, start: int) -> int:
    """The timestamp delta of the record that starts here."""
    _, position = read_varint(data, start)
    return read_varint(data, position + 1)[0]
