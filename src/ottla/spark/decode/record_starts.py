"""Where the records of a batch begin: the one step of the kernel that goes from record to record.

Each record tells how long it is, and only so is it known where the next one begins. Records of the same size
in a row are found by looking at the bytes where the next lengths would stand, all at once; the others are
hopped over one by one.
"""

from __future__ import annotations

from itertools import repeat
from typing import Final, TypeAlias

from ottla.records.corruption import CorruptRecord
from ottla.records.varint import read_zigzag

Source: TypeAlias = bytes | bytearray | memoryview

_SHORTEST_RUN: Final = 8  # below that, finding out costs more than it saves
_FIRST_CHUNK: Final = (
    32  # half of the records one by one before the next look for a run; then twice as many, and so on
)
# The step to the next record by the bytes of a length of two bytes. There is no entry for a high byte that is
# followed by a third one.
_LOW_HALVES: Final = tuple([2 + (byte >> 1 & 63) for byte in range(256)])
_HIGH_HALVES: Final = tuple([byte << 6 for byte in range(128)])


class UnusualError(Exception):
    """The records are not what they usually are, or damaged: the slow way finds out."""


def add_starts(source: Source, position: int, end: int, count: int, starts: list[int]) -> None:
    """Append where each of `count` records begins; UnusualError if they do not fill the bytes up to `end`
    exactly.
    """
    left, chunk = count, _FIRST_CHUNK
    try:
        while left > 0:
            run, stride = _run(source, position, end, left) if left >= _SHORTEST_RUN else (0, 0)
            if run:
                starts.extend(range(position, position + run * stride, stride))
                position += run * stride
                left -= run
                chunk = _FIRST_CHUNK
            else:
                chunk = min(2 * chunk, left)
                position = _hop(source, position, chunk, starts)
                left -= chunk
    except (IndexError, CorruptRecord) as error:
        raise UnusualError from error
    if position != end or left < 0:
        raise UnusualError


def _hop(source: Source, position: int, count: int, starts: list[int]) -> int:
    """Skip this many records, one by one; a negative length is not noticed here. Returns the position after
    them.
    """
    append, low_halves, high_halves, end = starts.append, _LOW_HALVES, _HIGH_HALVES, len(starts) + count
    while len(starts) < end:
        try:
            for _ in repeat(None, end - len(starts)):
                low = source[position]
                # By tables: adding up what they say takes half the time of shifting bits.
                step = 1 + (low >> 1) if low < 0x80 else low_halves[low] + high_halves[source[position + 1]]
                append(position)
                position += step
        except IndexError:  # a length of more than two bytes, or the end of all bytes, where this fails again
            length, body = read_zigzag(source, position)  # type: ignore[arg-type]
            append(position)
            position = body + (length >> 1)
    return position


def _run(source: Source, position: int, end: int, most: int) -> tuple[int, int]:
    """How many records in a row have the length of the first, and how many bytes each takes; none if they are
    few.
    """
    length, body = read_zigzag(source, position)  # type: ignore[arg-type]
    stride = body - position + (length >> 1)
    count = min(most, (end - position) // stride)
    # The first look is cheap: it fails for records of different sizes.
    if count < _SHORTEST_RUN or _same(source, position, _SHORTEST_RUN, stride) < _SHORTEST_RUN:
        return 0, 0
    for at in range(position, body):
        count = _same(source, at, count, stride)
    return (count, stride) if count >= _SHORTEST_RUN else (0, 0)


def _same(source: Source, at: int, count: int, stride: int) -> int:
    """How many bytes in a row, a stride apart, are the same."""
    column = bytes(source[at : at + (count - 1) * stride + 1 : stride])
    return len(column) - len(column.lstrip(column[:1]))
