"""Kills a broker under load, again and again, and looks for what it acknowledged.

Idempotent producers keep five requests in flight and send again, after each crash, what was not answered.
After the last crash every partition is read from its start: offsets must be dense, each acknowledged record
must be where its answer said, and no record may be there twice (STO-4, STO-9, PRO-4).

    python -m tests.integration.killing --kills 200 --seed 7
"""

from __future__ import annotations

import argparse
import random
import socket
import struct
import sys
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.clients.raw import fetch, receive

from ottla.localcluster.broker_process import BrokerProcess, start_broker
from ottla.localcluster.ports import HOST
from ottla.protocol.apis import ApiKey
from ottla.protocol.frame import RequestHeader, read_response, write_request
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.producer_ids import InitProducerIdRequest
from ottla.protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.records.batch import iter_batches
from ottla.records.builder import build_batch
from ottla.records.record import Record

TOPIC = "kills"
PARTITIONS = 2
PRODUCERS = 4
IN_FLIGHT = 5
PRODUCE_VERSION = 9
RETRY_DEADLINE_S = 30.0
# Small segments, so that rolls and snapshots are among the things a crash interrupts.
SEGMENT_BYTES = 64 * 1024


class Client:
    """One blocking connection that speaks our own codecs."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), timeout=10)
        self._correlation_id = 0

    def close(self) -> None:
        self._socket.close()

    def send(self, key: ApiKey, version: int, request: object) -> None:
        self._correlation_id += 1
        out = bytearray()
        write_request(RequestHeader(key, version, self._correlation_id, "killing"), request, out)
        self._socket.sendall(out)

    def receive(self, key: ApiKey, version: int) -> Any:
        (size,) = struct.unpack(">i", receive(self._socket, 4))
        return read_response(key, version, memoryview(receive(self._socket, size)))[1]

    def ask(self, key: ApiKey, version: int, request: object) -> Any:
        self.send(key, version, request)
        return self.receive(key, version)


@dataclass(slots=True)
class Batch:
    sequence: int
    values: list[bytes]


@dataclass
class Producer:
    """An idempotent producer: one producer id, one partition, one sequence, whatever happens to its
    connection.
    """

    number: int
    port: int
    seed: int
    stopping: threading.Event
    acknowledged: dict[bytes, int] = field(default_factory=dict)
    unanswered: deque[Batch] = field(default_factory=deque)
    failure: str | None = None
    producer_id: int = -1
    sequence: int = 0
    answered_at: float = field(default_factory=time.monotonic)

    @property
    def partition(self) -> int:
        return self.number % PARTITIONS

    def run(self) -> None:
        """Produce until told to stop and everything is answered."""
        rng = random.Random(self.seed)
        while not (self.stopping.is_set() and not self.unanswered) and self.failure is None:
            try:
                self._produce(rng)
            except (OSError, EOFError) as error:
                if time.monotonic() > self.answered_at + RETRY_DEADLINE_S:
                    self.failure = f"producer {self.number} could not go on: {error}"
                time.sleep(0.005)

    def _produce(self, rng: random.Random) -> None:
        client = Client(self.port)
        try:
            if self.producer_id < 0:
                self.producer_id = new_producer_id(client)
            for batch in self.unanswered:
                self._send(client, batch)
            while self.failure is None and (self.unanswered or not self.stopping.is_set()):
                while len(self.unanswered) < IN_FLIGHT and not self.stopping.is_set():
                    self.unanswered.append(self._new_batch(rng))
                    self._send(client, self.unanswered[-1])
                if self.unanswered:
                    self._take_answer(client)
        finally:
            client.close()

    def _new_batch(self, rng: random.Random) -> Batch:
        count = rng.randint(1, 8)
        values = [
            b"%d:%d:" % (self.number, self.sequence + n) + rng.randbytes(rng.randint(0, 300))
            for n in range(count)
        ]
        batch = Batch(self.sequence, values)
        self.sequence += count
        return batch

    def _send(self, client: Client, batch: Batch) -> None:
        records = [
            Record(n, 1_000_000 + batch.sequence + n, None, value) for n, value in enumerate(batch.values)
        ]
        data = build_batch(
            records, producer_id=self.producer_id, producer_epoch=0, base_sequence=batch.sequence
        )
        partition = PartitionProduceData(index=self.partition, records=memoryview(data))
        topic = TopicProduceData(name=TOPIC, partition_data=[partition])
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])
        client.send(ApiKey.PRODUCE, PRODUCE_VERSION, request)

    def _take_answer(self, client: Client) -> None:
        answer = client.receive(ApiKey.PRODUCE, PRODUCE_VERSION)
        partition = answer.responses[0].partition_responses[0]
        batch = self.unanswered[0]
        if partition.error_code:
            self.failure = (
                f"producer {self.number}, sequence {batch.sequence}: error {partition.error_code} "
                f"{partition.error_message}"
            )
            return
        self.unanswered.popleft()
        self.answered_at = time.monotonic()
        for delta, value in enumerate(batch.values):
            self.acknowledged[value] = partition.base_offset + delta


def new_producer_id(client: Client) -> int:
    """A producer id for an idempotent producer."""
    request = InitProducerIdRequest(transactional_id=None)
    answer = client.ask(ApiKey.INIT_PRODUCER_ID, 4, request)
    if answer.error_code:
        raise AssertionError(f"InitProducerId answered {answer.error_code}")
    producer_id: int = answer.producer_id
    return producer_id


def create_topic(port: int, settings: dict[str, str]) -> None:
    """The topic under test, with the flush policy under test."""
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in settings.items()]
    topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, configs=configs)
    client = Client(port)
    try:
        answer = client.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
    finally:
        client.close()
    error = answer.topics[0].error_code
    if error:
        raise AssertionError(f"creating {TOPIC} answered {error}")


def read_all(bootstrap: str, partition: int) -> list[bytes]:
    """Every value of a partition; its place in the list is its offset, or this raises."""
    values: list[bytes] = []
    while True:
        error, data = fetch(bootstrap, TOPIC, partition, len(values))
        if error:
            raise AssertionError(f"reading {TOPIC}-{partition} at {len(values)} answered error {error}")
        before = len(values)
        for batch in iter_batches(data):
            for record in batch.records():
                if record.offset >= before:
                    if record.offset != len(values):
                        raise AssertionError(
                            f"{TOPIC}-{partition}: offset {record.offset} follows {len(values) - 1}"
                        )
                    values.append(record.value or b"")
        if len(values) == before:
            return values


def check(bootstrap: str, producers: list[Producer]) -> int:
    """Raise for a record that was lost, moved or doubled; answer how many were acknowledged."""
    stored = [read_all(bootstrap, partition) for partition in range(PARTITIONS)]
    for partition, values in enumerate(stored):
        if len(set(values)) != len(values):
            raise AssertionError(f"{TOPIC}-{partition} holds a record twice")
    for producer in producers:
        values = stored[producer.partition]
        for value, offset in producer.acknowledged.items():
            if offset >= len(values) or values[offset] != value:
                raise AssertionError(
                    f"acknowledged at {producer.partition}:{offset}, not there: {value[:40]!r}"
                )
        own = [value for value in values if value.startswith(b"%d:" % producer.number)]
        numbers = [int(value.split(b":")[1]) for value in own]
        if numbers != sorted(numbers):
            raise AssertionError(f"producer {producer.number}'s records are out of order")
    return sum(len(producer.acknowledged) for producer in producers)


def kill_and_check(data: Path, kills: int, seed: int, settings: dict[str, str]) -> int:
    """Run it; answer how many records were acknowledged. The broker restarts on the port it had."""
    rng = random.Random(seed)
    broker = start_broker(data)
    stopping = threading.Event()
    try:
        create_topic(broker.port, {"segment.bytes": str(SEGMENT_BYTES), **settings})
        producers = [Producer(n, broker.port, seed * 1000 + n, stopping) for n in range(PRODUCERS)]
        threads = [threading.Thread(target=producer.run) for producer in producers]
        for thread in threads:
            thread.start()
        try:
            for _ in range(kills):
                # Not a wait for a condition: the moment itself is what is drawn at random.
                stopping.wait(rng.uniform(0.0, 0.25))
                broker = _crash_and_restart(broker)
        finally:
            stopping.set()
            for thread in threads:
                thread.join()
        failures = [producer.failure for producer in producers if producer.failure is not None]
        if failures:
            raise AssertionError("; ".join(failures) + f"\n{broker.said()[-3000:]}")
        return check(broker.bootstrap, producers)
    finally:
        broker.kill()


def _crash_and_restart(broker: BrokerProcess) -> BrokerProcess:
    broker.kill()
    return start_broker(broker.data, port=broker.port)


def main() -> int:
    """The long version, for people."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 16))
    given = parser.parse_args()
    print(f"seed {given.seed}: {given.kills} kills", flush=True)
    for settings in ({}, {"flush.messages": "1"}):
        with tempfile.TemporaryDirectory() as directory:
            count = kill_and_check(Path(directory) / "data", given.kills // 2, given.seed, dict(settings))
        print(
            f"{given.kills // 2} kills, {settings or 'default flush policy'}: {count} acknowledged records, all there once"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
