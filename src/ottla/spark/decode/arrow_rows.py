"""Blocks of records, one behind the other in one buffer, become one Arrow record batch: the kernel.

No Python object is made per key, value or number. Keys and values lie in the buffer with other bytes between
them; Arrow takes the buffer as it is for an array of binary whose borders are all beginnings and ends (key,
gap, key, gap, …), and `take` copies every second of them together. The constant columns (topic, partition)
are made once and sliced.

Batches that are unusual (UnusualError) or damaged are decoded the slow way, batch by batch, by
`records.decoding`: that alone decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.records.corruption import CorruptRecord
from ottla.records.decoding import decode_columns
from ottla.records.header import LOG_APPEND_TIME, BatchHeader
from ottla.spark.decode.headers import arrow_headers, read_arrow_headers
from ottla.spark.decode.record_fields import Bytes, Field, Fields, Numbers, read_fields
from ottla.spark.decode.record_starts import Source, UnusualError, add_starts
from ottla.spark.decode.schema import TIMESTAMP, arrow_schema

# Spark counts microseconds in 64 bits, Kafka milliseconds.
_LARGEST_MS: Final = (2**63 - 1) // 1000


class Block(NamedTuple):
    """The records of one batch, decompressed, at a place in a buffer."""

    header: BatchHeader
    begin: int
    end: int


class DamagedBlockError(Exception):
    """A block whose records make no sense."""

    def __init__(self, block: Block, damage: CorruptRecord) -> None:
        super().__init__(block, damage)
        self.block = block
        self.damage = damage


class Constants:
    """The columns that are the same in every row, as long as was ever needed."""

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition
        self._size = 0
        self._grow(1024)

    def columns(self, count: int) -> tuple[pa.Array, pa.Array]:
        """Topic and partition, repeated `count` times."""
        if count > self._size:
            self._grow(max(count, 2 * self._size))
        return self._topics.slice(0, count), self._partitions.slice(0, count)

    def every_second(self, count: int) -> pa.Array:
        """0, 2, 4, …"""
        if count > self._size:
            self._grow(max(count, 2 * self._size))
        return self._every_second.slice(0, count)

    def _grow(self, size: int) -> None:
        self._size = size
        self._topics = pa.repeat(pa.scalar(self._topic, pa.string()), size)
        self._partitions = pa.repeat(pa.scalar(self._partition, pa.int32()), size)
        self._every_second = pa.array(np.arange(0, 2 * size, 2, dtype=np.int32))


def arrow_rows(
    source: Source, blocks: Sequence[Block], constants: Constants, *, include_headers: bool
) -> pa.RecordBatch:
    """The records of the blocks, in order; DamagedBlockError if one makes no sense. Each block has a record
    at least.
    """
    try:
        return _fast(source, blocks, constants, include_headers)
    except UnusualError:
        parts = [_slow(source, block, constants, include_headers) for block in blocks]
        return pa.concat_batches(parts) if len(parts) > 1 else parts[0]


# ---- the fast way


def _fast(
    source: Source, blocks: Sequence[Block], constants: Constants, include_headers: bool
) -> pa.RecordBatch:
    starts: list[int] = []
    for header, begin, end in blocks:
        add_starts(source, begin, end, header[12], starts)
    counts = np.array([block.header[12] for block in blocks], np.int64)
    begins = np.array(starts, np.int64)
    ends = np.empty_like(begins)
    ends[:-1] = begins[1:]
    ends[np.cumsum(counts) - 1] = [block.end for block in blocks]
    data = np.frombuffer(source, np.uint8)
    fields = read_fields(data, begins, ends)
    columns: list[Any] = [
        _binary(source, fields.keys, constants),
        _binary(source, fields.values, constants),
        *constants.columns(len(starts)),
        pa.array(_offsets(fields, blocks, counts)),
        _timestamps(fields, blocks, counts),
        _timestamp_types(blocks, counts),
    ]
    if include_headers:
        columns.append(_headers(source, data, fields))
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(include_headers=include_headers))


def _binary(source: Source, field: Field, constants: Constants) -> pa.Array:
    count = len(field.begin)
    if field.nulls is not None and field.nulls.all():
        return pa.nulls(count, pa.binary())
    borders = np.empty(2 * count + 1, np.int32)
    borders[0:-1:2] = field.begin
    borders[1::2] = field.end
    borders[-1] = field.end[-1]
    buffers = [None, pa.py_buffer(borders), pa.py_buffer(source)]
    slots = pa.Array.from_buffers(pa.binary(), 2 * count, buffers)
    wanted = constants.every_second(count)
    if field.nulls is not None:
        wanted = pa.array(wanted.to_numpy(), mask=field.nulls)
    return slots.take(wanted)


def _offsets(fields: Fields, blocks: Sequence[Block], counts: Numbers) -> Numbers:
    bases = np.array([block.header[0] for block in blocks], np.int64)
    lasts = fields.offset_deltas[np.cumsum(counts) - 1]
    offsets: Numbers = _spread(bases, counts) + fields.offset_deltas
    is_in_order = bool((np.diff(offsets) > 0).all())
    if not is_in_order or (lasts > np.array([block.header[6] for block in blocks], np.int64)).any():
        raise UnusualError
    return offsets


def _timestamps(fields: Fields, blocks: Sequence[Block], counts: Numbers) -> pa.Array:
    stamped = [bool(block.header[5] & LOG_APPEND_TIME) for block in blocks]
    bases = np.array(
        [block.header[8] if by_broker else block.header[7] for block, by_broker in zip(blocks, stamped, strict=True)],
        np.int64,
    )  # fmt: skip
    deltas = fields.timestamp_deltas
    if any(stamped):
        deltas = np.where(_spread(np.array(stamped), counts), 0, deltas)
    for part in (bases, deltas):
        if part.max() > _LARGEST_MS // 2 or part.min() < -(_LARGEST_MS // 2):
            raise UnusualError
    micros = (_spread(bases, counts) + deltas) * 1000
    return pa.array(micros).view(TIMESTAMP)


def _timestamp_types(blocks: Sequence[Block], counts: Numbers) -> pa.Array:
    types = [int(bool(block.header[5] & LOG_APPEND_TIME)) for block in blocks]
    return pa.array(_spread(np.array(types, np.int32), counts))


def _spread(of_blocks: Any, counts: Numbers) -> Any:
    """For each record what holds for its block."""
    return np.repeat(of_blocks, counts)


def _headers(source: Source, data: Bytes, fields: Fields) -> pa.Array:
    is_bare = data.take(fields.headers_at) == 0
    if is_bare.all() and np.array_equal(fields.headers_at + 1, fields.ends):
        return pa.nulls(len(is_bare), arrow_schema(include_headers=True).field("headers").type)
    return read_arrow_headers(source, fields.headers_at, fields.ends)


# ---- the slow way


def _slow(source: Source, block: Block, constants: Constants, include_headers: bool) -> pa.RecordBatch:
    try:
        columns = decode_columns(block.header, memoryview(source)[block.begin : block.end])
        if max(map(abs, columns.timestamps)) > _LARGEST_MS:
            raise CorruptRecord("a timestamp does not fit into the 64 bits of Spark's microseconds")
    except CorruptRecord as damage:
        raise DamagedBlockError(block, damage) from damage
    count = len(columns.values)
    timestamp_type = int(bool(block.header[5] & LOG_APPEND_TIME))
    arrays: list[Any] = [
        pa.array(columns.keys, pa.binary()),
        pa.array(columns.values, pa.binary()),
        *constants.columns(count),
        pa.array(columns.offsets, pa.int64()),
        pa.array([each * 1000 for each in columns.timestamps], pa.int64()).view(TIMESTAMP),
        pa.array([timestamp_type] * count, pa.int32()),
    ]
    if include_headers:
        arrays.append(arrow_headers(columns.headers or [()] * count))
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(include_headers=include_headers))
