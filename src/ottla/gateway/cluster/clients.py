"""The clients of one caller: a producer and an administrator that its requests share, and readers, one at a time.

They are opened when a request first needs them. A reader is a consumer without a group: it is lent to one read, and
is used again by the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from ottla.client.admin.admin import Admin
from ottla.client.consumer.consumer import Consumer
from ottla.client.producer.machine.delivery_report import DeliveryError
from ottla.client.producer.producer import Producer
from ottla.errors import ErrorCode
from ottla.security.settings import Security

logger = logging.getLogger(__name__)

CLIENT_ID: Final = "ottla-gateway"
# A caller waits for the answer: an error is better than a longer wait.
_DELIVERY_TIMEOUT_MS: Final = 30_000
_MAX_BLOCK_MS: Final = 10_000
_RECORD_BYTES: Final = 16 << 20
# A broker answers the requests of a connection in order: a read waits for the poll of the read before.
_READER_POLL_MS: Final = 100
# Of consumers that wait to be used again.
_IDLE_READERS: Final = 8
# After these a producer cannot go on; the next request opens another one.
_FATAL: Final = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.SASL_AUTHENTICATION_FAILED,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.UNSUPPORTED_VERSION,
}


class CallerClients:
    """The clients of one login. `users` counts the requests that use them now."""

    def __init__(self, bootstrap: str, security: Security, timeout_ms: int) -> None:
        self._bootstrap = bootstrap
        self._security = security
        self._timeout_ms = timeout_ms
        self._opening = asyncio.Lock()
        self._admin: Admin | None = None
        self._producer: Producer | None = None
        self._idle_readers: list[Consumer] = []
        self._retired: set[asyncio.Task[None]] = set()

    async def admin(self) -> Admin:
        """The administrator's client. Raises ConnectionError and KafkaError."""
        async with self._opening:
            if self._admin is None:
                admin = Admin(
                    self._bootstrap, client_id=CLIENT_ID, timeout_ms=self._timeout_ms, security=self._security
                )
                self._admin = await admin.__aenter__()
            return self._admin

    async def producer(self) -> Producer:
        """The producer. Raises ConnectionError and KafkaError."""
        async with self._opening:
            if self._producer is None:
                producer = Producer(
                    self._bootstrap,
                    client_id=CLIENT_ID,
                    linger_ms=0,
                    max_request_size=_RECORD_BYTES,
                    delivery_timeout_ms=_DELIVERY_TIMEOUT_MS,
                    max_block_ms=_MAX_BLOCK_MS,
                    security=self._security,
                )
                self._producer = await producer.__aenter__()
            return self._producer

    def failed(self, producer: Producer, error: DeliveryError) -> None:
        """A record was not delivered: a producer that cannot go on is replaced."""
        if error.code in _FATAL and self._producer is producer:
            self._producer = None
            task = asyncio.get_running_loop().create_task(_end_producer(producer))
            self._retired.add(task)
            task.add_done_callback(self._retired.discard)

    def transactional_producer(self, transactional_id: str, timeout_ms: int) -> Producer:
        """A producer of the caller's own for one transaction, to be opened and closed by the one who asks."""
        return Producer(
            self._bootstrap,
            client_id=CLIENT_ID,
            linger_ms=0,
            max_request_size=_RECORD_BYTES,
            delivery_timeout_ms=_DELIVERY_TIMEOUT_MS,
            max_block_ms=_MAX_BLOCK_MS,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            security=self._security,
        )

    def consumer(self, **settings: Any) -> Consumer:
        """A consumer of the caller's own, to be opened and closed by the one who asks."""
        return Consumer(self._bootstrap, security=self._security, **settings)

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[Consumer]:
        """A consumer without a group and without partitions, for one read."""
        if self._idle_readers:
            consumer = self._idle_readers.pop()
        else:
            consumer = self.consumer(
                client_id=CLIENT_ID, auto_offset_reset="none", fetch_max_wait_ms=_READER_POLL_MS
            )
            await consumer.__aenter__()
        try:
            yield consumer
        except BaseException:
            await _closed(consumer)
            raise
        if len(self._idle_readers) >= _IDLE_READERS or not consumer.is_open:
            await _closed(consumer)
        else:
            consumer.assign(())
            self._idle_readers.append(consumer)

    async def close(self) -> None:
        """Close all clients; records that are not delivered within a few seconds have failed."""
        admin, self._admin = self._admin, None
        producer, self._producer = self._producer, None
        readers, self._idle_readers = self._idle_readers, []
        if producer is not None:
            await _end_producer(producer)
        for reader in readers:
            await _closed(reader)
        if admin is not None:
            await admin.close()
        if self._retired:
            await asyncio.wait(self._retired)


async def _end_producer(producer: Producer) -> None:
    # The requests that sent these records get the errors themselves.
    with contextlib.suppress(DeliveryError, ConnectionError):
        await producer.close(timeout_ms=5_000)


async def _closed(consumer: Consumer) -> None:
    try:
        await consumer.close()
    except Exception as error:
        logger.debug("a reader was not closed as it should be: %s", error)
