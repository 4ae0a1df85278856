"""The broker's own bytes, asked for by a few hand-made requests: what a client library would hide.

Written without the code under test, so that the two cannot be wrong together. Only old, non-flexible versions
are spoken here: they are the shortest, and every 4.x broker still serves them.
"""

from __future__ import annotations

import itertools
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 0, 1, 2, 3, 18
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
DEADLINE_SECONDS = 20.0
CORRELATION_IDS = itertools.count(1)
# baseOffset length leaderEpoch magic crc attributes lastOffsetDelta baseTimestamp maxTimestamp
# producerId producerEpoch baseSequence count
HEADER = struct.Struct(">qiibIhiqqqhii")


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """The header of a batch as the broker keeps it, and its size on disk."""

    base_offset: int
    size_bytes: int
    codec: str
    records: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool


def string(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else struct.pack(">h", len(text)) + text.encode()


def ask(bootstrap: str, api_key: int, version: int, body: bytes) -> bytes:
    """One request on a connection of its own; the response without size and correlation id."""
    host, port = bootstrap.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=DEADLINE_SECONDS) as connection:
        return ask_on(connection, api_key, version, body)


def ask_on(connection: socket.socket, api_key: int, version: int, body: bytes) -> bytes:
    """One request on this connection."""
    correlation_id = next(CORRELATION_IDS)
    connection.sendall(request(api_key, version, correlation_id, body))
    return response(connection, correlation_id)


def request(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    frame = struct.pack(">hhi", api_key, version, correlation_id) + string("raw") + body
    return struct.pack(">i", len(frame)) + frame


def response(connection: socket.socket, correlation_id: int) -> bytes:
    size, answered_id = struct.unpack(">ii", receive(connection, 8))
    if answered_id != correlation_id:
        raise AssertionError(f"asked {correlation_id}, was answered {answered_id}")
    return receive(connection, size - 4)


def receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionError(f"the broker closed the connection after {len(received)} of {size} bytes")
        received += part
    return bytes(received)


def one_partition(topic: str, partition: bytes) -> bytes:
    """The shape that most requests share: one topic with one partition."""
    return struct.pack(">i", 1) + string(topic) + struct.pack(">i", 1) + partition


def fetch(bootstrap: str, topic: str, partition: int = 0, offset: int = 0) -> tuple[int, bytes]:
    """The error code and the records of a Fetch v4 at an offset."""
    head = struct.pack(">iiiib", -1, 100, 1, 50_000_000, 0)
    body = head + one_partition(topic, struct.pack(">iqi", partition, offset, 50_000_000))
    answer = ask(bootstrap, FETCH, 4, body)
    position = 4 + 4 + 2 + len(topic) + 4  # throttle, topics, name, partitions
    _, error_code, _, _, aborted = struct.unpack_from(">ihqqi", answer, position)
    position += 26 + max(aborted, 0) * 16
    (size,) = struct.unpack_from(">i", answer, position)
    return error_code, answer[position + 4 : position + 4 + max(size, 0)]


def produce(bootstrap: str, topic: str, partition: int, records: bytes) -> tuple[int, int]:
    """The error code and the base offset of a Produce v7."""
    answer = ask(bootstrap, PRODUCE, 7, _produce_body(topic, partition, records))
    return _produced(answer, topic)


def produce_pipelined(bootstrap: str, topic: str, batches: Sequence[bytes]) -> list[tuple[int, int]]:
    """Many requests in one piece, then all their answers, which must come in order."""
    host, port = bootstrap.rsplit(":", 1)
    first = next(CORRELATION_IDS)
    frames = [
        request(PRODUCE, 7, first + n, _produce_body(topic, 0, records)) for n, records in enumerate(batches)
    ]
    with socket.create_connection((host, int(port)), timeout=DEADLINE_SECONDS) as connection:
        connection.sendall(b"".join(frames))
        return [_produced(response(connection, first + n), topic) for n in range(len(frames))]


def _produce_body(topic: str, partition: int, records: bytes) -> bytes:
    head = string(None) + struct.pack(">hi", -1, 10_000)
    return head + one_partition(topic, struct.pack(">ii", partition, len(records)) + records)


def _produced(answer: bytes, topic: str) -> tuple[int, int]:
    _, error_code, base_offset = struct.unpack_from(">ihq", answer, 4 + 2 + len(topic) + 4)
    return error_code, base_offset


def list_offset(bootstrap: str, topic: str, partition: int, timestamp: int) -> tuple[int, int, int]:
    """The error code, the timestamp and the offset of a ListOffsets v1."""
    body = struct.pack(">i", -1) + one_partition(topic, struct.pack(">iq", partition, timestamp))
    answer = ask(bootstrap, LIST_OFFSETS, 1, body)
    _, error_code, found_timestamp, offset = struct.unpack_from(">ihqq", answer, 4 + 2 + len(topic) + 4)
    return error_code, found_timestamp, offset


def batches(records: bytes) -> Iterator[StoredBatch]:
    """The headers of whole batches; a torn one at the end is left out, as clients do."""
    position = 0
    while position + HEADER.size <= len(records):
        offset, length, _, _, _, attributes, _, _, _, producer, epoch, sequence, count = HEADER.unpack_from(
            records, position
        )
        if position + 12 + length > len(records):
            return
        yield StoredBatch(
            offset,
            12 + length,
            CODEC_NAMES[attributes & 7],
            count,
            producer,
            epoch,
            sequence,
            bool(attributes & 16),
        )
        position += 12 + length


def stored_batches(bootstrap: str, topic: str, partition: int = 0) -> list[StoredBatch]:
    """Every batch that the broker has of a partition."""
    found: list[StoredBatch] = []
    offset = 0
    while True:
        error_code, records = fetch(bootstrap, topic, partition, offset)
        if error_code != 0:
            raise AssertionError(f"Fetch of {topic}-{partition} at {offset} answered error {error_code}")
        part = list(batches(records))
        if not part:
            return found
        found += part
        offset = part[-1].base_offset + part[-1].records
