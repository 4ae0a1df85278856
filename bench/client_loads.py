"""One client, one kind of work, one process: what `bench.clients` starts for each measurement.

    python -m bench.client_loads --client ottla --work produce --bootstrap localhost:9092 --topic t --records 500000 --size 100

Each client is used as its documentation says for throughput, with the settings that were found to be fastest
for it; ours has its defaults (acks=all, idempotence), the others acks=1 without idempotence. The clock runs
from the first record to the last acknowledgement, or from the first records that are read to the last, after
a warm-up. A record that is read counts when the program has its value in hand.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

DEADLINE_SECONDS = 120.0
WARM_UP = 0.1
BATCH_BYTES = 256 << 10
FETCH_BYTES = 4 << 20


class Watch:
    """Wall and CPU time of this process."""

    def __init__(self) -> None:
        self.seconds = self.cpu_seconds = 0.0
        self.restart()

    def restart(self) -> None:
        self._begun, self._cpu_begun = time.perf_counter(), time.process_time()

    def stop(self) -> None:
        self.seconds = time.perf_counter() - self._begun
        self.cpu_seconds = time.process_time() - self._cpu_begun


async def produce_ottla(chosen: argparse.Namespace, value: bytes, watch: Watch) -> None:
    import ottla

    async with ottla.Producer(chosen.bootstrap) as producer:

        async def send(count: int) -> None:
            topic, send_soon, drain = chosen.topic, producer.send_soon, producer.drain
            for _ in range(count):
                send_soon(topic, value)
                await drain()
            await producer.flush()

        await send(warm_up(chosen))
        watch.restart()
        await send(chosen.records)
        watch.stop()


async def produce_aiokafka(chosen: argparse.Namespace, value: bytes, watch: Watch) -> None:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(
        bootstrap_servers=chosen.bootstrap, acks=1, linger_ms=5, max_batch_size=BATCH_BYTES
    )
    await producer.start()

    async def send(count: int) -> None:
        topic = chosen.topic
        for _ in range(count):
            await producer.send(topic, value, partition=0)
        await producer.flush()

    try:
        await send(warm_up(chosen))
        watch.restart()
        await send(chosen.records)
        watch.stop()
    finally:
        await producer.stop()


async def produce_kafka_python(chosen: argparse.Namespace, value: bytes, watch: Watch) -> None:
    KafkaProducer = kafka_python().KafkaProducer  # noqa: N806
    producer = KafkaProducer(
        bootstrap_servers=chosen.bootstrap,
        acks=1,
        enable_idempotence=False,
        linger_ms=5,
        batch_size=BATCH_BYTES,
    )

    def send(count: int) -> None:
        topic = chosen.topic
        for _ in range(count):
            producer.send(topic, value, partition=0)
        producer.flush(timeout=DEADLINE_SECONDS)

    send(warm_up(chosen))
    watch.restart()
    send(chosen.records)
    watch.stop()
    producer.close()


async def produce_confluent(chosen: argparse.Namespace, value: bytes, watch: Watch) -> None:
    from bench.client import PRODUCER, _send
    from confluent_kafka import Producer

    settings = {**PRODUCER, "bootstrap.servers": chosen.bootstrap, "acks": "1", "log_level": 2}
    if chosen.records_per_batch:
        settings |= {"batch.num.messages": chosen.records_per_batch}
    producer = Producer(settings)

    def send(count: int) -> None:
        _send(producer, chosen.topic, value, count)
        if producer.flush(DEADLINE_SECONDS):
            raise TimeoutError("not every record was answered")

    send(warm_up(chosen))
    watch.restart()
    send(chosen.records)
    watch.stop()


async def consume_ottla(chosen: argparse.Namespace, watch: Watch) -> None:
    import ottla

    async with ottla.Consumer(chosen.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([ottla.TopicPartition(chosen.topic, 0)])
        await until_read(chosen, watch, lambda: consumer.poll(max_records=10_000))


async def consume_ottla_batches(chosen: argparse.Namespace, watch: Watch) -> None:
    import ottla

    async with ottla.Consumer(chosen.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([ottla.TopicPartition(chosen.topic, 0)])
        batches = consumer.batches()

        async def values() -> Any:
            return (await anext(batches)).values

        await until_read(chosen, watch, values, of=lambda value: value)


async def consume_aiokafka(chosen: argparse.Namespace, watch: Watch) -> None:
    async with aiokafka_consumer(chosen, 1) as consumer:
        (partition,) = consumer.assignment()

        async def records() -> Any:
            return (await consumer.getmany(timeout_ms=1_000, max_records=10_000)).get(partition, [])

        await until_read(chosen, watch, records)


async def consume_kafka_python(chosen: argparse.Namespace, watch: Watch) -> None:
    consumer = kafka_python_consumer(chosen, 1)
    (partition,) = consumer.assignment()

    async def records() -> Any:
        return consumer.poll(timeout_ms=1_000, max_records=10_000).get(partition, [])

    await until_read(chosen, watch, records)
    consumer.close()


async def consume_confluent(chosen: argparse.Namespace, watch: Watch) -> None:
    consumer = confluent_consumer(chosen, 1)

    async def messages() -> Any:
        return consumer.consume(10_000, 1.0)

    await until_read(chosen, watch, messages, of=lambda message: message.value())
    consumer.close()


@asynccontextmanager
async def aiokafka_consumer(chosen: argparse.Namespace, partitions: int) -> AsyncIterator[Any]:
    """A consumer of the topic's first partitions."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(
        bootstrap_servers=chosen.bootstrap,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_partition_fetch_bytes=FETCH_BYTES,
    )
    await consumer.start()
    try:
        consumer.assign([TopicPartition(chosen.topic, number) for number in range(partitions)])
        yield consumer
    finally:
        await consumer.stop()


def kafka_python_consumer(chosen: argparse.Namespace, partitions: int) -> Any:
    """A consumer of the topic's first partitions."""
    kafka = kafka_python()
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=chosen.bootstrap,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_partition_fetch_bytes=FETCH_BYTES,
    )
    consumer.assign([kafka.TopicPartition(chosen.topic, number) for number in range(partitions)])
    return consumer


def confluent_consumer(chosen: argparse.Namespace, partitions: int) -> Any:
    """A consumer of the topic's first partitions, from their beginning."""
    from bench.client import CONSUMER
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({**CONSUMER, "bootstrap.servers": chosen.bootstrap, "log_level": 2})
    consumer.assign([TopicPartition(chosen.topic, number, 0) for number in range(partitions)])
    return consumer


async def until_read(
    chosen: argparse.Namespace,
    watch: Watch,
    more: Callable[[], Awaitable[Any]],
    of: Callable[[Any], Any] = lambda record: record.value,
) -> None:
    """Read `records` records after the warm-up, and see that each has a value of the right size."""
    left, size = warm_up(chosen), chosen.size
    for count in (left, chosen.records):
        watch.restart()
        left = count
        deadline = time.monotonic() + DEADLINE_SECONDS
        while left > 0:
            records = await more()
            for record in records:
                if len(of(record)) != size:
                    raise AssertionError("a record of another size")
            left -= len(records)
            if time.monotonic() > deadline:
                raise TimeoutError(f"{left} records are missing")
        chosen.read = count - left
    watch.stop()


def warm_up(chosen: argparse.Namespace) -> int:
    return int(chosen.records * WARM_UP) + 1


def kafka_python() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it reads its schemas with a function that Python calls deprecated
        import kafka
    return kafka


PRODUCE: dict[str, Callable[[argparse.Namespace, bytes, Watch], Awaitable[None]]] = {
    "ottla": produce_ottla,
    "aiokafka": produce_aiokafka,
    "kafka-python": produce_kafka_python,
    "confluent-kafka": produce_confluent,
}
CONSUME: dict[str, Callable[[argparse.Namespace, Watch], Awaitable[None]]] = {
    "ottla": consume_ottla,
    "ottla batches": consume_ottla_batches,
    "aiokafka": consume_aiokafka,
    "kafka-python": consume_kafka_python,
    "confluent-kafka": consume_confluent,
}


async def work(chosen: argparse.Namespace) -> dict[str, float]:
    watch, count = Watch(), chosen.records
    if chosen.work == "produce":
        pattern = bytes(range(256)) * (chosen.size // 256 + 1)
        await PRODUCE[chosen.client](chosen, pattern[: chosen.size], watch)
    else:
        await CONSUME[chosen.client](chosen, watch)
        count = chosen.read
    return {"seconds": watch.seconds, "cpu_seconds": watch.cpu_seconds, "records": count}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--client", choices=sorted({*PRODUCE, *CONSUME}), required=True)
    options.add_argument("--work", choices=["produce", "consume"], required=True)
    options.add_argument("--bootstrap", required=True)
    options.add_argument("--topic", required=True)
    options.add_argument("--records", type=int, required=True)
    options.add_argument("--size", type=int, required=True)
    options.add_argument(
        "--records-per-batch", type=int, default=0, help="at most, for confluent-kafka, which fills topics"
    )
    print(json.dumps(asyncio.run(work(options.parse_args()))))


if __name__ == "__main__":
    main()
