"""`ottla bench`: load on a Kafka of any kind, with a live view and percentiles.

    ottla bench produce loadtest --create --records 1000000 --size 100
    ottla bench consume loadtest

Latencies of produce are those of one record in a hundred, from the moment it should have been sent (with
--rate, what comes late counts as late) to its acknowledgement. Latencies of consume are from a record's
timestamp to when it was read, shown only when reading what is being written (--from latest).
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from time import monotonic, time
from typing import Any, Final

import click

from ottla.cli.broker_command import CLIENT_ID, TIMEOUT_MS, bootstrap_option, print_json, run
from ottla.cli.client_config import security_given
from ottla.cli.records.bench_figures import Figures
from ottla.cli.records.bench_view import watched
from ottla.cli.records.produce import acks_given
from ottla.client.admin.admin import Admin
from ottla.client.consumer.consumer import Consumer
from ottla.client.producer.machine.delivery_report import DeliveryError, DeliveryReport
from ottla.client.producer.machine.settings import CompressionName
from ottla.client.producer.producer import Producer
from ottla.client.requests.offsets import OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.client.requests.topics import NewTopic
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition

_SAMPLE: Final = 100
# A rate is kept in slices, so that a fast one does not need a timer per record.
_SLICE_SECONDS: Final = 0.002


@dataclass(frozen=True, slots=True)
class Load:
    """The records to write."""

    topic: str
    records: int | None
    seconds: float | None
    rate: float | None
    value: bytes
    keys: int


@click.group()
def bench() -> None:
    """Put load on a broker, and measure."""


@bench.command("produce")
@click.argument("topic")
@click.option(
    "--records",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop after this many records.  [default: 1000000]",
)
@click.option(
    "--seconds", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Stop after this time."
)
@click.option("--size", type=click.IntRange(min=0), default=100, show_default=True, help="Bytes of a value.")
@click.option(
    "--keys", type=click.IntRange(min=0), default=0, help="The number of different keys.  [default: none]"
)
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), metavar="N", help="Records a second, at most."
)
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True)
@click.option(
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
)
@click.option("--batch-size", type=click.IntRange(min=1), default=512 << 10, show_default=True)
@click.option("--linger-ms", type=click.FloatRange(min=0), default=5.0, show_default=True)
@click.option("--create", is_flag=True, help="Create the topic if it is not there.")
@click.option("--partitions", type=click.IntRange(min=1), default=1, show_default=True, help="With --create.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, and show nothing meanwhile.")
@bootstrap_option
def bench_produce(
    topic: str,
    records: int | None,
    seconds: float | None,
    size: int,
    keys: int,
    rate: float | None,
    acks: str,
    compression: CompressionName,
    batch_size: int,
    linger_ms: float,
    create: bool,
    partitions: int,
    as_json: bool,
    bootstrap: str,
) -> None:
    """Write records to TOPIC as fast as possible, or at a rate."""
    value = random.Random(0).randbytes((size + 1) // 2).hex()[:size].encode()
    count = 1_000_000 if records is None and seconds is None else records
    load = Load(topic, count, seconds, rate, value, keys)

    async def work() -> dict[str, Any]:
        if create:
            await _create(bootstrap, topic, partitions)
        producer = Producer(
            bootstrap,
            client_id=CLIENT_ID,
            security=security_given(),
            acks=acks_given(acks),
            compression=compression,
            batch_size=batch_size,
            linger_ms=linger_ms,
            max_block_ms=TIMEOUT_MS,
        )
        async with producer:
            await producer.partitions_for(topic)
            return await _produce(producer, load, is_quiet=as_json)

    _report(_interruptible(work), as_json)


@bench.command("consume")
@click.argument("topic")
@click.option(
    "--records",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop after this many records.  [default: all there are]",
)
@click.option(
    "--seconds", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Stop after this time."
)
@click.option(
    "--from", "start", type=click.Choice(["earliest", "latest"]), default="earliest", show_default=True
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, and show nothing meanwhile.")
@bootstrap_option
def bench_consume(
    topic: str, records: int | None, seconds: float | None, start: str, as_json: bool, bootstrap: str
) -> None:
    """Read TOPIC as fast as possible; from latest, what is being written."""
    is_live = start == "latest"

    async def work() -> dict[str, Any]:
        partitions = await _unread(bootstrap, topic)
        consumer = Consumer(
            bootstrap,
            client_id=CLIENT_ID,
            security=security_given(),
            auto_offset_reset="latest" if is_live else "earliest",
        )
        async with consumer:
            consumer.assign(partitions)
            has_end = records is None and seconds is None and not is_live
            ends = {each: end for each, end in partitions.items() if end is not None} if has_end else None
            stop = Stop(records, seconds, ends)
            return await _consume(consumer, stop, is_live=is_live, is_quiet=as_json)

    _report(_interruptible(work), as_json)


@dataclass(frozen=True, slots=True)
class Stop:
    """When a reader has enough; `ends` are the offsets at which partitions end."""

    records: int | None
    seconds: float | None
    ends: dict[TopicPartition, int] | None


async def _produce(producer: Producer, load: Load, *, is_quiet: bool) -> dict[str, Any]:
    figures = Figures()
    keys = [b"key-%d" % number for number in range(load.keys)]

    async with watched(figures, is_quiet=is_quiet) as elapsed:
        number, size = 0, len(load.value)
        while not _is_enough(load, number, elapsed()):
            slice_ends = _due(load, number, elapsed())
            while number < slice_ends:
                key = keys[number % len(keys)] if keys else None
                if number % _SAMPLE:
                    producer.send_soon(load.topic, load.value, key)
                else:
                    due = monotonic() if load.rate is None else monotonic() - elapsed() + number / load.rate
                    producer.send_soon(load.topic, load.value, key, on_delivery=_timed(figures, due))
                number += 1
                figures.records, figures.size_bytes = number, number * size
                await producer.drain()
            if load.rate is not None:
                await asyncio.sleep(_SLICE_SECONDS)
        with_failures = await _flushed(producer, figures)
        return figures.summary(elapsed()) | with_failures


def _is_enough(load: Load, number: int, seconds: float) -> bool:
    return (load.records is not None and number >= load.records) or (
        load.seconds is not None and seconds >= load.seconds
    )


def _due(load: Load, number: int, seconds: float) -> int:
    """Up to which record to send before looking at the clock again."""
    due = number + 1_000 if load.rate is None else int(seconds * load.rate) + 1
    return due if load.records is None else min(due, load.records)


def _timed(figures: Figures, due: float) -> Callable[[DeliveryReport | DeliveryError], None]:
    def heard(outcome: DeliveryReport | DeliveryError) -> None:
        if isinstance(outcome, DeliveryReport):
            figures.latencies.add((monotonic() - due) * 1_000)
        else:
            figures.failed += 1

    return heard


async def _flushed(producer: Producer, figures: Figures) -> dict[str, Any]:
    try:
        await producer.flush()
    except DeliveryError as error:
        figures.failed += len(error.records)
        return {"failed": figures.failed, "error": error.message}
    return {}


async def _consume(consumer: Consumer, stop: Stop, *, is_live: bool, is_quiet: bool) -> dict[str, Any]:
    figures, left = Figures(), dict(stop.ends or {})
    async with watched(figures, is_quiet=is_quiet) as elapsed:
        try:
            async with asyncio.timeout(stop.seconds):
                if stop.ends is not None and not left:
                    return figures.summary(elapsed())
                async for batch in consumer.batches():
                    figures.records += len(batch)
                    figures.size_bytes += sum(len(value) for value in batch.values if value is not None)
                    if is_live and len(batch):
                        figures.latencies.add(max(0.0, time() * 1_000 - batch.timestamps_ms[-1]))
                    if batch.next_offset >= left.get(batch.topic_partition, batch.next_offset + 1):
                        del left[batch.topic_partition]
                    if (stop.ends is not None and not left) or figures.records >= (stop.records or 1 << 62):
                        break
        except TimeoutError:
            pass
        return figures.summary(elapsed())


async def _unread(bootstrap: str, topic: str) -> dict[TopicPartition, int | None]:
    """The partitions of a topic, each with the offset at which it ends; None if there is nothing in it."""
    async with Admin(
        bootstrap, client_id=CLIENT_ID, timeout_ms=TIMEOUT_MS, security=security_given()
    ) as admin:
        found = succeeded(await admin.describe_topics([topic]))[topic]
        keys = [TopicPartition(topic, each.index) for each in found.partitions]
        first = succeeded(await admin.list_offsets(dict.fromkeys(keys, int(OffsetSpec.EARLIEST))))
        last = succeeded(await admin.list_offsets(dict.fromkeys(keys, int(OffsetSpec.LATEST))))
    return {key: last[key].offset if last[key].offset > first[key].offset else None for key in keys}


async def _create(bootstrap: str, topic: str, partitions: int) -> None:
    async with Admin(
        bootstrap, client_id=CLIENT_ID, timeout_ms=TIMEOUT_MS, security=security_given()
    ) as admin:
        outcome = (await admin.create_topics([NewTopic(topic, partitions=partitions)]))[topic]
    if isinstance(outcome, KafkaError) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
        raise outcome


async def _interruptible(work: Callable[[], Coroutine[Any, Any, dict[str, Any]]]) -> dict[str, Any]:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await work()


def _report(work: Coroutine[Any, Any, dict[str, Any]], as_json: bool) -> None:
    try:
        summary = run(work)
    except KeyboardInterrupt:
        raise SystemExit(128 + signal.SIGINT) from None
    except asyncio.CancelledError:
        raise SystemExit(128 + signal.SIGTERM) from None
    if as_json:
        print_json(summary)
    else:
        click.echo(_sentence(summary))
    if summary["failed"]:
        raise SystemExit(1)


def _sentence(summary: dict[str, Any]) -> str:
    latencies = summary.get("latency_ms", {})
    text = (
        f"{summary['records']:,} records in {summary['seconds']:.1f} s: "
        f"{summary['records_per_second']:,.0f} records/s, {summary['mb_per_second']:.1f} MB/s"
    )
    if latencies:
        text += "; latency in ms: " + ", ".join(f"{name} {ms:g}" for name, ms in latencies.items())
    if summary["failed"]:
        text += f"; {summary['failed']:,} failed: {summary.get('error', 'see the errors above')}"
    return text
