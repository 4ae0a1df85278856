"""A subscription's records and partitions as messages of a WebSocket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from ottla.client.consumer.consumer import ConsumerRecord
from ottla.gateway.records.machine.described import described
from ottla.gateway.schema_values.decoding import ValueDecoder
from ottla.model import TopicPartition

Say = Callable[[dict[str, Any]], Awaitable[None]]


class Pushes:
    """The audience of a subscription (see `subscriptions.subscription.Audience`)."""

    def __init__(self, say: Say, decoder: ValueDecoder | None) -> None:
        self._say = say
        self._decoder = decoder

    async def records(self, records: list[ConsumerRecord]) -> None:
        if self._decoder is not None:
            await self._decoder.prepare(records)
        by_schema = None if self._decoder is None else self._decoder.shown
        for record in records:
            await self._say({"type": "message", **described(record, by_schema)})

    async def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        await self._say({"type": "assigned", "partitions": [each._asdict() for each in partitions]})

    async def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        await self._say({"type": "revoked", "partitions": [each._asdict() for each in partitions]})
