"""The workloads with confluent-kafka, the fastest client that Python has: one client process beside the
broker.

    python -m bench.client produce --bootstrap localhost:9092 --broker-pid 123 --topic t --records 1000000 --size 100

Without per-record callbacks, which would measure Python: the end of the log tells whether everything arrived.
Queues are large enough never to run empty and small enough that the client reuses its memory instead of
asking the kernel for more. The consumer is tuned: with its default back-off it stays far below the rate of an
idle broker.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from typing import Any

from bench.load import Result
from bench.processes import Stopwatch
from confluent_kafka import Consumer, Producer, TopicPartition

DEADLINE_SECONDS = 120.0
PRODUCER = {
    "linger.ms": 5,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 128 << 10,
}
CONSUMER = {
    "group.id": "bench",
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "queued.min.messages": 2_000_000,
    "queued.max.messages.kbytes": 128 << 10,
    "fetch.queue.backoff.ms": 10,
    "fetch.message.max.bytes": 4 << 20,
}


def produce(chosen: argparse.Namespace) -> Result:
    """Write as fast as the client can, with one partition and one connection."""
    where = {"test.mock.num.brokers": 1} if chosen.mock else {"bootstrap.servers": chosen.bootstrap}
    producer = Producer({**PRODUCER, **where, "acks": chosen.acks, "log_level": 2})
    value = bytes(range(256)) * (chosen.size // 256 + 1)
    value = value[: chosen.size]
    _send(producer, chosen.topic, value, _first(chosen))  # connected, the topic known, the queues touched
    if producer.flush(DEADLINE_SECONDS):
        raise TimeoutError("the first records were not answered")
    watch = Stopwatch(chosen.broker_pid)
    with watch:
        _send(producer, chosen.topic, value, chosen.records)
        if producer.flush(DEADLINE_SECONDS):
            raise TimeoutError("not every record was answered")
    if not chosen.mock:
        _expect_end(chosen)
    return Result(watch.seconds, watch.cpu_seconds, chosen.records, chosen.records * chosen.size)


def _send(producer: Any, topic: str, value: bytes, records: int) -> None:
    send = producer.produce
    for _ in range(records):
        try:
            send(topic, value, partition=0)
        except BufferError:
            wait_for_room(producer)
            send(topic, value, partition=0)


def wait_for_room(producer: Any) -> None:
    """Until half of the queue is gone, so that the broker never finds it empty."""
    half = len(producer) // 2
    while len(producer) > half:
        producer.poll(0.005)


def _first(chosen: argparse.Namespace) -> int:
    return 1 + int(chosen.records) // 10


def _expect_end(chosen: argparse.Namespace) -> None:
    consumer = Consumer({**CONSUMER, "bootstrap.servers": chosen.bootstrap, "log_level": 2})
    _, end = consumer.get_watermark_offsets(TopicPartition(chosen.topic, 0), timeout=DEADLINE_SECONDS)
    consumer.close()
    expected = chosen.records + _first(chosen)
    if end != expected:
        raise AssertionError(f"{chosen.topic} ends at {end} instead of {expected}")


def consume(chosen: argparse.Namespace) -> Result:
    """Read the topic from its start; the clock runs from the first records to the last."""
    consumer = Consumer({**CONSUMER, "bootstrap.servers": chosen.bootstrap, "log_level": 2})
    watch = Stopwatch(chosen.broker_pid)
    deadline = time.monotonic() + DEADLINE_SECONDS
    with watch:
        consumer.assign([TopicPartition(chosen.topic, 0, 0)])
        first = len(consumer.consume(1, DEADLINE_SECONDS))
        started = time.perf_counter()
        received = first
        while received < chosen.records:
            received += len(consumer.consume(10_000, 1.0))
            if time.monotonic() > deadline:
                raise TimeoutError(f"read {received} of {chosen.records} records")
        seconds = time.perf_counter() - started
    consumer.close()
    return Result(seconds, watch.cpu_seconds, received - first, (received - first) * chosen.size)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("work", choices=["produce", "consume"])
    options.add_argument("--bootstrap", default="")
    options.add_argument("--broker-pid", type=int, default=0)
    options.add_argument(
        "--mock", action="store_true", help="librdkafka's own mock cluster, inside this process"
    )
    options.add_argument("--topic", required=True)
    options.add_argument("--records", type=int, required=True)
    options.add_argument("--size", type=int, required=True)
    options.add_argument("--acks", default="1")
    chosen = options.parse_args()
    print(json.dumps(asdict({"produce": produce, "consume": consume}[chosen.work](chosen))))


if __name__ == "__main__":
    main()
