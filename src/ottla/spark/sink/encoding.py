"""The kernel of the sink: columns of Arrow become the records of batches, without a Python object for a
record.

A record in a batch is its length, attributes, timestamp delta, offset delta, key, value and headers, each
field with its length before it (varints, zigzag). Lengths come out of the columns' offsets by numpy, their
varints out of tables by `take`, and one `binary_join_element_wise` puts varints, keys and values next to each
other: the data buffer of what it answers is the records of all blocks, one after the other.

Rules
- The bytes are those that `ottla.records.builder` makes of the same records.
- Rows are in the order of their partitions; a block holds rows of one partition and takes `limit_bytes` at
  most, or one row.
- A record ends with the count of its headers, nearly always 0. That byte is written before the next record
  instead, which saves a column: a block lacks its first byte and has one after its last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ottla.records.record import Header
from ottla.records.varint import varint

Numbers = npt.NDArray[np.int64]

# A larger length is made where it is needed: copying so large a field costs more.
_TABLE_SIZE: Final = 1 << 14
_NULL: Final = -1
_NO_HEADERS: Final = b"\0"
# No attributes, and the timestamp of the batch.
_PREFIX: Final = b"\0\0"
# At most: the length and the offset delta of a record, with which `limit_bytes` is kept.
_NUMBERS_BYTES: Final = 10


@dataclass(frozen=True, slots=True)
class Rows:
    """The columns of records. `value`, `key` and `headers` (encoded, see `encode_headers`) are binary arrays
    of one length.
    """

    value: pa.Array
    key: pa.Array | None = None
    headers: pa.Array | None = None
    header_lists: pa.Array | None = None

    def take(self, indices: npt.NDArray[Any]) -> Rows:
        """These rows, in this order."""
        chosen = pa.array(indices)
        columns = (self.value, self.key, self.headers, self.header_lists)
        return Rows(*(None if column is None else column.take(chosen) for column in columns))

    def fields(self, index: int) -> tuple[bytes | None, bytes | None, tuple[Header, ...]]:
        """One record's value, key and headers as Python knows them."""
        key = None if self.key is None else self.key[index].as_py()
        listed = None if self.header_lists is None else self.header_lists[index].as_py()
        headers = tuple((each["key"], each["value"]) for each in listed or ())
        return self.value[index].as_py(), key, headers


@dataclass(frozen=True, slots=True)
class Block:
    """Rows from `start` to `end`, which are of one partition, as parts of a batch."""

    partition: int
    start: int
    end: int
    encoded: tuple[bytes | memoryview, ...]


def encode(rows: Rows, partitions: npt.NDArray[Any], limit_bytes: int) -> Iterator[Block]:
    """The blocks of rows that are ordered by their partitions."""
    if not len(partitions):
        return
    values, keys = lengths(rows.value), None if rows.key is None else lengths(rows.key)
    headers = None if rows.headers is None else lengths(rows.headers)
    sizes = len(_PREFIX) + _field_bytes(values) + (1 if keys is None else _field_bytes(keys))
    sizes += len(_NO_HEADERS) if headers is None else headers
    starts = _cuts(partitions, sizes, limit_bytes)
    ends = np.append(starts[1:], len(partitions))
    deltas = np.arange(len(partitions)) - np.repeat(starts, ends - starts)
    joined = _joined(rows, values, keys, sizes + _width(deltas), deltas)
    at, data = _offsets(joined), memoryview(joined.buffers()[2])
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        first, last = int(at[start]), int(at[end])
        if headers is None:
            parts: tuple[bytes | memoryview, ...] = (data[first + 1 : last], _NO_HEADERS)
        else:
            parts = (data[first:last],)
        yield Block(int(partitions[start]), start, end, parts)


def _joined(rows: Rows, values: Numbers, keys: Numbers | None, sizes: Numbers, deltas: Numbers) -> pa.Array:
    """A binary array with each record; see the rules for where the count of no headers stands."""
    before = _NO_HEADERS if rows.headers is None else b""
    columns = [_varints(sizes, before=before, after=_PREFIX), _varints(deltas)]
    if rows.key is None or keys is None:
        columns.append(_varints(values, before=varint(_NULL)))
    else:
        columns += [_varints(keys), rows.key, _varints(values)]
    columns.append(rows.value)
    if rows.headers is not None:
        columns.append(rows.headers)
    nothing = pa.scalar(b"", pa.binary())
    return pc.binary_join_element_wise(*columns, nothing, null_handling="replace", null_replacement=b"")


def _cuts(partitions: npt.NDArray[Any], sizes: Numbers, limit_bytes: int) -> Numbers:
    """Where blocks start: where the partition changes, and where a block would become too large."""
    groups = np.flatnonzero(np.diff(partitions)) + 1
    ends = np.cumsum(sizes + _NUMBERS_BYTES)
    starts: list[int] = []
    for start, end in zip([0, *groups.tolist()], [*groups.tolist(), len(partitions)], strict=True):
        while start < end:
            starts.append(start)
            before = int(ends[start - 1]) if start else 0
            start = min(end, max(start + 1, int(np.searchsorted(ends, before + limit_bytes, "right"))))
    return np.array(starts, dtype=np.int64)


def encode_headers(lists: pa.Array) -> pa.Array:
    """A column of arrays of (key, value), as a binary column: the count of a record's headers, and the
    headers.
    """
    flat = lists.flatten()  # of those lists that are not null
    if not len(flat):
        return pa.nulls(len(lists), pa.binary()).fill_null(_NO_HEADERS)
    names = flat.field("key").cast(pa.binary())
    contents = flat.field("value").cast(pa.binary())
    if names.null_count or flat.null_count:
        raise ValueError("the key of a header must not be null")
    nothing = pa.scalar(b"", pa.binary())
    headers = pc.binary_join_element_wise(
        _varints(lengths(names)), names, _varints(lengths(contents)), contents, nothing,
        null_handling="replace", null_replacement=b"",
    )  # fmt: skip
    counts = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    at = _offsets(headers)[np.concatenate(([0], np.cumsum(counts)))].astype(np.int32)
    together = pa.Array.from_buffers(
        pa.binary(), len(lists), [None, pa.py_buffer(at), headers.buffers()[2]]
    )  # each record's headers lie side by side already
    return pc.binary_join_element_wise(_varints(counts), together, nothing)


def lengths(column: pa.Array) -> Numbers:
    """The length of each value of a binary column; -1 for null, as in a record."""
    made = np.diff(_offsets(column)).astype(np.int64)
    if column.null_count:
        made[column.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return made


def _offsets(column: pa.Array) -> npt.NDArray[np.int32]:
    whole = np.frombuffer(column.buffers()[1], dtype=np.int32)
    return whole[column.offset : column.offset + len(column) + 1]


def _field_bytes(sizes: Numbers) -> Numbers:
    """The sizes of fields of these lengths, the length prefixes included."""
    return np.maximum(sizes, 0) + _width(sizes)


def _width(numbers: Numbers) -> Numbers:
    """How many bytes the varints of these take; none is below -1."""
    widths = np.ones(len(numbers), dtype=np.int64)
    largest = int(numbers.max(initial=0))
    for bits in (6, 13, 20, 27):
        if largest >> bits:
            widths += numbers >= 1 << bits
    return widths


def _varints(numbers: Numbers, *, before: bytes = b"", after: bytes = b"") -> pa.Array:
    """A binary column with each number as a varint between these bytes."""
    if int(numbers.max(initial=0)) < _TABLE_SIZE - 1:
        return _table(before, after).take(pa.array(numbers + 1))
    return _made(numbers, before, after)


@lru_cache(maxsize=8)
def _table(before: bytes, after: bytes) -> pa.Array:
    """From -1 on."""
    return _made(np.arange(_NULL, _TABLE_SIZE), before, after)


def _made(numbers: Numbers, before: bytes, after: bytes) -> pa.Array:
    """All first bytes of the varints, then all second ones of those that have one, and so on."""
    zigzag, widths = np.where(numbers < 0, -2 * numbers - 1, 2 * numbers), _width(numbers)
    ends = np.cumsum(widths + len(before) + len(after))
    starts = ends - widths - len(after)
    data = np.empty(int(ends[-1]), dtype=np.uint8)
    for place in range(int(widths.max())):
        rows = widths > place
        more = np.where(widths[rows] > place + 1, 0x80, 0)
        data[starts[rows] + place] = (zigzag[rows] >> 7 * place) & 0x7F | more
    for place, byte in enumerate(before):
        data[starts - len(before) + place] = byte
    for place, byte in enumerate(after):
        data[starts + widths + place] = byte
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
