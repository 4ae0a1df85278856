"""Where the fields of many records lie, found for all of them at once.

A record is: length, attributes, timestamp delta, offset delta, key, value, headers; all numbers are zig-zag
varints. `numpy` reads the same number of all records in a few steps, one for each byte that some number has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ottla.spark.decode.record_starts import UnusualError

Numbers: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

# Longer ones are left to the slow way, so that nothing overflows here: a key's length of 56 bits still can be
# added up.
_MOST_BITS: Final = 56
_NULL: Final = 1  # -1 in zig-zag


@dataclass(frozen=True, slots=True)
class Field:
    """Keys or values: where each begins and ends, and which are null (None if none is)."""

    begin: Numbers
    end: Numbers
    nulls: npt.NDArray[np.bool_] | None


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of records. Deltas are to the base of each record's batch. Headers lie between `headers_at`
    and `ends`.
    """

    timestamp_deltas: Numbers
    offset_deltas: Numbers
    keys: Field
    values: Field
    headers_at: Numbers
    ends: Numbers


def read_fields(data: Bytes, starts: Numbers, ends: Numbers) -> Fields:
    """Raises UnusualError if a record makes no sense, or perhaps none; headers are not looked at."""
    lengths, at = read_varints(data, starts)
    _usual(not (lengths & 1).any() and np.array_equal(at + (lengths >> 1), ends))
    timestamps, at = read_varints(data, at + 1)
    offsets, at = read_varints(data, at)
    _usual(not (offsets & 1).any())
    keys = _field(data, at)
    values = _field(data, keys.end)
    # One byte at least is left for the count of headers. All lengths are positive, so what ends in time began
    # in time.
    _usual(bool((values.end < ends).all()))
    return Fields(timestamps >> 1 ^ -(timestamps & 1), offsets >> 1, keys, values, values.end, ends)


def read_varints(data: Bytes, at: Numbers) -> tuple[Numbers, Numbers]:
    """The numbers at these places, still in zig-zag, and the places after them. Places beyond the data repeat
    its last byte.
    """
    first = data.take(at, mode="clip")
    numbers, behind = first.astype(np.int64), at + 1
    if first.size and int(first.max()) < 0x80:  # nearly always
        return numbers, behind
    longer, shift = np.flatnonzero(first & 0x80), 7
    numbers[longer] &= 0x7F
    while longer.size:
        _usual(shift < _MOST_BITS)
        byte = data.take(behind[longer], mode="clip")
        numbers[longer] |= (byte & 0x7F).astype(np.int64) << shift
        behind[longer] += 1
        longer, shift = longer[byte > 0x7F], shift + 7
    return numbers, behind


def _field(data: Bytes, at: Numbers) -> Field:
    lengths, begin = read_varints(data, at)
    odd = (lengths & 1).astype(np.bool_)
    if not odd.any():
        return Field(begin, begin + (lengths >> 1), None)
    _usual(bool((lengths[odd] == _NULL).all()))
    return Field(begin, begin + (lengths >> 1), odd)  # a null's length is half of 1: none


def _usual(is_usual: bool) -> None:
    if not is_usual:
        raise UnusualError
