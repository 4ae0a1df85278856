"""The workloads against a cluster with confluent-kafka: one client process, six partitions, acks=all,
idempotent.

    python -m bench.cluster_client produce --bootstrap 127.0.0.1:9092 --broker-pid 1 --topic t --records 1000000 --size 100

produce     as fast as the client can, batched, the partitions in turn; the ends of the logs tell whether everything arrived
paced       single records at a steady rate without lingering; each one's time from `produce` to its delivery report
fill        equal batches for `consume`, whatever the answers' speed
consume     all partitions from their start

Reports of paced records are taken by a thread that waits for nothing else, so that neither sleeping nor
spinning is measured.
"""

from __future__ import annotations

import argparse
import json
import math
import threading
import time
from dataclasses import asdict, dataclass
from typing import Any, Final

from bench.client import CONSUMER, DEADLINE_SECONDS, PRODUCER, wait_for_room
from bench.processes import Stopwatch
from confluent_kafka import Consumer, Producer, TopicPartition

SAFE: Final = {"acks": "all", "enable.idempotence": True, "log_level": 2}
FILL: Final = {"linger.ms": 1000, "batch.size": 262_144}
PACED_WARM_UP: Final = 0.1  # of the records, before the clock runs
_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class ClusterResult:
    """What was done, how long it took, what it cost all brokers together; latencies where records went one by
    one.
    """

    seconds: float
    broker_cpu_seconds: float
    records: int
    bytes: int
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    p999_ms: float = 0.0


def produce(chosen: argparse.Namespace) -> ClusterResult:
    """Write as fast as the client can."""
    producer = Producer({**PRODUCER, **SAFE, "bootstrap.servers": chosen.bootstrap})
    warm_up = chosen.records // 10
    _send(producer, chosen, warm_up)  # connected, the topic known, the queues touched
    _flush(producer)
    with Stopwatch(*chosen.broker_pid) as watch:
        _send(producer, chosen, chosen.records)
        _flush(producer)
    _expect_ends(chosen, warm_up + chosen.records)
    return ClusterResult(watch.seconds, watch.cpu_seconds, chosen.records, chosen.records * chosen.size)


def fill(chosen: argparse.Namespace) -> ClusterResult:
    """Write what is to be read: batches that are full, so that all clusters hold the same."""
    producer = Producer({**PRODUCER, **SAFE, **FILL, "bootstrap.servers": chosen.bootstrap})
    with Stopwatch(*chosen.broker_pid) as watch:
        _send(producer, chosen, chosen.records)
        _flush(producer)
    _expect_ends(chosen, chosen.records)
    return ClusterResult(watch.seconds, watch.cpu_seconds, chosen.records, chosen.records * chosen.size)


def _send(producer: Any, chosen: argparse.Namespace, records: int) -> None:
    send, topic, value, partitions = producer.produce, chosen.topic, _value(chosen.size), chosen.partitions
    for number in range(records):
        try:
            send(topic, value, partition=number % partitions)
        except BufferError:
            wait_for_room(producer)
            send(topic, value, partition=number % partitions)


def _value(size: int) -> bytes:
    return (bytes(range(256)) * (size // 256 + 1))[:size]


def _flush(producer: Any) -> None:
    if producer.flush(DEADLINE_SECONDS):
        raise TimeoutError("not every record was answered")


def _expect_ends(chosen: argparse.Namespace, expected: int) -> None:
    consumer = Consumer({**CONSUMER, "bootstrap.servers": chosen.bootstrap, "log_level": 2})
    ends = [
        consumer.get_watermark_offsets(TopicPartition(chosen.topic, index), timeout=DEADLINE_SECONDS)[1]
        for index in range(chosen.partitions)
    ]
    consumer.close()
    if sum(ends) != expected:
        raise AssertionError(f"{chosen.topic} ends at {ends}: {sum(ends)} records instead of {expected}")


class _Pacer:
    """Sends single records at a steady rate, and notes how long each took to be acknowledged."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        settings = {**SAFE, "linger.ms": 0, "bootstrap.servers": chosen.bootstrap}
        self._producer = Producer(settings)
        self._topic, self._partitions = chosen.topic, chosen.partitions
        self._value = _value(chosen.size)
        self._stopping = threading.Event()
        self._poller = threading.Thread(target=self._poll)
        self.latencies: list[float] = []

    def __enter__(self) -> _Pacer:
        self._poller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._poller.join()

    def send(self, records: int, rate: float) -> None:
        """So many records at so many a second; returns when all are acknowledged."""
        self.latencies = []
        begun = time.perf_counter()
        for number in range(records):
            ahead = begun + number / rate - time.perf_counter()
            if ahead > 0:
                time.sleep(ahead)
            self._send_one(number % self._partitions)
        _flush(self._producer)
        if len(self.latencies) != records:
            raise AssertionError(f"{len(self.latencies)} of {records} records were acknowledged")

    def _send_one(self, partition: int) -> None:
        started = time.perf_counter()

        def delivered(error: object, _: object) -> None:
            if error is None:
                self.latencies.append(time.perf_counter() - started)

        self._producer.produce(self._topic, self._value, partition=partition, on_delivery=delivered)

    def _poll(self) -> None:
        while not self._stopping.is_set():
            self._producer.poll(_POLL_SECONDS)


def paced(chosen: argparse.Namespace) -> ClusterResult:
    """Single records at a steady rate."""
    with _Pacer(chosen) as pacer:
        pacer.send(max(1, int(chosen.records * PACED_WARM_UP)), chosen.rate)
        with Stopwatch(*chosen.broker_pid) as watch:
            pacer.send(chosen.records, chosen.rate)
    ordered = sorted(pacer.latencies)
    p50, p99, p999 = (_quantile_ms(ordered, part) for part in (0.5, 0.99, 0.999))
    size = chosen.records * chosen.size
    return ClusterResult(watch.seconds, watch.cpu_seconds, chosen.records, size, p50, p99, p999)


def _quantile_ms(ordered: list[float], part: float) -> float:
    return ordered[max(0, math.ceil(len(ordered) * part) - 1)] * 1e3


def consume(chosen: argparse.Namespace) -> ClusterResult:
    """Read all partitions from their start; the clock runs from the first records to the last."""
    consumer = Consumer({**CONSUMER, "bootstrap.servers": chosen.bootstrap, "log_level": 2})
    _read_last_records(consumer, chosen)
    with Stopwatch(*chosen.broker_pid) as watch:
        consumer.assign([TopicPartition(chosen.topic, index, 0) for index in range(chosen.partitions)])
        first = len(consumer.consume(1, DEADLINE_SECONDS))
        started = time.perf_counter()
        _consume(consumer, chosen.records - first)
        seconds = time.perf_counter() - started
    consumer.close()
    measured = chosen.records - first
    return ClusterResult(seconds, watch.cpu_seconds, measured, measured * chosen.size)


def _read_last_records(consumer: Any, chosen: argparse.Namespace) -> None:
    """One of each partition: the client is then connected to every broker."""
    partitions = [TopicPartition(chosen.topic, index) for index in range(chosen.partitions)]
    for partition in partitions:
        partition.offset = consumer.get_watermark_offsets(partition, timeout=DEADLINE_SECONDS)[1] - 1
    consumer.assign(partitions)
    _consume(consumer, len(partitions))


def _consume(consumer: Any, records: int) -> None:
    received, deadline = 0, time.monotonic() + DEADLINE_SECONDS
    while received < records:
        # Not more than there is: it would wait for them.
        received += len(consumer.consume(min(10_000, records - received), 1.0))
        if time.monotonic() > deadline:
            raise TimeoutError(f"read {received} of {records} records")


WORKS: Final = {"produce": produce, "paced": paced, "fill": fill, "consume": consume}


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("work", choices=WORKS)
    options.add_argument("--bootstrap", required=True)
    options.add_argument("--broker-pid", type=int, action="append", default=[])
    options.add_argument("--topic", required=True)
    options.add_argument("--partitions", type=int, default=6)
    options.add_argument("--records", type=int, required=True)
    options.add_argument("--size", type=int, required=True)
    options.add_argument("--rate", type=float, default=1000.0, help="records a second, for paced")
    chosen = options.parse_args()
    print(json.dumps(asdict(WORKS[chosen.work](chosen))))


if __name__ == "__main__":
    main()
