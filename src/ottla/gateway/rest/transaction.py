"""One transaction of a caller over REST: a producer of its own, and what was sent by it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from contextlib import AsyncExitStack

from ottla.client.producer.machine.delivery_report import DeliveryError
from ottla.client.producer.machine.transaction_errors import TransactionError, TransactionUncertainError
from ottla.client.producer.producer import Producer
from ottla.errors import KafkaError
from ottla.gateway.records.machine.produced import RecordToSend
from ottla.gateway.records.producing import Outcome, send_all
from ottla.gateway.rest.machine.transaction_table import TransactionState

_CLOSE_MS = 5_000


class _AbortedByCallerError(Exception):
    """Ends the block of a transaction that shall be aborted."""


class RestTransaction:
    """Requests of one transaction are carried out one after the other."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._open = AsyncExitStack()
        self._turn = asyncio.Lock()
        self._is_over = False

    async def begin(self) -> None:
        """Fence other producers of the transactional id, and begin. Raises KafkaError and ConnectionError."""
        await self._producer.__aenter__()
        try:
            await self._open.enter_async_context(self._producer.transaction())
        except BaseException:
            await self._close()
            raise

    async def send(self, topic: str, records: Sequence[RecordToSend]) -> list[Outcome] | None:
        """The outcomes of records; None if the transaction has ended meanwhile."""
        async with self._turn:
            if self._is_over:
                return None
            return await send_all(self._producer, topic, records)

    async def end(self, *, commits: bool) -> tuple[TransactionState, str] | None:
        """Commit or abort: how the transaction ended, and why; None if somebody else has ended it."""
        async with self._turn:
            if self._is_over:
                return None
            self._is_over = True
            try:
                return await self._ended(commits)
            finally:
                await self._close()

    async def _ended(self, commits: bool) -> tuple[TransactionState, str]:
        error = None if commits else _AbortedByCallerError()
        try:
            await self._open.__aexit__(None if error is None else type(error), error, None)
        except TransactionUncertainError as failed:
            return TransactionState.UNCERTAIN, failed.message
        except TransactionError as failed:
            return TransactionState.ABORTED, failed.message
        except (KafkaError, OSError) as failed:
            return TransactionState.UNCERTAIN, str(failed)
        except _AbortedByCallerError:
            return TransactionState.ABORTED, "the caller has aborted it"
        if commits:
            return TransactionState.COMMITTED, ""
        return TransactionState.ABORTED, "the caller has aborted it"

    async def _close(self) -> None:
        with contextlib.suppress(DeliveryError, OSError):
            await self._producer.close(timeout_ms=_CLOSE_MS)
