"""Many records at once: whole columns of keys and values become the records block of a batch.

A producer knows all records of a batch before it writes one, so they are not encoded one by one: lengths,
offsets and prefixes come out of tables, column by column, and one join puts them between the keys and values.
The loop runs in C; a record of 100 bytes costs half of what `put_record` takes for it.

Rules
- The bytes are those that `build_batch` makes of the same records.
- Where the loop over records is compiled (`compiled`), it writes them all, and what follows is for columns that it
  leaves alone.
- Columns are for the usual record: no headers, values and keys below 4 KiB, no null but a null key in all
  records of a stretch. A stretch of records (same timestamp, offsets of the same width) that holds anything
  else, or only a handful of records, is written record by record.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, repeat
from operator import add
from typing import Any, Final, NamedTuple

from ottla.model import NO_TIMESTAMP
from ottla.records.builder import SMALL_VARINTS, Span, put_record, timestamp_prefix
from ottla.records.compiled import Put, compiled_put
from ottla.records.record import Header
from ottla.records.varint import varint

# Fewer records than this are written one by one before the columns are set up.
_FEW_RECORDS: Final = 8
_TABLE_SIZE: Final = 4096
# Offsets below these take one and two bytes.
_OFFSET_WIDTHS: Final = ((1 << 6, 1), (1 << 13, 2), (1 << 20, 3), (1 << 27, 4), (1 << 34, 5))

# The size of a field of n bytes, its length prefix included.
_FIELD_BYTES: Final = tuple([n + len(SMALL_VARINTS[n]) for n in range(_TABLE_SIZE)])
# A null key, followed by the length of a value of n bytes.
_NULL_KEY: Final = tuple([varint(-1) + SMALL_VARINTS[n] for n in range(_TABLE_SIZE)])
_NO_HEADERS: Final = b"\0"
# The count of headers closes a record. Here it stands before the length of the next one, which saves a part
# per record.
_NEXT_LENGTH: Final = tuple([_NO_HEADERS + varint(n) for n in range(2 * _TABLE_SIZE + 32)])


class Columns(NamedTuple):
    """The records of a batch. `keys` is None if none has a key; `headers` has only the records with headers.

    `stamps` are timestamps with the index of the first record that has them, in order of the index; the first
    index is 0.
    """

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None
    headers: Mapping[int, Sequence[Header]]
    stamps: Sequence[tuple[int, int]]

    @property
    def span(self) -> Span:
        """The batch header's fields about the records."""
        timestamps = [timestamp for _, timestamp in self.stamps]
        return Span(len(self.values), len(self.values) - 1, timestamps[0], max(NO_TIMESTAMP, *timestamps))


def encode_columns(columns: Columns, size_bytes: int = 0, put: Put | None = compiled_put) -> list[bytes]:
    """The records block, in parts to be joined; `size_bytes` is about its size, if that is known."""
    if put is not None and (block := put(*columns, size_bytes)) is not None:
        return [block]
    parts: list[bytes] = []
    base_timestamp = columns.stamps[0][1]
    for start, end, timestamp in _runs(columns):
        prefix = timestamp_prefix(timestamp - base_timestamp)
        for begin, stop, width in _stretches(start, end):
            _encode_stretch(columns, begin, stop, prefix, width, parts)
    return parts


def _runs(columns: Columns) -> Iterator[tuple[int, int, int]]:
    """From where to where which timestamp holds."""
    ends = [start for start, _ in columns.stamps[1:]]
    for (start, timestamp), end in zip(columns.stamps, [*ends, len(columns.values)], strict=True):
        yield start, end, timestamp


def _stretches(start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The run in pieces whose offsets are equally wide, with the width."""
    for limit, width in _OFFSET_WIDTHS:
        if start < min(limit, end):
            yield start, min(limit, end), width
            start = limit


def _encode_stretch(
    columns: Columns, start: int, end: int, prefix: bytes, width: int, parts: list[bytes]
) -> None:
    if end - start >= _FEW_RECORDS and not columns.headers:
        try:
            parts += _in_columns(columns, start, end, prefix, width)
        except (IndexError, TypeError):  # a field too long for the tables, or null
            pass
        else:
            return
    values, keys, headers = columns.values, columns.keys, columns.headers
    for index in range(start, end):
        key = None if keys is None else keys[index]
        put_record(parts, prefix, index, key, values[index], headers.get(index, ()))


def _in_columns(columns: Columns, start: int, end: int, prefix: bytes, width: int) -> list[bytes]:
    values = columns.values[start:end]
    value_sizes = list(map(len, values))  # type: ignore[arg-type]  # null raises TypeError, as intended
    offsets = SMALL_VARINTS[start:end] if end <= len(SMALL_VARINTS) else tuple(map(varint, range(start, end)))
    fixed_bytes = len(prefix) + width + len(_NO_HEADERS)
    lengths: Iterator[bytes]
    pieces: Iterable[tuple[Any, ...]]
    if columns.keys is None:
        lengths = map(_lengths(fixed_bytes + len(varint(-1))).__getitem__, value_sizes)
        pieces = zip(lengths, repeat(prefix), offsets, map(_NULL_KEY.__getitem__, value_sizes), values)
    else:
        keys = columns.keys[start:end]
        key_sizes = list(map(len, keys))  # type: ignore[arg-type]
        lengths = _lengths_with_keys(key_sizes, value_sizes, fixed_bytes)
        key_lengths = map(SMALL_VARINTS.__getitem__, key_sizes)
        value_lengths = map(SMALL_VARINTS.__getitem__, value_sizes)
        pieces = zip(lengths, repeat(prefix), offsets, key_lengths, keys, value_lengths, values)
    block = list(chain.from_iterable(pieces))
    block[0] = block[0][len(_NO_HEADERS) :]  # nothing stands before the first record
    block.append(_NO_HEADERS)
    return block


def _lengths_with_keys(key_sizes: list[int], value_sizes: list[int], fixed_bytes: int) -> Iterator[bytes]:
    first = key_sizes[0]
    if key_sizes.count(first) == len(key_sizes):  # most keys are ids of one kind
        return map(_lengths(fixed_bytes + _FIELD_BYTES[first]).__getitem__, value_sizes)
    key_fields = map(_FIELD_BYTES.__getitem__, key_sizes)
    fields = map(add, key_fields, map(_FIELD_BYTES.__getitem__, value_sizes))
    return map(_NEXT_LENGTH.__getitem__, map(fixed_bytes.__add__, fields))


@lru_cache(maxsize=64)
def _lengths(fixed_bytes: int) -> tuple[bytes, ...]:
    """The length of a record with a value of n bytes whose other parts take `fixed_bytes`."""
    return tuple([_NEXT_LENGTH[size + fixed_bytes] for size in _FIELD_BYTES])
