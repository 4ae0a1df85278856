"""One client, one kind of work on mixed records, one process: what `bench.mixed` starts for each measurement.

    python -m bench.mixed_loads --client ottla --work produce --codec lz4 --bootstrap localhost:9092 --topic t --records 200000

    produce       records as fast as they are taken
    consume       lists of records, as the client's call for several returns them
    one by one    single records, as the client's loop or its call for one returns them
    batches       Ottla's columns; of confluent-kafka the same as consume

"ottla" is what `pip install` gives, "ottla compiled" the installation with `OTTLA_NATIVE=1`, for the same work.

Settings are those of `bench/client_loads.py`: ours has its defaults (acks=all, idempotence), the other
clients have acks=1 without idempotence and the batch sizes with which they were fastest. Each client chooses
partitions by key with its own default. The clock runs from the first record to the last acknowledgement, or
over the records that are read after a warm-up. A record that is read counts when the program has its key, its
value and its headers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from importlib.util import find_spec
from itertools import chain, cycle, islice
from typing import Any, Final

from bench.client import PRODUCER, wait_for_room
from bench.client_loads import (
    BATCH_BYTES,
    DEADLINE_SECONDS,
    Watch,
    aiokafka_consumer,
    confluent_consumer,
    kafka_python,
    kafka_python_consumer,
    warm_up,
)
from bench.mixed_records import MixedRecord, mixed_records

PARTITIONS: Final = 6
AT_ONCE: Final = 10_000  # records that one call of a consumer returns at most
ONE_BY_ONE: Final = 1_000  # single records between two looks at their number
COMPILED: Final = "ottla compiled"
_NATIVE: Final = "ottla.records._native"

Records = Iterable[MixedRecord]
Reading = tuple[Callable[[], Awaitable[Iterable[Any]]], Callable[[Any], tuple[Any, Any, Any]]]


async def produce_ottla(chosen: argparse.Namespace, measured: Watch) -> None:
    import ottla

    async with ottla.Producer(chosen.bootstrap, compression=chosen.codec) as producer:

        async def send(records: Records) -> None:
            topic, send_soon, drain = chosen.topic, producer.send_soon, producer.drain
            for record in records:
                send_soon(topic, record.value, record.key, headers=record.headers)
                await drain()
            await producer.flush()

        await warmed_up(chosen, measured, send)


async def produce_aiokafka(chosen: argparse.Namespace, measured: Watch) -> None:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(
        bootstrap_servers=chosen.bootstrap,
        acks=1,
        linger_ms=5,
        max_batch_size=BATCH_BYTES,
        compression_type=None if chosen.codec == "none" else chosen.codec,
    )
    await producer.start()

    async def send(records: Records) -> None:
        topic = chosen.topic
        for record in records:
            await producer.send(topic, record.value, key=record.key, headers=record.headers)
        await producer.flush()

    try:
        await warmed_up(chosen, measured, send)
    finally:
        await producer.stop()


async def produce_kafka_python(chosen: argparse.Namespace, measured: Watch) -> None:
    producer = kafka_python().KafkaProducer(
        bootstrap_servers=chosen.bootstrap,
        acks=1,
        enable_idempotence=False,
        linger_ms=5,
        batch_size=BATCH_BYTES,
        compression_type=None if chosen.codec == "none" else chosen.codec,
    )

    async def send(records: Records) -> None:
        topic = chosen.topic
        for record in records:
            producer.send(topic, record.value, key=record.key, headers=record.headers)
        producer.flush(timeout=DEADLINE_SECONDS)

    await warmed_up(chosen, measured, send)
    producer.close()


async def produce_confluent(chosen: argparse.Namespace, measured: Watch) -> None:
    from confluent_kafka import Producer

    where = {"bootstrap.servers": chosen.bootstrap, "acks": "1", "log_level": 2}
    producer = Producer({**PRODUCER, **where, "compression.type": chosen.codec})

    async def send(records: Records) -> None:
        topic = chosen.topic
        for record in records:
            try:
                producer.produce(topic, record.value, record.key, headers=record.headers)
            except BufferError:
                wait_for_room(producer)
                producer.produce(topic, record.value, record.key, headers=record.headers)
        if producer.flush(DEADLINE_SECONDS):
            raise TimeoutError("not every record was answered")

    await warmed_up(chosen, measured, send)


async def warmed_up(
    chosen: argparse.Namespace, measured: Watch, send: Callable[[Records], Awaitable[None]]
) -> None:
    """Measure the sending of `records` records after some that are not counted."""
    records = cycle(mixed_records())
    await send(islice(records, warm_up(chosen)))
    measured.restart()
    await send(islice(records, chosen.records))
    measured.stop()


async def consume_ottla(chosen: argparse.Namespace, measured: Watch) -> None:
    import ottla

    async with ottla.Consumer(chosen.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([ottla.TopicPartition(chosen.topic, number) for number in range(PARTITIONS)])
        if chosen.work == "one by one":
            await until_read(chosen, measured, (_one_by_one(consumer), _attributes))
        elif chosen.work == "batches":
            batches = consumer.batches()

            async def rows() -> Iterable[Any]:
                batch = await anext(batches)
                return zip(batch.keys, batch.values, batch.headers, strict=True)

            await until_read(chosen, measured, (rows, _themselves))
        else:
            await until_read(chosen, measured, (lambda: consumer.poll(max_records=AT_ONCE), _attributes))


async def consume_aiokafka(chosen: argparse.Namespace, measured: Watch) -> None:
    async with aiokafka_consumer(chosen, PARTITIONS) as consumer:
        if chosen.work == "one by one":
            await until_read(chosen, measured, (_one_by_one(consumer), _attributes))
            return

        async def records() -> Iterable[Any]:
            return chain(*(await consumer.getmany(timeout_ms=1_000, max_records=AT_ONCE)).values())

        await until_read(chosen, measured, (records, _attributes))


async def consume_kafka_python(chosen: argparse.Namespace, measured: Watch) -> None:
    consumer = kafka_python_consumer(chosen, PARTITIONS)

    async def records() -> Iterable[Any]:
        if chosen.work == "one by one":
            return islice(consumer, ONE_BY_ONE)
        return chain(*consumer.poll(timeout_ms=1_000, max_records=AT_ONCE).values())

    await until_read(chosen, measured, (records, _attributes))
    consumer.close()


async def consume_confluent(chosen: argparse.Namespace, measured: Watch) -> None:
    consumer = confluent_consumer(chosen, PARTITIONS)

    def singly() -> Iterable[Any]:
        for _ in range(ONE_BY_ONE):
            if (message := consumer.poll(1.0)) is not None:
                yield message

    async def messages() -> Iterable[Any]:
        return singly() if chosen.work == "one by one" else consumer.consume(AT_ONCE, 1.0)

    def parts(message: Any) -> tuple[Any, Any, Any]:
        return message.key(), message.value(), message.headers()

    await until_read(chosen, measured, (messages, parts))
    consumer.close()


def _attributes(record: Any) -> tuple[Any, Any, Any]:
    return record.key, record.value, record.headers


def _themselves(row: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    return row


def _one_by_one(consumer: AsyncIterable[Any]) -> Callable[[], Awaitable[list[Any]]]:
    async def some() -> list[Any]:
        taken: list[Any] = []
        async for record in consumer:
            taken.append(record)
            if len(taken) == ONE_BY_ONE:
                break
        return taken

    return some


async def until_read(chosen: argparse.Namespace, measured: Watch, reading: Reading) -> None:
    """Read `records` records after the warm-up, and see that keys, values and headers are there."""
    more, parts = reading
    for count in (warm_up(chosen), chosen.records):
        measured.restart()
        read = value_bytes = with_headers = 0
        deadline = time.monotonic() + DEADLINE_SECONDS
        while read < count:
            for record in await more():
                key, value, headers = parts(record)
                read += key is not None
                value_bytes += len(value)
                with_headers += bool(headers)
            if time.monotonic() > deadline:
                raise TimeoutError(f"{count - read} records are missing")
        chosen.read = read
        if read > AT_ONCE and not (60 < value_bytes / read < 900 and 0.2 < with_headers / read < 0.5):
            raise AssertionError("these are not the mixed records")
    measured.stop()


PRODUCE: dict[str, Callable[[argparse.Namespace, Watch], Awaitable[None]]] = {
    "ottla": produce_ottla,
    COMPILED: produce_ottla,
    "aiokafka": produce_aiokafka,
    "confluent-kafka": produce_confluent,
    "kafka-python": produce_kafka_python,
}
CONSUME: dict[str, Callable[[argparse.Namespace, Watch], Awaitable[None]]] = {
    "ottla": consume_ottla,
    COMPILED: consume_ottla,
    "aiokafka": consume_aiokafka,
    "confluent-kafka": consume_confluent,
    "kafka-python": consume_kafka_python,
}
WORKS: Final = ("produce", "consume", "one by one", "batches")


def is_compiled() -> bool:
    """Whether this installation has the compiled loops."""
    return find_spec(_NATIVE) is not None


def choose_loops(client: str) -> None:
    """Before Ottla is imported: a client that is not the compiled one finds no compiled loops."""
    if client == COMPILED:
        if not is_compiled():
            raise SystemExit("this installation has no compiled loops: OTTLA_NATIVE=1 pip install .")
    else:
        sys.modules[_NATIVE] = None  # type: ignore[assignment]


async def work(chosen: argparse.Namespace) -> dict[str, float]:
    measured, chosen.read = Watch(), 0
    await (PRODUCE if chosen.work == "produce" else CONSUME)[chosen.client](chosen, measured)
    count = chosen.read or chosen.records
    return {"seconds": measured.seconds, "cpu_seconds": measured.cpu_seconds, "records": count}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--client", choices=sorted(PRODUCE), required=True)
    options.add_argument("--work", choices=WORKS, required=True)
    options.add_argument("--codec", default="none")
    options.add_argument("--bootstrap", required=True)
    options.add_argument("--topic", required=True)
    options.add_argument("--records", type=int, required=True)
    chosen = options.parse_args()
    choose_loops(chosen.client)
    print(json.dumps(asyncio.run(work(chosen))))


if __name__ == "__main__":
    main()
