"""Records to the cluster, with an outcome for each."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from ottla.client.producer.delivery import Delivery
from ottla.client.producer.machine.delivery_report import BufferFullError, DeliveryError, DeliveryReport
from ottla.client.producer.producer import Producer
from ottla.gateway.cluster.pool import Caller
from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.records.machine.produced import RecordToSend

# A topic that is created by itself is there in less; a name that is mistyped is refused after this.
_CREATION_S: Final = 5.0

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


async def send_all(producer: Producer, topic: str, records: Sequence[RecordToSend]) -> list[Outcome]:
    """Send records by a producer that nobody shares, and wait for all outcomes."""
    try:
        await producer.partitions_for(topic)
    except DeliveryError as error:
        return [error for _ in records]
    sent = [await given(producer, topic, each) for each in records]
    return [await _own_outcome(each) for each in sent]


async def _own_outcome(sent: Delivery | Outcome) -> Outcome:
    try:
        return await sent if isinstance(sent, Delivery) else sent
    except DeliveryError as error:
        return error


async def ready_producer(caller: Caller, topic: str, records: Sequence[RecordToSend]) -> Producer:
    """The caller's producer, which knows the topic. Raises HttpError(404), KafkaError and ConnectionError."""
    try:
        await caller.topics.partition_count(topic)
    except HttpError as missing:
        await _create_if_allowed(caller, topic, missing)
    for partition in {each.partition for each in records}:
        if partition is not None:
            await caller.topics.check_partition(topic, partition)
    producer = await caller.clients.producer()
    await producer.partitions_for(topic)
    return producer


async def _create_if_allowed(caller: Caller, topic: str, missing: HttpError) -> None:
    """A producer that asks for a topic brings it into being, where the cluster creates topics by itself."""
    if not await caller.topics.can_come_into_being(topic):
        raise missing
    producer = await caller.clients.producer()
    try:
        async with asyncio.timeout(_CREATION_S):
            await producer.partitions_for(topic)
    except (DeliveryError, TimeoutError) as error:
        raise missing from error


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
