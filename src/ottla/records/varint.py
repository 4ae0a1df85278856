"""Zig-zag varints, the numbers inside records.

Seven bits a byte, the lowest first; the highest bit says that more follow. Zig-zag folds the sign into the
lowest bit: 0, -1, 1, -2 are written as 0, 1, 2, 3. So an odd number is negative, and half of an even one is
its value.
"""

from ottla.records.corruption import CorruptRecord

LONGEST_BYTES = 10  # a 64-bit number; Kafka writes none that is longer


def read_zigzag(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """The number at `position` as it is written, still in zig-zag, and the position after it.

    The bytes must not end inside it: a reader of records appends zeros, and sees that it read too far.
    """
    number = data[position]
    if number < 0x80:  # nearly always
        return number, position + 1
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift == 7 * LONGEST_BYTES:
            raise CorruptRecord(f"a varint is longer than {LONGEST_BYTES} bytes, before byte {position}")
    if number >> 64:
        raise CorruptRecord(f"a varint has more than 64 bits, before byte {position}")
    return number, position


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The signed number at `position`, and the position after it."""
    number, position = read_zigzag(data, position)
    return number >> 1 ^ -(number & 1), position


def varint(number: int) -> bytes:
    """The signed number as it is written."""
    number = number << 1 ^ number >> 63
    if number < 0x80:
        return _ONE_BYTE[number]
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    if number >> 64:
        raise ValueError("a number of more than 64 bits does not fit into a varint")
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_ONE_BYTE = tuple(bytes((byte,)) for byte in range(0x80))
