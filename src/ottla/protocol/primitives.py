"""Functions that compiled codecs call at run time: the parts of the wire format that are not straight-line
code.

Everything that comes from the wire is hostile until checked. A function here raises DecodeError, or the
IndexError of reading past the end, which the compiled function around it turns into a DecodeError.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NoReturn
from uuid import UUID


class DecodeError(ValueError):
    """The bytes are not what the protocol says they should be."""


# A uvarint on the wire is an unsigned 32-bit number: five groups of seven bits, of which the last holds four.
_UVARINT_LAST_SHIFT: Final = 28
_UVARINT_LAST_MAX: Final = 0x0F

# Topic ids come again with every request, and making a UUID costs ten times as much as finding it. The bound
# keeps an attacker who sends new ids all the time from filling memory: 4096 of them take about 1 MiB.
_REMEMBERED_UUIDS: Final = 4096


def read_uvarint(view: memoryview, position: int) -> tuple[int, int]:
    """The unsigned varint at `position`, and the position after it."""
    value = shift = 0
    while True:
        byte = view[position]
        position += 1
        if byte < 128:
            if shift == _UVARINT_LAST_SHIFT and byte > _UVARINT_LAST_MAX:
                raise DecodeError("a varint is larger than 32 bits")
            return value | byte << shift, position
        if shift == _UVARINT_LAST_SHIFT:
            raise DecodeError("a varint is longer than 5 bytes")
        value |= (byte & 127) << shift
        shift += 7


def uvarint(value: int) -> bytes:
    """`value` as an unsigned varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tags(view: memoryview, position: int) -> int:
    """The position after a section of tagged fields none of which is known."""
    count, position = read_uvarint(view, position)
    for _ in range(count):  # every round reads two bytes at least, so the input bounds the loop
        _, position = read_uvarint(view, position)
        length, position = read_uvarint(view, position)
        position += length
    if position > len(view):
        raise DecodeError("a tagged field is longer than the bytes left")
    return position


def put_tags(out: bytearray, tags: list[tuple[int, bytearray]]) -> None:
    """Append a section of tagged fields, which come in ascending order."""
    out += uvarint(len(tags))
    for number, value in tags:
        out += uvarint(number)
        out += uvarint(len(value))
        out += value


@lru_cache(maxsize=_REMEMBERED_UUIDS)
def uuid_of(raw: bytes) -> UUID:
    """The UUID of 16 bytes."""
    return UUID(bytes=raw)


def refuse_length(path: str, length: int, left: int) -> NoReturn:
    """Raise for a length or count that cannot be."""
    if length < 0:
        raise DecodeError(f"{path}: null, or a negative length, where a value must be")
    raise DecodeError(f"{path}: {length} announced, but only {left} bytes are left")


def refuse_count(path: str) -> NoReturn:
    """Raise for a message with more elements than anyone needs."""
    raise DecodeError(f"{path}: the message has too many elements")


def refuse_tag(path: str, number: int, expected: int, actual: int) -> NoReturn:
    """Raise for a tagged field whose announced length is not the one of its value."""
    raise DecodeError(f"{path}: tagged field {number} ends at {actual}, not at {expected} as announced")
