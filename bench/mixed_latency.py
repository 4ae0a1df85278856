"""How long one mixed record takes, in one process: what `bench.mixed` starts for each measurement of time.

    python -m bench.mixed_latency --client ottla --work "one send" --bootstrap localhost:9092 --topic t --records 2000

    one send      one record after another, each sent when the one before is acknowledged
    end to end    1,000 records a second, from the call that sends one to the loop that has read it

No codec, and no client waits to fill a batch: `linger` is 0 for all. Times are in milliseconds. The first tenth of
the records does not count.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import cycle, islice
from typing import Any, Final

from bench.client_loads import aiokafka_consumer
from bench.mixed_loads import COMPILED, PARTITIONS, choose_loops
from bench.mixed_records import MixedRecord, mixed_records

PER_SECOND: Final = 1_000
DEADLINE_SECONDS: Final = 60.0
# Sends one record, and returns when it is acknowledged.
Send = Callable[[MixedRecord], Awaitable[Any]]


@asynccontextmanager
async def ottla_sender(chosen: argparse.Namespace) -> AsyncIterator[Send]:
    import ottla

    async with ottla.Producer(chosen.bootstrap, linger_ms=0) as producer:
        yield lambda record: producer.send(chosen.topic, record.value, record.key, headers=record.headers)


@asynccontextmanager
async def aiokafka_sender(chosen: argparse.Namespace) -> AsyncIterator[Send]:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=chosen.bootstrap, acks=1)
    await producer.start()
    try:
        yield lambda record: producer.send_and_wait(
            chosen.topic, record.value, key=record.key, headers=record.headers
        )
    finally:
        await producer.stop()


@asynccontextmanager
async def confluent_sender(chosen: argparse.Namespace) -> AsyncIterator[Send]:
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": chosen.bootstrap, "acks": "1", "linger.ms": 0, "log_level": 2}
    producer, reports = Producer(settings), list[Any]()

    async def send(record: MixedRecord) -> None:
        reports.clear()
        producer.produce(
            chosen.topic,
            record.value,
            record.key,
            headers=record.headers,
            on_delivery=lambda error, _: reports.append(error),
        )
        while not reports:
            producer.poll(1.0)
        if reports[0] is not None:
            raise AssertionError(str(reports[0]))

    yield send


SENDERS: Final = {
    "ottla": ottla_sender,
    COMPILED: ottla_sender,
    "aiokafka": aiokafka_sender,
    "confluent-kafka": confluent_sender,
}


@asynccontextmanager
async def ottla_reader(chosen: argparse.Namespace) -> AsyncIterator[AsyncIterator[Any]]:
    import ottla

    async with ottla.Consumer(chosen.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([ottla.TopicPartition(chosen.topic, number) for number in range(PARTITIONS)])
        yield aiter(consumer)


@asynccontextmanager
async def aiokafka_reader(chosen: argparse.Namespace) -> AsyncIterator[AsyncIterator[Any]]:
    async with aiokafka_consumer(chosen, PARTITIONS) as consumer:
        yield aiter(consumer)


# Clients with an event loop: sending and reading in one process is what their users do.
READERS: Final = {"ottla": ottla_reader, COMPILED: ottla_reader, "aiokafka": aiokafka_reader}


def counted(chosen: argparse.Namespace) -> Iterator[MixedRecord]:
    return islice(cycle(mixed_records()), chosen.records)


async def one_send(chosen: argparse.Namespace) -> list[float]:
    times = []
    async with SENDERS[chosen.client](chosen) as send:
        for record in counted(chosen):
            began = time.perf_counter()
            await send(record)
            times.append(time.perf_counter() - began)
    return times


async def end_to_end(chosen: argparse.Namespace) -> list[float]:
    """Times in the order of arrival. Each record says in its key when it was sent."""
    times: list[float] = []
    sent: set[asyncio.Task[Any]] = set()

    async def read(reader: AsyncIterator[Any]) -> None:
        async for record in reader:
            times.append(time.perf_counter() - float(record.key))
            if len(times) == chosen.records:
                return

    async with SENDERS[chosen.client](chosen) as send, READERS[chosen.client](chosen) as reader:
        reading = asyncio.create_task(read(reader))
        began = time.perf_counter()
        for number, record in enumerate(counted(chosen)):
            await asyncio.sleep(max(0.0, began + number / PER_SECOND - time.perf_counter()))
            stamped = MixedRecord(repr(time.perf_counter()).encode(), record.value, record.headers)
            task = asyncio.ensure_future(send(stamped))
            sent.add(task)
            task.add_done_callback(sent.discard)
        await asyncio.wait_for(reading, DEADLINE_SECONDS)
        await asyncio.gather(*sent)
    return times


WORKS: Final = {"one send": one_send, "end to end": end_to_end}


async def work(chosen: argparse.Namespace) -> dict[str, float]:
    times = await WORKS[chosen.work](chosen)
    kept = sorted(each * 1_000 for each in times[len(times) // 10 :])
    return {"p50_ms": statistics.median(kept), "p99_ms": kept[len(kept) * 99 // 100]}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--client", choices=sorted(SENDERS), required=True)
    options.add_argument("--work", choices=sorted(WORKS), required=True)
    options.add_argument("--bootstrap", required=True)
    options.add_argument("--topic", required=True)
    options.add_argument("--records", type=int, required=True)
    chosen = options.parse_args()
    choose_loops(chosen.client)
    print(json.dumps(asyncio.run(work(chosen))))


if __name__ == "__main__":
    main()
