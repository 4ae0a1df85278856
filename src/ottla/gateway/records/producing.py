"""Records to the cluster, with an outcome for each."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from ottla.client.producer.delivery import Delivery
from ottla.client.producer.machine.delivery_report import BufferFullError, DeliveryError, DeliveryReport
from ottla.client.producer.producer import Producer
from ottla.gateway.cluster.pool import Caller
from ottla.gateway.records.machine.produced import RecordToSend

Outcome = DeliveryReport | DeliveryError


async def produce(
    caller: Caller, topic: str, records: Sequence[RecordToSend], turn: asyncio.Lock | None = None
) -> list[Outcome]:
    """Send records, and wait for all outcomes. Raises HttpError(404) before anything is sent.

    Calls that share a `turn` give their records to the producer one after the other, in the order of the calls.
    """
    async with turn or contextlib.nullcontext():
        producer = await ready_producer(caller, topic, records)
        sent = [await given(producer, topic, each) for each in records]
    return [await outcome(caller, producer, each) for each in sent]


async def ready_producer(caller: Caller, topic: str, records: Sequence[RecordToSend]) -> Producer:
    """The caller's producer, which knows the topic. Raises HttpError(404), KafkaError and ConnectionError."""
    for partition in {each.partition for each in records}:
        if partition is None:
            await caller.topics.partition_count(topic)
        else:
            await caller.topics.check_partition(topic, partition)
    producer = await caller.clients.producer()
    await producer.partitions_for(topic)
    return producer


async def given(producer: Producer, topic: str, record: RecordToSend) -> Delivery | Outcome:
    """Give a record to the producer; without room in its buffer, wait until the record is delivered."""
    try:
        return producer.send_soon(
            topic,
            record.value,
            record.key,
            partition=record.partition,
            headers=record.headers,
            timestamp_ms=record.timestamp_ms,
        )
    except BufferFullError:
        return await _waited(producer, topic, record)
    except DeliveryError as error:
        return error


async def _waited(producer: Producer, topic: str, record: RecordToSend) -> Outcome:
    try:
        return await producer.send(
            topic,
            record.value,
            record.key,
            partition=record.partition,
            headers=record.headers,
            timestamp_ms=record.timestamp_ms,
        )
    except DeliveryError as error:
        return error


async def outcome(caller: Caller, producer: Producer, sent: Delivery | Outcome) -> Outcome:
    """What became of a record."""
    if isinstance(sent, Delivery):
        try:
            return await sent
        except DeliveryError as error:
            caller.clients.failed(producer, error)
            return error
    return sent
