"""One client, one kind of work at a secured broker, one process: what `bench.security` starts for each measurement.

    python -m bench.security_loads produce --bootstrap localhost:9093 --ca ca.pem --broker-pid 1 --topic t --count 100000

produce     mixed records (`bench/mixed_records.py`) with lz4 by confluent-kafka, over TLS or without
consume     the same records, from the start of the topic
handshakes  TLS handshakes, one after the other, none resumed; after each the client hangs up
logins      connections that log in with SCRAM-SHA-256, one after the other
neighbours  small requests of one client, alone and beside clients that have exceeded their quota
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import ssl
import time
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any, Final

from bench import wire
from bench.client import CONSUMER, DEADLINE_SECONDS, PRODUCER, wait_for_room
from bench.mixed_records import MixedRecord, mixed_records
from bench.processes import Stopwatch
from bench.security_targets import PASSWORD, USER
from bench.transaction_loads import percentile
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla import QuotaEntity, succeeded
from ottla.blocking import Admin
from ottla.localcluster.ports import HOST
from ottla.protocol.apis import ApiKey
from ottla.protocol.frame import SIZE_BYTES, RequestHeader, read_response, write_request
from ottla.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from ottla.security.sasl.mechanisms import password_exchange

PARTITIONS: Final = 6
MECHANISM: Final = "SCRAM-SHA-256"
THROTTLED: Final = 20
THROTTLED_BYTES_PER_S: Final = 1000

Figures = dict[str, float]


def doors(chosen: argparse.Namespace) -> dict[str, Any]:
    where = {"bootstrap.servers": chosen.bootstrap, "log_level": 2}
    return where | ({"security.protocol": "SSL", "ssl.ca.location": chosen.ca} if chosen.ca else {})


def produce(chosen: argparse.Namespace) -> Figures:
    """Write as fast as the client can. Bytes are those of keys and values."""
    producer = Producer({**PRODUCER, **doors(chosen), "acks": "all", "compression.type": "lz4"})
    records = cycle(mixed_records())
    _send(producer, chosen.topic, islice(records, 1 + chosen.count // 10))
    counted = list(islice(records, chosen.count))
    with Stopwatch(*chosen.broker_pid) as watch:
        _send(producer, chosen.topic, iter(counted))
    return _moved(counted, watch)


def _send(producer: Any, topic: str, records: Iterator[MixedRecord]) -> None:
    for number, record in enumerate(records):
        placed = {"key": record.key, "value": record.value, "headers": record.headers}
        try:
            producer.produce(topic, partition=number % PARTITIONS, **placed)
        except BufferError:
            wait_for_room(producer)
            producer.produce(topic, partition=number % PARTITIONS, **placed)
    if producer.flush(DEADLINE_SECONDS):
        raise TimeoutError("not every record was answered")


def _moved(records: list[MixedRecord], watch: Stopwatch) -> Figures:
    size = sum(len(record.key) + len(record.value) for record in records)
    return {
        "mb_per_s": size / watch.seconds / 1e6,
        "krec_per_s": len(records) / watch.seconds / 1e3,
        "cpu_s_per_gb": watch.cpu_seconds / size * 1e9,
    }


def consume(chosen: argparse.Namespace) -> Figures:
    """Read all partitions; the clock runs from the first request to the last record."""
    consumer = Consumer({**CONSUMER, **doors(chosen)})
    size, count, deadline = 0, 0, time.monotonic() + DEADLINE_SECONDS
    with Stopwatch(*chosen.broker_pid) as watch:
        consumer.assign([TopicPartition(chosen.topic, number, 0) for number in range(PARTITIONS)])
        while count < chosen.count:
            for message in consumer.consume(10_000, 1.0):
                if message.error():
                    raise AssertionError(str(message.error()))
                size += len(message.key()) + len(message.value())
                count += 1
            if time.monotonic() > deadline:
                raise TimeoutError(f"read {count} of {chosen.count} records")
    consumer.close()
    return {
        "mb_per_s": size / watch.seconds / 1e6,
        "krec_per_s": count / watch.seconds / 1e3,
        "cpu_s_per_gb": watch.cpu_seconds / size * 1e9,
    }


def handshakes(chosen: argparse.Namespace) -> Figures:
    """Each handshake is followed by one ApiVersions: then the broker has finished it, too."""
    context = ssl.create_default_context(cafile=chosen.ca)
    with Stopwatch(*chosen.broker_pid) as watch:
        for _ in range(chosen.count):
            with (
                wire.connect(chosen.port) as raw,
                context.wrap_socket(raw, server_hostname=HOST) as connection,
            ):
                wire.ask(connection, wire.framed(wire.API_VERSIONS, 0, b""))
    return _each(chosen.count, watch, "handshake")


def logins(chosen: argparse.Namespace) -> Figures:
    """Each login is followed by nothing: the answer to its last token is what was asked for."""
    with Stopwatch(*chosen.broker_pid) as watch:
        for number in range(chosen.count):
            with wire.connect(chosen.port) as connection:
                _log_in(connection, f"nonce{number:08}")
    return _each(chosen.count, watch, "login")


def _log_in(connection: socket.socket, nonce: str) -> None:
    client = password_exchange(MECHANISM, USER, PASSWORD, nonce)
    answer = _ask(connection, ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(MECHANISM))
    token: bytes | None = client.first()
    while token is not None and not answer.error_code:
        answer = _ask(connection, ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(token))
        token = client.respond(bytes(answer.auth_bytes))
    if answer.error_code:
        raise AssertionError(f"the login failed: {answer}")


def _ask(connection: socket.socket, key: ApiKey, version: int, request: object) -> Any:
    frame = bytearray()
    write_request(RequestHeader(key, version, 7, wire.CLIENT_ID), request, frame)
    connection.sendall(frame)
    (size,) = wire.I32.unpack(wire.receive(connection, SIZE_BYTES))
    return read_response(key, version, memoryview(wire.receive(connection, size)))[1]


def _each(count: int, watch: Stopwatch, what: str) -> Figures:
    return {f"{what}s_per_s": count / watch.seconds, f"cpu_ms_per_{what}": watch.cpu_seconds / count * 1e3}


def neighbours(chosen: argparse.Namespace) -> Figures:
    """The time of small requests without a quota, and the same while others wait for theirs to be earned."""
    frame = wire.produce(chosen.topic, wire.batch(200, 100))
    with wire.connect(chosen.port) as connection:
        _times_us(connection, frame, chosen.count // 10 + 1)
        alone = _times_us(connection, frame, chosen.count)
        with throttled_clients(chosen):
            beside = _times_us(connection, frame, chosen.count)
    return {
        "p50_us": percentile(beside, 0.5),
        "p99_us": percentile(beside, 0.99),
        "p50_to_alone": percentile(beside, 0.5) / percentile(alone, 0.5),
        "p99_to_alone": percentile(beside, 0.99) / percentile(alone, 0.99),
    }


def _times_us(connection: socket.socket, frame: bytes, count: int) -> list[float]:
    times = []
    for _ in range(count):
        begun = time.perf_counter()
        wire.ask(connection, frame)
        times.append((time.perf_counter() - begun) * 1e6)
    return times


@contextlib.contextmanager
def throttled_clients(chosen: argparse.Namespace) -> Iterator[None]:
    """Clients that have sent far more than their quota, and whose next requests wait in their connections."""
    entity = QuotaEntity(client_id="throttled")
    large = _renamed(wire.produce(chosen.topic, wire.batch(200_000, 1024)))
    with Admin(f"{HOST}:{chosen.port}") as admin, contextlib.ExitStack() as stack:
        succeeded(admin.alter_quotas({entity: {"producer_byte_rate": THROTTLED_BYTES_PER_S}}))
        for _ in range(THROTTLED):
            connection = stack.enter_context(wire.connect(chosen.port))
            wire.ask(connection, large)
            connection.sendall(large)
        yield
        succeeded(admin.alter_quotas({entity: {"producer_byte_rate": None}}))


def _renamed(frame: bytes) -> bytes:
    """The same request under the client id that has a quota."""
    head, own, other = 4 + 8, wire.string(wire.CLIENT_ID), wire.string("throttled")
    body = frame[4:head] + other + frame[head + len(own) :]
    return wire.I32.pack(len(body)) + body


WORKS: Final = {each.__name__: each for each in (produce, consume, handshakes, logins, neighbours)}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("work", choices=list(WORKS))
    options.add_argument("--bootstrap", default="")
    options.add_argument("--port", type=int, default=0)
    options.add_argument(
        "--ca", default="", help="the authority of the broker's certificate; without, no TLS"
    )
    options.add_argument("--broker-pid", type=int, action="append", default=[])
    options.add_argument("--topic", default="")
    options.add_argument("--count", type=int, required=True)
    chosen = options.parse_args()
    print(json.dumps(WORKS[chosen.work](chosen)))


if __name__ == "__main__":
    main()
