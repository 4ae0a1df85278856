"""Ways to spoil bytes: the small ones that pass far into a parser, and the lengths that an attacker would
write.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

# Lengths and counts at the edges of what the wire can say: int16, int32, and compact ones.
ABSURD_LENGTHS = [
    b"\x7f\xff",
    b"\x80\x00",
    b"\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xfe",
    b"\x00\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\x80\x80\x80\x80\x00",
    b"\x80\x80\x80\x80\x80\x80\x80\x01",
]


def _flip_bit(data: bytearray, at: int, random: Random) -> None:
    data[at] ^= 1 << random.randrange(8)


def _set_byte(data: bytearray, at: int, random: Random) -> None:
    data[at] = random.choice([0, 1, 127, 128, 255, random.randrange(256)])


def _remove(data: bytearray, at: int, random: Random) -> None:
    del data[at : at + random.randint(1, 8)]


def _insert(data: bytearray, at: int, random: Random) -> None:
    data[at:at] = random.randbytes(random.randint(1, 8))


def _repeat(data: bytearray, at: int, random: Random) -> None:
    data[at:at] = data[at : at + random.randint(1, 40)] * random.randint(1, 4)


def _announce(data: bytearray, at: int, random: Random) -> None:
    length = random.choice(ABSURD_LENGTHS)
    data[at : at + len(length)] = length


def _cut(data: bytearray, at: int, random: Random) -> None:
    del data[at:]


_MUTATIONS: list[Callable[[bytearray, int, Random], None]] = [
    _flip_bit,
    _set_byte,
    _set_byte,
    _remove,
    _insert,
    _repeat,
    _announce,
    _announce,
    _cut,
]


def mutate(data: bytes | bytearray, random: Random) -> bytes:
    """`data` with one to four random changes."""
    mutated = bytearray(data)
    for _ in range(random.choice([1, 1, 1, 2, 3, 4])):
        if mutated:
            random.choice(_MUTATIONS)(mutated, random.randrange(len(mutated)), random)
    return bytes(mutated)
