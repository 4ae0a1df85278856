"""`async for` over the batches of a consumer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from ottla.client.fetching.plan.record_batch import RecordBatch


class Batches:
    """Batches, as they come, until the consumer is closed."""

    def __init__(self, next_batch: Callable[[int], Awaitable[RecordBatch | None]], limit: int) -> None:
        self._next_batch = next_batch
        self._limit = limit

    def __aiter__(self) -> AsyncIterator[RecordBatch]:
        return self

    async def __anext__(self) -> RecordBatch:
        batch = await self._next_batch(self._limit)
        if batch is None:
            raise StopAsyncIteration
        return batch
