"""Where each record of a batch lies, what its key is, and whether it has a value: all that compaction asks.

A record that stays is copied as the bytes it is. So values and headers are stepped over by the record's
length, and nothing is decoded or encoded again: half the time of reading whole records.
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from ottla.records.batch import CODEC_MASK, HEADER_BYTES, BatchView, CorruptRecord
from ottla.records.compression import decompress
from ottla.records.varint import read_varint, read_zigzag

Span: TypeAlias = tuple[int, int, int, bytes | None, bool]
"""Start, end, offset delta, key, whether there is a value."""


class Block(NamedTuple):
    """The records of a batch, open: `count` of them from `start` to `end` of `data`."""

    data: bytes
    start: int
    end: int
    records_count: int
    last_offset_delta: int


def open_block(batch: BatchView) -> Block:
    """The records of a batch, decompressed if they must be. CorruptRecord if that cannot be."""
    header = batch.header
    if header.attributes & CODEC_MASK and header.records_count:
        data = decompress(batch.compression, batch.view()[HEADER_BYTES:])
        return Block(data, 0, len(data), header.records_count, header.last_offset_delta)
    start, end = batch.position + HEADER_BYTES, batch.position + header.size_bytes
    data = batch.buffer if isinstance(batch.buffer, bytes) else bytes(batch.buffer)
    return Block(data, start, end, header.records_count, header.last_offset_delta)


def read_spans(block: Block) -> Iterator[Span]:
    """One after the other; they must fill the block. CorruptRecord where that makes no sense."""
    # Dense on purpose: once per record of every compaction. Numbers of one and two bytes are read in place;
    # all stay in zig-zag form, in which an odd one is negative and an even one is twice its value.
    data, position, end, count, last_offset_delta = block
    previous = -1
    try:
        for _ in range(count):
            start = position
            length = data[position]
            position += 1
            if length > 127:
                if (more := data[position]) < 128:
                    length, position = length & 127 | more << 7, position + 1
                else:
                    length, position = read_zigzag(data, start)
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
                    delta, position = read_zigzag(data, position - 1)
            size = data[position]
            position += 1
            if size > 127:
                size, position = read_zigzag(data, position - 1)
            if size & 1:
                key = None
                length |= size != 1  # no key has any other negative length
            else:
                key = data[position : (position := position + (size >> 1))]
            if not position < stop <= end or delta <= previous or (length | delta) & 1:
                raise CorruptRecord(f"no record starts at byte {start} of a block that ends at {end}")
            previous = delta
            yield start, stop, delta >> 1, key, data[position] != 1
            position = stop
    except IndexError:
        raise CorruptRecord(f"the records block ends inside a record, at byte {end}") from None
    if position != end or previous >> 1 > last_offset_delta:
        raise CorruptRecord(
            f"{count} records end at byte {position}, offset delta {previous >> 1}: not where they should"
        )


def timestamp_delta_at(data: bytes, start: int) -> int:
    """The timestamp delta of the record that starts here."""
    _, position = read_varint(data, start)
    return read_varint(data, position + 1)[0]
