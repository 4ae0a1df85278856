"""Writes to `_schemas`, of which one gateway at a time is able.

The transactional producer `ottla-schema-registry` is the right to write: whoever opens it fences the one who had it.
A write opens it if need be, catches up with the topic, decides, and commits all records in one transaction. If
another gateway has opened it meanwhile, the commit fails and nothing was written; then everything is done again.
So each decision is made over everything that was written before it, and no gateway has to find another one.
docs/decisions/0013-one-writer-by-fencing.md compares this with a leader.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from ottla.client.producer.machine.delivery_report import DeliveryError
from ottla.client.producer.machine.transaction_errors import (
    ProducerFencedError,
    TransactionAbortedError,
    TransactionError,
    TransactionUncertainError,
)
from ottla.client.producer.producer import Producer
from ottla.errors import ErrorCode, KafkaError
from ottla.gateway.registry.machine.catalog import Catalog
from ottla.gateway.registry.machine.decision import Decision
from ottla.gateway.registry.machine.problems import RegistryError
from ottla.gateway.registry.schemas_topic import CLIENT_ID, TOPIC, SchemasTopic
from ottla.schemas.registry.records import RegistryRecord
from ottla.security.settings import Security

logger = logging.getLogger(__name__)

TRANSACTIONAL_ID: Final = "ottla-schema-registry"
# Several gateways that write at the same moment take turns; more turns than this are a quarrel.
_MOST_ATTEMPTS: Final = 20
_TIMEOUT_MS: Final = 15_000
_TRANSACTION_MS: Final = 20_000

Command = Callable[[Catalog], Awaitable[Decision]]


class SchemasWriter:
    """Carries commands out, one after the other, each as the caller who sent it."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._turn = asyncio.Lock()
        self._producer: Producer | None = None
        self._security: Security | None = None

    async def write(self, topic: SchemasTopic, security: Security, command: Command) -> Any:
        """Decide and write; the answer is given when the write is in the catalog.

        Raises RegistryError, KafkaError and OSError.
        """
        async with self._turn:
            for _ in range(_MOST_ATTEMPTS):
                producer = await self._open(security)
                await topic.catch_up()
                decision = await command(topic.catalog)
                if not decision.records:
                    await topic.catch_up()
                    return decision.answer
                offset = await self._committed(producer, decision.records)
                if offset is not None:
                    await topic.has_read(offset)
                    return decision.answer
        raise RegistryError(50003, "other gateways write at the same time again and again: try again later")

    async def close(self) -> None:
        """Give the right to write back."""
        async with self._turn:
            await self._drop()

    async def _committed(self, producer: Producer, records: Sequence[RegistryRecord]) -> int | None:
        """The offset of the last record that was written; None if another gateway has the right to write now."""
        try:
            async with producer.transaction():
                sent = [producer.send_soon(TOPIC, each.value, key=each.key) for each in records]
        except (ProducerFencedError, TransactionAbortedError) as error:
            logger.info("a write to %s is done again: %s", TOPIC, error)
            await self._drop()
            return None
        except TransactionUncertainError as error:
            await self._drop()
            raise RegistryError(
                50002, "The cluster did not say whether the change was made: look, and try again."
            ) from error
        except (TransactionError, DeliveryError):
            await self._drop()
            raise
        return (await sent[-1]).offset

    async def _open(self, security: Security) -> Producer:
        if self._producer is not None and self._security == security:
            return self._producer
        await self._drop()
        producer = Producer(
            self._bootstrap,
            client_id=CLIENT_ID,
            transactional_id=TRANSACTIONAL_ID,
            transaction_timeout_ms=_TRANSACTION_MS,
            delivery_timeout_ms=_TIMEOUT_MS,
            max_block_ms=_TIMEOUT_MS,
            linger_ms=0,
            allow_auto_create_topics=False,
            security=security,
        )
        try:
            self._producer, self._security = await producer.__aenter__(), security
        except KafkaError as error:
            if error.code is not ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                raise
            raise RegistryError(
                40301,
                f"You may not change schemas: that needs the rights to write to the topic {TOPIC} and to use the"
                f" transactional id {TRANSACTIONAL_ID}.",
            ) from error
        return producer

    async def _drop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(DeliveryError, TransactionError, ConnectionError):
                await producer.close(timeout_ms=1_000)
