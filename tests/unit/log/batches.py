"""Batches for the log's tests, made byte by byte so that the tests lean on nothing else."""

from struct import Struct

from crc32c import crc32c

from ottla.records.batch import HEADER, HEADER_BYTES

_CRC = Struct(">I")
NOW_MS = 1_700_000_000_000


def varint(number: int) -> bytes:
    """A zig-zag varint."""
    value = (number << 1) ^ (number >> 63)
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def record(delta: int, value: bytes, *, key: bytes | None = None, timestamp_delta: int = 0) -> bytes:
    """One encoded record without headers."""
    body = b"\x00" + varint(timestamp_delta) + varint(delta)
    body += varint(-1) if key is None else varint(len(key)) + key
    body += varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def batch(
    count: int = 1,
    *,
    value: bytes = b"v" * 80,
    key: bytes | None = None,
    base_offset: int = 0,
    leader_epoch: int = -1,
    timestamp: int = NOW_MS,
    timestamp_step: int = 0,
    max_timestamp: int | None = None,
    attributes: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    magic: int = 2,
) -> bytearray:
    """A batch of `count` records that differ by nothing but their time."""
    records = b"".join(
        record(number, value, key=key, timestamp_delta=number * timestamp_step) for number in range(count)
    )
    largest = timestamp + max(0, (count - 1) * timestamp_step) if max_timestamp is None else max_timestamp
    head = bytearray(
        HEADER.pack(
            base_offset,
            HEADER_BYTES - 12 + len(records),
            leader_epoch,
            magic,
            0,
            attributes,
            count - 1,
            timestamp,
            largest,
            producer_id,
            producer_epoch,
            sequence,
            count,
        )
    )
    return sealed(head + records)


def sealed(data: bytearray) -> bytearray:
    """The batch with the checksum that fits it."""
    _CRC.pack_into(data, 17, crc32c(memoryview(data)[21:]))
    return data


def view(data: bytearray) -> memoryview:
    return memoryview(data)
