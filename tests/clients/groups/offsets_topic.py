"""A group as `__consumer_offsets` has it, read by hand: the one place where every broker says which
generation it is.

Like `tests/clients/raw.py`, this is written without the code under test.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from tests.clients.raw import HEADER, batches, fetch, string

OFFSETS_TOPIC = "__consumer_offsets"
PARTITIONS = 5  # of the brokers that the tests of groups start
OFFSET_KEY_TYPE = 1
GROUP_KEY_TYPE = 2


@dataclass(frozen=True, slots=True)
class RecordedGroup:
    """The head of a group's record."""

    generation: int
    protocol: str
    leader: str


def recorded_group(bootstrap: str, group: str) -> RecordedGroup:
    """The group as of its last record."""
    wanted = struct.pack(">h", GROUP_KEY_TYPE) + string(group)
    found = [value for key, value in records(bootstrap, partition_of(group)) if key == wanted]
    if not found or not found[-1]:
        raise AssertionError(f"there is no record of the group {group}")
    return _decoded(found[-1])


def partition_of(group: str, partitions: int = PARTITIONS) -> int:
    """Where a group's records are: by the hash that Java has for strings."""
    number = 0
    for unit in struct.unpack(f">{len(group)}H", group.encode("utf-16-be")):
        number = (31 * number + unit) & 0xFFFFFFFF
    signed = number - (1 << 32) if number >> 31 else number
    return 0 if signed == -(1 << 31) else abs(signed) % partitions


def records(bootstrap: str, partition: int) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of everything in a partition; a tombstone's value is empty. Brokers do not compress
    there.
    """
    offset = 0
    while True:
        error_code, fetched = fetch(bootstrap, OFFSETS_TOPIC, partition, offset)
        assert error_code == 0, f"Fetch of {OFFSETS_TOPIC}-{partition} answered error {error_code}"
        position = 0
        for batch in batches(fetched):
            yield from _records_of(fetched[position : position + batch.size_bytes], batch.records)
            position += batch.size_bytes
            offset = batch.base_offset + batch.records
        if position == 0:
            return


def _records_of(batch: bytes, count: int) -> Iterator[tuple[bytes, bytes]]:
    position = HEADER.size
    for _ in range(count):
        length, position = _varint(batch, position)
        end = position + length
        position += 1  # attributes
        _, position = _varint(batch, position)
        _, position = _varint(batch, position)
        key, position = _bytes(batch, position)
        value, position = _bytes(batch, position)
        yield key, value
        position = end


def _bytes(batch: bytes, position: int) -> tuple[bytes, int]:
    size, position = _varint(batch, position)
    return (b"", position) if size < 0 else (batch[position : position + size], position + size)


def _varint(batch: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = batch[position]
        number |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if not byte & 0x80:
            return (number >> 1) ^ -(number & 1), position


def _decoded(value: bytes) -> RecordedGroup:
    position = 2 + 2 + struct.unpack_from(">h", value, 2)[0]  # version, protocol type
    (generation,) = struct.unpack_from(">i", value, position)
    protocol, position = _string(value, position + 4)
    leader, _ = _string(value, position)
    return RecordedGroup(generation, protocol, leader)


def _string(value: bytes, position: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">h", value, position)
    position += 2
    return value[position : position + max(size, 0)].decode(), position + max(size, 0)
