"""Where the records of a batch begin: the one step of the kernel that goes from record to record.

Each record tells how long it is, and only so is it known where the next one begins. Records of the same size in a row are found
by looking at the bytes where the next lengths would stand, all at once; the others are hopped over one by one.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from ottla.records.corruption import CorruptRecord
from ottla.records.varint import read_zigzag

Source: TypeAlias = bytes | bytearray | memoryview

_SHORTEST_RUN: Final = 8  # below that, finding out costs more than it saves
_CHUNK: Final = 64  # records one by one between two looks for a run


class UnusualError(Exception):
    """The records are not what they usually are, or damaged: the slow way finds out."""


def add_starts(source: Source, position: int, end: int, count: int, starts: list[int]) -> None:
    """Append where each of `count` records begins; UnusualError if they do not fill the bytes up to `end` exactly."""
    left = count
    try:
        while left > 0:
            run, stride = _run(source, position, end, left) if left >= _SHORTEST_RUN else (0, 0)
            if run:
                starts.extend(range(position, position + run * stride, stride))
                position += run * stride
                left -= run
            else:
                chunk = min(left, _CHUNK)
                position = _hop(source, position, chunk, starts)
                left -= chunk
    except (IndexError, CorruptRecord) as error:
        raise UnusualError from error
    if position != end or left < 0:
        raise UnusualError


def _hop(source: Source, position: int, count: int, starts: list[int]) -> int:
    """Over so many records, one by one; a negative length is not noticed here. The position behind them."""
    append = starts.append
    for _ in range(count):
        append(position)
        low = source[position]
        if low < 128:
            position += 1 + (low >> 1)
            continue
        high = source[position + 1]
        if high < 128:
            position += 2 + (low >> 1 & 63 | high << 6)
        else:
            length, position = read_zigzag(source, position)  # type: ignore[arg-type]
            position += length >> 1
    return position


def _run(source: Source, position: int, end: int, most: int) -> tuple[int, int]:
    """How many records in a row have the length of the first, and how many bytes each takes; none if they are few."""
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
