"""One client, one kind of work on mixed records, one process: what `bench.peers` starts for each measurement.

    python -m bench.peer_loads --client redis --work paced --port 6379 --stream s --records 1000 --pid 123

Each server is used through a Python client that its documentation names, as that says for throughput: Ottla
through its own, and through confluent-kafka as Apache Kafka; RabbitMQ's streams through rstream, which speaks
their own protocol. All write one ordered log: a topic with one partition, a stream. A record counts as written
when the server has acknowledged it, and as read when the program has its key, value and headers in hand. NATS
and RabbitMQ have no keys, and Redis has neither keys nor headers: there a key is a header or a property, and
all of them are fields of an entry.

Modules of clients are imported where they are used: no Python has all of them (`peer_servers.clients`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, Final, TypeAlias

from bench.mixed_records import MixedRecord, mixed_records
from bench.processes import Stopwatch

HOST: Final = "127.0.0.1"
DEADLINE_S: Final = 120.0
WARM_UP: Final = 0.2  # of the records, not counted
PIPELINE: Final = 500  # commands or messages that go to Redis and to RabbitMQ at once
READ_AT_ONCE: Final = 1_000

Records: TypeAlias = Iterable[MixedRecord]
Parts: TypeAlias = tuple[Any, Any, Any]  # key, value, headers


@dataclass(frozen=True, slots=True)
class Stream:
    """An open client of one log."""

    write_all: Callable[[Records], Awaitable[None]]  # returns when all are acknowledged
    write_one: Callable[[MixedRecord], Awaitable[object]]
    read: Callable[[], AsyncGenerator[list[Parts], None]]  # from the beginning, without an end


@asynccontextmanager
async def ottla_stream(chosen: argparse.Namespace) -> AsyncIterator[Stream]:
    import ottla

    topic, bootstrap = chosen.stream, f"{HOST}:{chosen.port}"
    async with ottla.Producer(bootstrap) as producer:

        async def write_all(records: Records) -> None:
            send_soon, drain = producer.send_soon, producer.drain
            for record in records:
                send_soon(topic, record.value, record.key, headers=record.headers)
                await drain()
            await producer.flush()

        async def write_one(record: MixedRecord) -> None:
            await producer.send(topic, record.value, record.key, headers=record.headers)

        async def read() -> AsyncGenerator[list[Parts], None]:
            async with ottla.Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
                consumer.assign([ottla.TopicPartition(topic, 0)])
                while True:
                    records = await consumer.poll(max_records=READ_AT_ONCE)
                    yield [(record.key, record.value, record.headers) for record in records]

        yield Stream(write_all, write_one, read)


@asynccontextmanager
async def confluent_stream(chosen: argparse.Namespace) -> AsyncIterator[Stream]:
    from bench.client import CONSUMER, PRODUCER, wait_for_room
    from confluent_kafka import Consumer, Producer, TopicPartition

    topic = chosen.stream
    where = {"bootstrap.servers": f"{HOST}:{chosen.port}", "log_level": 2}
    linger = {"linger.ms": 0} if chosen.work == "paced" else {}
    producer = Producer({**PRODUCER, **where, **linger, "acks": "all"})

    async def write_all(records: Records) -> None:
        for record in records:
            try:
                producer.produce(topic, record.value, record.key, headers=record.headers)
            except BufferError:
                wait_for_room(producer)
                producer.produce(topic, record.value, record.key, headers=record.headers)
        if producer.flush(DEADLINE_S):
            raise TimeoutError("not every record was answered")

    async def write_one(record: MixedRecord) -> None:
        answers: list[Any] = []
        producer.produce(
            topic,
            record.value,
            record.key,
            headers=record.headers,
            on_delivery=lambda error, _: answers.append(error),
        )
        while not answers:
            producer.poll(1.0)
        if answers[0]:
            raise AssertionError(answers[0])

    async def read() -> AsyncGenerator[list[Parts], None]:
        consumer = Consumer({**CONSUMER, **where})
        consumer.assign([TopicPartition(topic, 0, 0)])
        try:
            while True:
                messages = consumer.consume(READ_AT_ONCE, 1.0)
                yield [(message.key(), message.value(), message.headers()) for message in messages]
        finally:
            consumer.close()

    yield Stream(write_all, write_one, read)


@asynccontextmanager
async def redis_stream(chosen: argparse.Namespace) -> AsyncIterator[Stream]:
    import redis

    client, name = redis.Redis(HOST, chosen.port), chosen.stream

    def fields(record: MixedRecord) -> dict[Any, Any]:
        return {"key": record.key, "value": record.value, **dict(record.headers)}

    async def write_all(records: Records) -> None:
        rest = iter(records)
        while run := list(islice(rest, PIPELINE)):
            with client.pipeline(transaction=False) as pipeline:
                for record in run:
                    pipeline.xadd(name, fields(record))
                pipeline.execute()

    async def write_one(record: MixedRecord) -> None:
        client.xadd(name, fields(record))

    async def read() -> AsyncGenerator[list[Parts], None]:
        last: Any = "0"
        while True:
            answer: Any = client.xread({name: last}, count=READ_AT_ONCE, block=1_000)
            for _, entries in answer:
                last = entries[-1][0]
                yield [(entry.pop(b"key"), entry.pop(b"value"), entry) for _, entry in entries]

    try:
        yield Stream(write_all, write_one, read)
    finally:
        client.close()


@asynccontextmanager
async def nats_stream(chosen: argparse.Namespace) -> AsyncIterator[Stream]:
    import nats
    from nats.js.api import AckPolicy, ConsumerConfig

    connection = await nats.connect(f"nats://{HOST}:{chosen.port}")
    jetstream, subject = connection.jetstream(), chosen.stream

    def headers(record: MixedRecord) -> dict[str, str]:
        return {"key": record.key.decode(), **{name: value.decode() for name, value in record.headers}}

    async def write_all(records: Records) -> None:
        answers = [
            await jetstream.publish_async(subject, record.value, headers=headers(record))
            for record in records
        ]
        for answer in answers:
            await answer

    async def write_one(record: MixedRecord) -> None:
        await jetstream.publish(subject, record.value, headers=headers(record))

    async def read() -> AsyncGenerator[list[Parts], None]:
        unacknowledged = ConsumerConfig(ack_policy=AckPolicy.NONE)
        found = await jetstream.pull_subscribe(subject, stream=subject, config=unacknowledged)
        while True:
            parts: list[Parts] = []
            for message in await found.fetch(READ_AT_ONCE, timeout=1.0):
                own = dict(message.headers or {})
                parts.append((own.pop("key", None), message.data, own))
            yield parts

    try:
        yield Stream(write_all, write_one, read)
    finally:
        await connection.close()


@asynccontextmanager
async def rabbitmq_stream(chosen: argparse.Namespace) -> AsyncIterator[Stream]:
    import rstream

    name, login = chosen.stream, {"username": "guest", "password": "guest"}
    producer = rstream.Producer(HOST, chosen.port, **login)
    await producer.start()

    def message(record: MixedRecord) -> Any:
        own = {"key": record.key, **dict(record.headers)}
        return rstream.AMQPMessage(body=record.value, application_properties=own)

    async def write_all(records: Records) -> None:
        sent = confirmed = 0
        settled = asyncio.Event()

        def confirm(status: Any) -> None:
            nonlocal confirmed
            if not status.is_confirmed:
                raise AssertionError(status)
            confirmed += 1
            settled.set()

        rest = iter(records)
        while run := list(islice(rest, PIPELINE)):
            await producer.send_batch(name, [message(one) for one in run], on_publish_confirm=confirm)
            sent += len(run)
        while confirmed < sent:
            settled.clear()
            await asyncio.wait_for(settled.wait(), DEADLINE_S)

    async def write_one(record: MixedRecord) -> None:
        await producer.send_wait(name, message(record))

    async def read() -> AsyncGenerator[list[Parts], None]:
        arrived, parts = asyncio.Event(), list[Parts]()

        async def keep(found: Any, _: Any) -> None:
            own = dict(found.application_properties)
            parts.append((own.pop(b"key", None), found.body, own))
            arrived.set()

        async with rstream.Consumer(HOST, chosen.port, **login) as consumer:
            await consumer.subscribe(name, keep, decoder=rstream.amqp_decoder)
            while True:
                await asyncio.wait_for(arrived.wait(), DEADLINE_S)
                arrived.clear()
                while parts:
                    yield parts[:READ_AT_ONCE]
                    del parts[:READ_AT_ONCE]

    try:
        yield Stream(write_all, write_one, read)
    finally:
        await producer.close()


STREAMS: Final[Mapping[str, Callable[[argparse.Namespace], AbstractAsyncContextManager[Stream]]]] = {
    "ottla": ottla_stream,
    "confluent-kafka": confluent_stream,
    "redis": redis_stream,
    "nats": nats_stream,
    "rabbitmq": rabbitmq_stream,
}


async def create(chosen: argparse.Namespace) -> None:
    """The empty log; Redis makes a stream of the first entry."""
    name = chosen.stream
    match chosen.client:
        case "ottla" | "confluent-kafka":
            import ottla

            async with ottla.Admin(f"{HOST}:{chosen.port}") as admin:
                await admin.create_topics([ottla.NewTopic(name, partitions=1)])
        case "nats":
            import nats

            connection = await nats.connect(f"nats://{HOST}:{chosen.port}")
            await connection.jetstream().add_stream(name=name, subjects=[name])
            await connection.close()
        case "rabbitmq":
            import rstream

            async with rstream.Producer(HOST, chosen.port, username="guest", password="guest") as producer:
                await producer.create_stream(name)


async def produce(stream: Stream, chosen: argparse.Namespace) -> dict[str, Any]:
    """As fast as the client can; nothing is left unacknowledged."""
    records = cycle(mixed_records())
    # With more than a reader takes at once before it is measured.
    await stream.write_all(islice(records, _warm_up(chosen) + READ_AT_ONCE))
    with Stopwatch(chosen.pid) as watch:
        await stream.write_all(islice(records, chosen.records))
    return _figures(watch, chosen.records)


async def consume(stream: Stream, chosen: argparse.Namespace) -> dict[str, Any]:
    """From the beginning. The server's time is that for all records: it may send them before they are asked for."""
    with Stopwatch(chosen.pid) as whole:
        reading = stream.read()
        first = await _read(reading, _warm_up(chosen))
        begun = time.perf_counter()
        counted = await _read(reading, chosen.records)
        seconds = time.perf_counter() - begun
    await reading.aclose()
    return {**_figures(whole, first + counted), "per_second": counted / seconds}


async def _read(reading: AsyncGenerator[list[Parts], None], records: int) -> int:
    """Read so many records or a few more; all have their parts."""
    counted = value_bytes = with_headers = with_key = 0
    async for parts in reading:
        for key, value, headers in parts:
            with_key += key is not None
            value_bytes += len(value)
            with_headers += bool(headers)
        counted += len(parts)
        if counted >= records:
            break
    if not (with_key == counted and 60 < value_bytes / counted < 900 and with_headers < counted):
        raise AssertionError("these are not the mixed records")
    return counted


async def paced(stream: Stream, chosen: argparse.Namespace) -> dict[str, Any]:
    """One write after the other, at times that are fixed before: a late write makes those late that wait."""
    records, latencies_ms = cycle(mixed_records()), list[float]()
    for record in islice(records, _warm_up(chosen)):
        await stream.write_one(record)
    with Stopwatch(chosen.pid) as watch:
        start = time.perf_counter()
        for number, record in enumerate(islice(records, chosen.records)):
            begun = start + number / chosen.rate
            if (early := begun - time.perf_counter()) > 0:
                await asyncio.sleep(early)
                begun = time.perf_counter()
            await stream.write_one(record)
            latencies_ms.append((time.perf_counter() - begun) * 1e3)
    latencies_ms.sort()
    p50, p99 = (latencies_ms[int(len(latencies_ms) * part)] for part in (0.5, 0.99))
    return {**_figures(watch, chosen.records), "p50_ms": p50, "p99_ms": p99}


def _warm_up(chosen: argparse.Namespace) -> int:
    return 1 + int(chosen.records * WARM_UP)


def _figures(watch: Stopwatch, records: int) -> dict[str, Any]:
    return {"per_second": records / watch.seconds, "server_cpu_us": watch.cpu_seconds / records * 1e6}


WORKS: Final = {"produce": produce, "consume": consume, "paced": paced}


async def work(chosen: argparse.Namespace) -> dict[str, Any]:
    if chosen.work != "consume":
        await create(chosen)
    async with STREAMS[chosen.client](chosen) as stream:
        return await asyncio.wait_for(WORKS[chosen.work](stream, chosen), 2 * DEADLINE_S)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--client", choices=sorted(STREAMS), required=True)
    options.add_argument("--work", choices=sorted(WORKS), required=True)
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--stream", required=True)
    options.add_argument("--records", type=int, required=True)
    options.add_argument(
        "--rate", type=int, default=200, help="of the paced work: acknowledged writes a second"
    )
    options.add_argument("--pid", type=int, required=True, help="of the server, whose CPU time is told")
    print(json.dumps(asyncio.run(work(options.parse_args()))))


if __name__ == "__main__":
    main()
