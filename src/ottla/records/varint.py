"""Zig-zag varints, the numbers inside records: 32 bits in up to five bytes, 64 in up to ten."""

from ottla.records.corruption import CorruptRecord

LONGEST_BYTES = 10  # a 64-bit number; Kafka writes none that is longer


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The signed number at `position`, and the position behind it. IndexError when the bytes end too early."""
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
        shift += 7
        if shift >= 70:
            raise CorruptRecord(f"a varint of more than {LONGEST_BYTES} bytes before byte {position}")
