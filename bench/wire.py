"""The few requests that the benchmark sends by hand, as prebuilt bytes.

A load generator must cost as little as possible, and the same for every broker: frames are built once, before
the clock starts, and answers are looked at only as far as is needed to know that they are no errors.
Versions: Produce 9 and Fetch 12 (the last that name topics), everything else in its oldest, shortest form.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Final

from crc32c import crc32c

from ottla.records.builder import build_batch
from ottla.records.record import Record

PRODUCE, FETCH, LIST_OFFSETS, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, INIT_PRODUCER_ID = (
    0,
    1,
    2,
    18,
    19,
    20,
    22,
)
DEADLINE_SECONDS: Final = 30.0
CLIENT_ID: Final = "bench"
I32: Final = struct.Struct(">i")
PRODUCER: Final = struct.Struct(">qhi")  # producerId producerEpoch baseSequence, from byte 43 of a batch
CRC_POSITION, CRC_START, PRODUCER_POSITION = 17, 21, 43


def uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def compact_string(text: str) -> bytes:
    return uvarint(len(text) + 1) + text.encode()


def framed(
    api_key: int, version: int, body: bytes, *, flexible: bool = False, correlation_id: int = 7
) -> bytes:
    """A whole request; flexible versions have empty tagged fields behind the header."""
    header = (
        struct.pack(">hhi", api_key, version, correlation_id)
        + string(CLIENT_ID)
        + (b"\0" if flexible else b"")
    )
    return I32.pack(len(header) + len(body)) + header + body


def batch(size_bytes: int, record_bytes: int) -> bytes:
    """A batch of about `size_bytes`, of records of `record_bytes`, not compressible at a glance."""
    value = bytes(range(256)) * (record_bytes // 256 + 1)
    now_ms, count = int(time.time() * 1000), max(1, (size_bytes - 61) // (record_bytes + 8))
    return bytes(build_batch(Record(at, now_ms, None, value[:record_bytes]) for at in range(count)))


def varied(records: bytes, number: int, producer: tuple[int, int] = (-1, -1), sequence: int = -1) -> bytes:
    """The same batch with another last value, and perhaps as an idempotent producer sends it."""
    patched = bytearray(records)
    patched[-9:-1] = (number & 0xFFFFFFFF).to_bytes(
        8, "big"
    )  # the end of the last value; behind it no headers
    PRODUCER.pack_into(patched, PRODUCER_POSITION, *producer, sequence)
    struct.pack_into(">I", patched, CRC_POSITION, crc32c(memoryview(patched)[CRC_START:]))
    return bytes(patched)


def produce(topic: str, records: bytes, *, acks: int = 1, correlation_id: int = 0) -> bytes:
    """A Produce v9 of one batch for partition 0."""
    head = b"\0" + struct.pack(">hi", acks, 30_000) + b"\x02" + compact_string(topic) + b"\x02" + I32.pack(0)
    body = head + uvarint(len(records) + 1) + records + b"\0\0\0"
    return framed(PRODUCE, 9, body, flexible=True, correlation_id=correlation_id)


def fetch(topic: str, offset: int, max_bytes: int) -> bytes:
    """A Fetch v12 of partition 0 without a session."""
    head = (
        struct.pack(">iiiibii", -1, 500, 1, max_bytes, 0, 0, -1) + b"\x02" + compact_string(topic) + b"\x02"
    )
    partition = struct.pack(">iiqiqi", 0, -1, offset, -1, -1, max_bytes) + b"\0"
    return framed(FETCH, 12, head + partition + b"\0" + b"\x01" + b"\x01" + b"\0", flexible=True)


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray(size)
    view = memoryview(received)
    done = 0
    while done < size:
        count = connection.recv_into(view[done:])
        if count == 0:
            raise ConnectionError(f"the broker closed the connection after {done} of {size} bytes")
        done += count
    return bytes(received)


def ask(connection: socket.socket, frame: bytes) -> bytes:
    """One question, one answer, without size and correlation id."""
    connection.sendall(frame)
    (size,) = I32.unpack(receive(connection, 4))
    return receive(connection, size)[4:]


def create_topic(connection: socket.socket, topic: str, partitions: int = 1) -> None:
    """CreateTopics v2; returns when the partition answers."""
    body = (
        I32.pack(1)
        + string(topic)
        + struct.pack(">ihii", partitions, 1, 0, 0)
        + struct.pack(">ib", 30_000, 0)
    )
    answer = ask(connection, framed(CREATE_TOPICS, 2, body))
    (error_code,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(topic))
    if error_code != 0:
        raise AssertionError(f"CreateTopics of {topic} answered error {error_code}")
    deadline = time.monotonic() + DEADLINE_SECONDS
    while log_end_offset(connection, topic, partitions - 1) < 0:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic} has no leader")
        time.sleep(0.01)


def delete_topic(connection: socket.socket, topic: str) -> None:
    """DeleteTopics v1; an answer is enough."""
    ask(connection, framed(DELETE_TOPICS, 1, I32.pack(1) + string(topic) + I32.pack(30_000)))


def log_end_offset(connection: socket.socket, topic: str, partition: int = 0) -> int:
    """ListOffsets v2 of the end; -1 while the partition is not there."""
    place = I32.pack(1) + string(topic) + I32.pack(1) + struct.pack(">iq", partition, -1)
    answer = ask(connection, framed(LIST_OFFSETS, 2, struct.pack(">ib", -1, 0) + place))
    _, error_code, _, offset = struct.unpack_from(">ihqq", answer, 4 + 4 + 2 + len(topic) + 4)
    return int(offset) if error_code == 0 else -1


def init_producer_id(connection: socket.socket) -> tuple[int, int]:
    """InitProducerId v0 of an idempotent producer; asks again while the broker is still getting a block of
    ids.
    """
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        answer = ask(connection, framed(INIT_PRODUCER_ID, 0, b"\xff\xff" + I32.pack(60_000)))
        _, error_code, producer_id, epoch = struct.unpack_from(">ihqh", answer)
        if error_code == 0:
            return int(producer_id), int(epoch)
        if time.monotonic() > deadline:
            raise TimeoutError(f"InitProducerId answers error {error_code}")
        time.sleep(0.05)


def answers_api_versions(port: int) -> bool:
    """Whether a broker on this port answers ApiVersions v0 without an error."""
    try:
        with connect(port) as connection:
            return ask(connection, framed(API_VERSIONS, 0, b""))[:2] == b"\0\0"
    except OSError:
        return False
