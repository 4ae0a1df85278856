"""The floor: the least that a broker in Python can do with the same requests.

    python -m bench.floor --port 9092 --data /tmp/floor

One process, one epoll: read the socket, verify the CRC-32C of the batch, write it to a file (one `writev` for
all that one read brought), answer; on the way out `sendfile`. No index, no state beyond a counter and where
each batch lies, no recovery, no limits, no checks of anything else. What a broker needs above this is what
its guarantees cost. It speaks exactly what the benchmark's clients send: Produce 9, Fetch 12, and the rest in
one old version.
"""

from __future__ import annotations

import argparse
import bisect
import os
import select
import socket
import struct
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.wire import compact_string, string, uvarint
from crc32c import crc32c

RECEIVE_BYTES = 1 << 20
WRITEV_LIMIT = 1000  # the kernel takes 1024 pieces at once
APIS = ((0, 0, 9), (1, 4, 12), (2, 1, 2), (3, 0, 4), (18, 0, 3), (19, 2, 2), (20, 1, 1), (22, 0, 0))
HEADER = struct.Struct(">ihhih")  # size apiKey version correlationId clientIdLength
U32, I32, I64 = struct.Struct(">I"), struct.Struct(">i"), struct.Struct(">q")
EMPTY_ANSWER_SECONDS = 0.1


@dataclass(slots=True)
class Partition:
    """A file, the next offset, and where each batch begins."""

    path: str
    fd: int
    next_offset: int = 0
    size: int = 0
    offsets: array[int] = field(default_factory=lambda: array("q"))
    positions: array[int] = field(default_factory=lambda: array("q"))


@dataclass(slots=True, eq=False)
class Connection:
    """What one client has sent so far, and what waits to be sent to it."""

    socket: socket.socket
    buffer: bytearray = field(default_factory=lambda: bytearray(RECEIVE_BYTES))
    end: int = 0
    late: tuple[float, bytes] | None = None  # an empty fetch answer, and when it is due


def read_uvarint(view: memoryview, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = view[position]
        number |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return number, position
        shift += 7


class Floor:
    def __init__(self, port: int, data: str) -> None:
        self._data = data
        self._port = port
        self._partitions: dict[bytes, Partition] = {}
        self._listener = socket.create_server(("127.0.0.1", port))
        self._epoll = select.epoll()
        self._epoll.register(self._listener, select.EPOLLIN)
        self._connections: dict[int, Connection] = {}

    def run(self) -> None:
        """Serve until the process is ended."""
        while True:
            waiting = [connection for connection in self._connections.values() if connection.late]
            for descriptor, _ in self._epoll.poll(0.01 if waiting else -1):
                if descriptor == self._listener.fileno():
                    self._accept()
                else:
                    self._attempt(self._read, self._connections[descriptor])
            for connection in waiting:
                if connection.late and connection.late[0] <= time.monotonic():
                    self._attempt(self._send_late, connection)

    def _attempt(self, work: Callable[[Connection], None], connection: Connection) -> None:
        """A client that goes away takes only its connection with it."""
        try:
            work(connection)
        except OSError:
            connection.late = None
            if self._connections.pop(connection.socket.fileno(), None):
                self._epoll.unregister(connection.socket)
            connection.socket.close()

    def _send_late(self, connection: Connection) -> None:
        if connection.late:
            connection.socket.sendall(connection.late[1])
            connection.late = None

    def _accept(self) -> None:
        accepted, _ = self._listener.accept()
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections[accepted.fileno()] = Connection(accepted)
        self._epoll.register(accepted, select.EPOLLIN)

    def _read(self, connection: Connection) -> None:
        view = memoryview(connection.buffer)
        count = connection.socket.recv_into(view[connection.end :])
        if count == 0:
            raise ConnectionResetError("the client is done")
        connection.end += count
        self._frames(connection, view)

    def _frames(self, connection: Connection, view: memoryview) -> None:
        """Handle every whole frame; batches are written and answers sent once for all of them."""
        start, end = 0, connection.end
        answers: list[bytes] = []
        writes: dict[int, list[memoryview]] = {}
        while end - start >= 14:
            size, api_key, version, correlation_id, client_length = HEADER.unpack_from(view, start)
            if end - start < size + 4:
                break
            body = start + 14 + max(client_length, 0)
            if api_key == 0:
                answers.append(self._produce(view, body + 1, correlation_id, writes))
            elif api_key == 1:
                self._flush(connection, writes, answers)
                self._fetch(connection, view, body + 1, correlation_id)
            else:
                answer = self._other(api_key, version, view[body : start + size + 4])
                answers.append(I32.pack(4 + len(answer)) + I32.pack(correlation_id) + answer)
            start += size + 4
        self._flush(connection, writes, answers)
        self._keep_rest(connection, view, start, end)

    def _keep_rest(self, connection: Connection, view: memoryview, start: int, end: int) -> None:
        rest = end - start
        needed = 4 + I32.unpack_from(view, start)[0] if rest >= 4 else 4
        if needed > len(connection.buffer):
            grown = bytearray(needed + RECEIVE_BYTES)
            grown[:rest] = view[start:end]
            connection.buffer = grown
        elif start and rest:
            view[:rest] = bytes(view[start:end])
        connection.end = rest

    def _flush(
        self, connection: Connection, writes: dict[int, list[memoryview]], answers: list[bytes]
    ) -> None:
        for fd, pieces in writes.items():
            for first in range(0, len(pieces), WRITEV_LIMIT):
                os.writev(fd, pieces[first : first + WRITEV_LIMIT])
        writes.clear()
        if answers:
            connection.socket.sendall(b"".join(answers))
            answers.clear()

    def _produce(
        self, view: memoryview, position: int, correlation_id: int, writes: dict[int, list[memoryview]]
    ) -> bytes:
        # transactionalId(null) acks timeoutMs topics(1) name partitions(1) index records
        name_end = position + 8 + view[position + 8]  # names are shorter than 127 bytes
        name = bytes(view[position + 9 : name_end])
        length, start = read_uvarint(view, name_end + 5)
        records = view[start : start + length - 1]
        partition = self._partition(name)
        if crc32c(records[21:]) != U32.unpack_from(records, 17)[0]:
            raise ValueError("the batch is damaged")
        base_offset = partition.next_offset
        I64.pack_into(records, 0, base_offset)
        partition.next_offset += I32.unpack_from(records, 57)[0]
        partition.offsets.append(base_offset)
        partition.positions.append(partition.size)
        partition.size += length - 1
        writes.setdefault(partition.fd, []).append(records)
        answer = (
            I32.pack(correlation_id)
            + b"\0\x02"
            + view[position + 8 : name_end]
            + b"\x02\0\0\0\0\0\0"
            + I64.pack(base_offset)
            + b"\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0"
        )
        return I32.pack(len(answer)) + answer

    def _fetch(self, connection: Connection, view: memoryview, position: int, correlation_id: int) -> None:
        # replicaId maxWait minBytes maxBytes isolation sessionId epoch topics(1) name partitions(1) index ...
        name_end = position + 26 + view[position + 26]
        name = bytes(view[position + 27 : name_end])
        _, _, offset, _, _, max_bytes = struct.unpack_from(">iiqiqi", view, name_end + 1)
        partition = self._partition(name)
        start, size = self._range(partition, offset, max_bytes)
        ends = I64.pack(partition.next_offset) * 2 + I64.pack(0)
        head = (
            I32.pack(correlation_id)
            + b"\0\0\0\0\0\0\0\0\0\0\0\x02"
            + compact_string(name.decode())
            + b"\x02\0\0\0\0\0\0"
            + ends
            + b"\0\xff\xff\xff\xff"
            + uvarint(size + 1)
        )
        answer = I32.pack(len(head) + size + 3) + head
        if size == 0:
            connection.late = (time.monotonic() + EMPTY_ANSWER_SECONDS, answer + b"\0\0\0")
            return
        connection.socket.sendall(answer)
        while size:
            sent = os.sendfile(connection.socket.fileno(), partition.fd, start, size)
            start, size = start + sent, size - sent
        connection.socket.sendall(b"\0\0\0")

    def _range(self, partition: Partition, offset: int, max_bytes: int) -> tuple[int, int]:
        """Whole batches from the one that holds the offset."""
        if offset >= partition.next_offset:
            return 0, 0
        first = bisect.bisect_right(partition.offsets, offset) - 1
        start = partition.positions[first]
        last = max(bisect.bisect_right(partition.positions, start + max_bytes) - 1, first + 1)
        end = partition.size if last >= len(partition.positions) else partition.positions[last]
        if partition.size <= start + max_bytes:
            end = partition.size
        return start, end - start

    def _partition(self, name: bytes) -> Partition:
        found = self._partitions.get(name)
        if found is None:
            path = f"{self._data}/{name.decode()}.log"
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
            found = self._partitions[name] = Partition(path, fd)
        return found

    def _other(self, api_key: int, version: int, body: memoryview) -> bytes:
        """Everything that is asked once: the answer without its correlation id."""
        if api_key == 18:
            rows = b"".join(struct.pack(">hhh", *api) + (b"\0" if version == 3 else b"") for api in APIS)
            if version == 3:
                return b"\0\0" + uvarint(len(APIS) + 1) + rows + I32.pack(0) + b"\0"
            return b"\0\0" + I32.pack(len(APIS)) + rows + (I32.pack(0) if version else b"")
        if api_key == 22:
            return struct.pack(">ihqh", 0, 0, 4242, 0)
        if api_key == 3:
            return self._metadata(body)
        return self._topics(api_key, body)

    def _topics(self, api_key: int, body: memoryview) -> bytes:
        """CreateTopics, DeleteTopics and ListOffsets of one topic."""
        start = 9 if api_key == 2 else 4
        (length,) = struct.unpack_from(">h", body, start)
        name = bytes(body[start + 2 : start + 2 + length])
        named = I32.pack(1) + string(name.decode())
        if api_key == 20:
            partition = self._partitions.pop(name, None)
            if partition is not None:
                os.close(partition.fd)
                os.unlink(partition.path)
            return I32.pack(0) + named + b"\0\0"
        if api_key == 19:
            return I32.pack(0) + named + b"\0\0\xff\xff"
        index, timestamp = struct.unpack_from(">iq", body, start + 2 + length + 4)
        offset = 0 if timestamp == -2 else self._partition(name).next_offset
        return I32.pack(0) + named + I32.pack(1) + struct.pack(">ihqq", index, 0, -1, offset)

    def _metadata(self, body: memoryview) -> bytes:
        """Metadata v4: this broker leads partition 0 of whatever is asked for."""
        (count,) = I32.unpack_from(body)
        names: list[str] = []
        position = 4
        for _ in range(max(count, 0)):
            (length,) = struct.unpack_from(">h", body, position)
            names.append(bytes(body[position + 2 : position + 2 + length]).decode())
            position += 2 + length
        brokers = I32.pack(1) + I32.pack(1) + string("127.0.0.1") + I32.pack(self._port) + b"\xff\xff"
        one = I32.pack(1) + I32.pack(1)
        partition = I32.pack(1) + struct.pack(">hii", 0, 0, 1) + one + one
        topics = b"".join(b"\0\0" + string(name) + b"\0" + partition for name in names)
        return I32.pack(0) + brokers + string("floor") + I32.pack(1) + I32.pack(len(names)) + topics


def main() -> None:
    options = argparse.ArgumentParser(description="The bare floor that brokers are compared with.")
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--data", required=True)
    chosen = options.parse_args()
    os.makedirs(chosen.data, exist_ok=True)
    Floor(chosen.port, chosen.data).run()


if __name__ == "__main__":
    main()
