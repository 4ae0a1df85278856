"""Batches of one record each, as producers write them that do not wait: many of them are cut out in one go.

Batches that are not plain, or damaged, or too few, are left to `decoding`, which reads them one by one and
describes damage.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from struct import Struct, iter_unpack
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.records.corruption import CorruptRecord
from ottla.records.header import (
    BATCH_OVERHEAD_BYTES,
    CODEC_MASK,
    CONTROL,
    CRC_START,
    HEADER_BYTES,
    LOG_APPEND_TIME,
)
from ottla.records.uniform_runs import layout_of
from ottla.records.varint import read_zigzag, varint

_SHORTEST_RUN: Final = 16  # below that, finding out costs more than it saves
# Attributes of batches that need more than cutting out.
NOT_PLAIN: Final = CODEC_MASK | CONTROL | LOG_APPEND_TIME
_COUNT_AT: Final = HEADER_BYTES - 4
_ONE_RECORD: Final = b"\0\0\0\1"
# Base offset, length, leader epoch, checksum, attributes, last offset delta, first timestamp.
_peek: Final = Struct(">qiixIhiq").unpack_from
_FIELDS: Final = 10  # that such a batch is cut into


class LoneRun(NamedTuple):
    """Records that have batches of their own, with offsets that follow each other."""

    end: int
    first_offset: int
    timestamps: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]


def lone_records(source: bytes, start: int, end: int, most: int, *, check_crcs: bool) -> LoneRun | None:
    """The records of batches that are alike, or that have no keys; None if they have to be looked at one by
    one.
    """
    run = lone_run(source, start, end, most, check_crcs=check_crcs)
    return run or lone_values(source, start, end, most, check_crcs=check_crcs)


def lone_run(source: bytes, start: int, end: int, most: int, *, check_crcs: bool) -> LoneRun | None:
    """Up to `most` batches that begin before the end, if they are alike in all but offset, times, producer,
    key and value.

    None if they are not, or too few, or damaged: then they have to be looked at one by one.
    """
    size = int.from_bytes(source[start + 8 : start + BATCH_OVERHEAD_BYTES]) + BATCH_OVERHEAD_BYTES
    most = min(most, -((start - end) // size), (len(source) - start) // size)
    sizes = source[start + BATCH_OVERHEAD_BYTES - 1 : start + most * size : size]  # their lowest bytes
    count = most - len(sizes.lstrip(sizes[:1]))
    shape = _lone_shape(source, start, size) if count >= _SHORTEST_RUN else None
    if shape is None:
        return None
    run = memoryview(source)[start : start + count * size]
    # One list, from which the columns are taken: rows that live together would keep the garbage collector
    # busy.
    fields = list(chain.from_iterable(iter_unpack(shape.format, run)))
    bases, same, crcs, plain, times, front, keys, value_length, values, last = [
        fields[column::_FIELDS] for column in range(_FIELDS)
    ]
    if any(each.count(each[0]) < count for each in (same, plain, front, value_length, last)):
        return None
    if bases != list(range(bases[0], bases[0] + count)):
        return None
    if check_crcs:
        covered = chain.from_iterable(iter_unpack(f"{CRC_START}x{size - CRC_START}s", run))
        if list(map(crc32c, covered)) != crcs:
            return None
    nothing = [None] * count
    return LoneRun(
        start + count * size,
        bases[0],
        times,
        nothing if shape.key_bytes < 0 else keys,
        nothing if shape.value_bytes < 0 else values,
    )


def lone_values(source: bytes, start: int, end: int, most: int, *, check_crcs: bool) -> LoneRun | None:
    """The same of batches of any size whose records have no key; None if they are too few, or damaged."""
    values: list[bytes | None] = []
    timestamps: list[int] = []
    position, next_offset, common_epoch = start, None, None
    while position < end and len(values) < most:
        base, length, epoch, crc, attributes, last, time = _peek(source, position)
        front, behind = _lone_front(length), position + length + BATCH_OVERHEAD_BYTES
        if not source.startswith(front, position + _COUNT_AT) or source[behind - 1] or last:
            break
        if attributes & NOT_PLAIN or (values and (base != next_offset or epoch != common_epoch)):
            break
        if check_crcs and crc32c(source[position + CRC_START : behind]) != crc:
            break
        values.append(source[position + _COUNT_AT + len(front) : behind - 1])
        timestamps.append(time)
        position, next_offset, common_epoch = behind, base + 1, epoch
    if next_offset is None or len(values) < _SHORTEST_RUN:
        return None
    return LoneRun(position, next_offset - len(values), timestamps, [None] * len(values), values)


@lru_cache(maxsize=1 << 13)
def _lone_front(batch_length: int) -> bytes:
    """The bytes from the count of records to the value in such a batch; bytes that match nothing, if there is
    no such batch.
    """
    size = batch_length + BATCH_OVERHEAD_BYTES - HEADER_BYTES
    for length_bytes, value_length_bytes in ((1, 1), (2, 1), (2, 2)):
        length = size - length_bytes
        value_bytes = length - 5 - value_length_bytes
        if value_bytes >= 0 and (len(varint(length)), len(varint(value_bytes))) == (
            length_bytes,
            value_length_bytes,
        ):
            return _ONE_RECORD + varint(length) + bytes(3) + varint(-1) + varint(value_bytes)
    return b"none"


class _LoneShape(NamedTuple):
    format: str
    key_bytes: int
    value_bytes: int


def _lone_shape(source: bytes, start: int, size: int) -> _LoneShape | None:
    """How to take such batches apart; None if this one has several records, or is compressed, or whatever
    else.
    """
    plain = source[start + CRC_START : start + CRC_START + 6]  # attributes and last offset delta
    if (
        any(plain[2:])
        or plain[1] & NOT_PLAIN
        or source[start + _COUNT_AT : start + HEADER_BYTES] != _ONE_RECORD
    ):
        return None
    try:
        length, body = read_zigzag(source, start + HEADER_BYTES)
        layout = layout_of(source, body, start + size)
    except (IndexError, CorruptRecord):
        return None
    if length & 1 or body + (length >> 1) != start + size:
        return None
    if layout is None or layout.delta or source[layout.timestamp_at : layout.offset_at] != b"\0":
        return None
    front, key, value = (
        layout.key_at - start - _COUNT_AT,
        max(0, layout.key_bytes),
        max(0, layout.value_bytes),
    )
    value_length = layout.value_at - layout.value_length_at
    return _LoneShape(
        f">q9sI6sq22x{front}s{key}s{value_length}s{value}sc", layout.key_bytes, layout.value_bytes
    )
