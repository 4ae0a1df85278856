"""The raw load generator: prebuilt frames into a socket, answers counted, nothing else on the clock.

    python -m bench.load produce --port 9092 --broker-pid 123 --topic t --batch-bytes 16384 --megabytes 512

Runs as a process of its own beside the broker and prints one JSON object, with the CPU time that the broker
took meanwhile. No two requests in flight are alike, as with any client: correlation ids count up and values
differ. It knows that all answers have the same size, and looks at the correlation id and the error code of
each; at the end the log must be as long as it should be.
"""

from __future__ import annotations

import argparse
import itertools
import json
import socket
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

from bench import wire
from bench.processes import Stopwatch

IN_FLIGHT_BYTES = 4 << 20  # enough that the broker never waits for the client
SMALL_RUN = 50  # small requests that are sent at once, as a busy client's socket brings them
SMALL_IN_FLIGHT = 8  # such runs
CORRELATION_IDS = 64  # as many different large frames are built; their ids count up and start again
RECORD_BYTES = 1024
SMALL_RECORD_BYTES = 100


@dataclass(frozen=True, slots=True)
class Result:
    """What was done, how long it took and what it cost the broker; latencies where requests went one by
    one.
    """

    seconds: float
    broker_cpu_seconds: float
    requests: int
    bytes: int
    p50_us: float = 0.0
    p99_us: float = 0.0


class Answers:
    """Counts equal-sized answers out of a stream: in the order of the questions, and none of them an
    error.
    """

    def __init__(self, connection: socket.socket, first: bytes, error_position: int) -> None:
        self._connection = connection
        self._size = 8 + len(first)  # with its size and correlation id
        self._shape = struct.Struct(f">4xi{error_position}xh{len(first) - error_position - 2}x")
        self._next = 0
        self._kept = b""

    def some(self) -> int:
        """How many more answers have come; waits for at least a part of one."""
        part = self._connection.recv(1 << 20)
        if not part:
            raise ConnectionError("the broker closed the connection")
        data = self._kept + part
        count = len(data) // self._size
        for correlation_id, error_code in self._shape.iter_unpack(data[: count * self._size]):
            if error_code or correlation_id != self._next:
                raise AssertionError(
                    f"answer {correlation_id} (expected {self._next}) has error {error_code}"
                )
            self._next = (self._next + 1) % CORRELATION_IDS
        self._kept = data[count * self._size :]
        return count


def pump(
    connection: socket.socket, runs: Iterable[bytes], per_run: int, in_flight: int, answers: Answers
) -> None:
    """Send all runs, never more than `in_flight` of them unanswered, until the last answer."""
    limit, sent, answered = in_flight * per_run, 0, 0
    for run in runs:
        while sent - answered + per_run > limit:
            answered += answers.some()
        connection.sendall(run)
        sent += per_run
    while answered < sent:
        answered += answers.some()


def produce_answers(connection: socket.socket, topic: str, frame: bytes) -> Answers:
    """Send one request to learn the shape of its answer, and to have the connection and the partition
    warm.
    """
    first = wire.ask(connection, frame)
    position = 1 + 1 + len(wire.compact_string(topic)) + 1 + 4  # tags, topics, name, partitions, index
    if first[position : position + 2] != b"\0\0":
        raise AssertionError(f"Produce answered {first!r}")
    return Answers(connection, first, position)


def expect_end(connection: socket.socket, topic: str, expected: int) -> None:
    end = wire.log_end_offset(connection, topic)
    if end != expected:
        raise AssertionError(f"{topic} ends at {end} instead of {expected}")


def produce(
    connection: socket.socket, watch: Stopwatch, topic: str, shape: tuple[int, int], megabytes: int
) -> Result:
    """Pipelined batches of one shape: so many bytes, in records of so many."""
    records = wire.batch(*shape)
    frames = [wire.produce(topic, wire.varied(records, n), correlation_id=n) for n in range(CORRELATION_IDS)]
    count = max(1, megabytes * 1_000_000 // len(records))
    before = wire.log_end_offset(connection, topic)
    answers = produce_answers(connection, topic, frames[0])
    in_flight = max(2, IN_FLIGHT_BYTES // len(frames[0]))
    with watch:
        pump(connection, itertools.islice(itertools.cycle(frames), count), 1, in_flight, answers)
    expect_end(connection, topic, before + (count + 1) * struct.unpack_from(">i", records, 57)[0])
    return Result(watch.seconds, watch.cpu_seconds, count, count * len(records))


def small(
    connection: socket.socket, watch: Stopwatch, topic: str, requests: int, *, idempotent: bool
) -> Result:
    """Pipelined requests of one record of 100 bytes each."""
    record = wire.batch(1, SMALL_RECORD_BYTES)
    producer = wire.init_producer_id(connection) if idempotent else (-1, -1)

    def frame(n: int) -> bytes:
        records = wire.varied(record, n, producer, n + 1 if idempotent else -1)
        return wire.produce(topic, records, correlation_id=n % CORRELATION_IDS)

    before = wire.log_end_offset(connection, topic)
    runs = [
        b"".join([frame(n) for n in range(first, first + SMALL_RUN)])
        for first in range(0, requests, SMALL_RUN)
    ]
    answers = produce_answers(connection, topic, frame(-1))
    with watch:
        pump(connection, runs, SMALL_RUN, SMALL_IN_FLIGHT, answers)
    sent = len(runs) * SMALL_RUN
    expect_end(connection, topic, before + sent + 1)
    return Result(watch.seconds, watch.cpu_seconds, sent, sent * len(record))


def ping_pong(connection: socket.socket, watch: Stopwatch, topic: str, requests: int) -> Result:
    """One small request after the other, each waiting for its answer."""
    frame = wire.produce(topic, wire.batch(1, SMALL_RECORD_BYTES))
    for _ in range(200):
        wire.ask(connection, frame)
    latencies: list[float] = []
    with watch:
        for _ in range(requests):
            begun = time.perf_counter()
            wire.ask(connection, frame)
            latencies.append(time.perf_counter() - begun)
    latencies.sort()
    p50, p99 = (latencies[int(requests * share)] * 1e6 for share in (0.5, 0.99))
    return Result(watch.seconds, watch.cpu_seconds, requests, requests * len(frame), p50, p99)


def fetch(connection: socket.socket, watch: Stopwatch, topic: str, max_bytes: int) -> Result:
    """The whole partition, one response after the other, none smaller than it must be."""
    end = wire.log_end_offset(connection, topic)
    buffer = bytearray(max_bytes + (1 << 16))
    # Up to the length of the records: what an answer to a question about one partition begins with.
    head = 4 + 1 + 10 + 1 + len(wire.compact_string(topic)) + 1 + 6 + 24 + 1 + 4
    offset, requests, received = 0, 0, 0
    with watch:
        while offset < end:
            size = exchange(connection, wire.fetch(topic, offset, max_bytes), buffer)
            offset = next_offset(buffer, head, size)
            requests += 1
            received += size
    return Result(watch.seconds, watch.cpu_seconds, requests, received)


def exchange(connection: socket.socket, frame: bytes, buffer: bytearray) -> int:
    """Ask, and take the answer into the buffer, without its size; how many bytes it had."""
    connection.sendall(frame)
    (size,) = wire.I32.unpack(wire.receive(connection, 4))
    view = memoryview(buffer)[:size]
    done = 0
    while done < size:
        done += connection.recv_into(view[done:])
    return int(size)


def next_offset(buffer: bytearray, position: int, size: int) -> int:
    """Behind the last whole batch of an answer; only headers are looked at."""
    while buffer[position] & 0x80:  # the length of the records, a varint
        position += 1
    position += 1
    offset = -1
    while position + 61 <= size:
        base_offset, length = struct.unpack_from(">qi", buffer, position)
        (last_delta,) = struct.unpack_from(">i", buffer, position + 23)
        if position + 12 + length > size:
            break
        offset = base_offset + last_delta + 1
        position += 12 + length
    if offset < 0:
        raise AssertionError(f"a fetch answered no whole batch: {bytes(buffer[:80])!r}")
    return offset


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", choices=["produce", "fetch", "small", "idempotent", "ping-pong"])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--broker-pid", type=int, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--batch-bytes", type=int, default=16_384)
    parser.add_argument("--record-bytes", type=int, default=RECORD_BYTES)
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--max-bytes", type=int, default=1 << 20)
    return parser.parse_args()


def main() -> None:
    chosen = options()
    watch, topic = Stopwatch(chosen.broker_pid), chosen.topic
    shape = (chosen.batch_bytes, chosen.record_bytes)
    with wire.connect(chosen.port) as connection:
        work: dict[str, Callable[[], Result]] = {
            "produce": lambda: produce(connection, watch, topic, shape, chosen.megabytes),
            "fetch": lambda: fetch(connection, watch, topic, chosen.max_bytes),
            "small": lambda: small(connection, watch, topic, chosen.requests, idempotent=False),
            "idempotent": lambda: small(connection, watch, topic, chosen.requests, idempotent=True),
            "ping-pong": lambda: ping_pong(connection, watch, topic, chosen.requests),
        }
        print(json.dumps(asdict(work[chosen.work]())))


if __name__ == "__main__":
    main()
