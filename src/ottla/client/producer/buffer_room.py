"""Callers that wait for room in the producer's buffer."""

from __future__ import annotations

import asyncio


class BufferRoom:
    """`wait` returns when a batch has ended, because its share of the buffer is free then."""

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[None]] = []

    async def wait(self, timeout_ms: float | None) -> bool:
        """Wait for `wake`; False if the time is over before."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await waiter
        except TimeoutError:
            return False
        return True

    def wake(self) -> None:
        """A batch has ended: all waiting callers look again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
