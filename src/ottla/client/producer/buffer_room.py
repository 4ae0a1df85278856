"""Callers that wait for room in the producer's buffer, or for records to be delivered."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Final

from ottla.client.producer.machine.accumulator import Accumulator

# `drain` waits while more than this share of the buffer is full, so that `send_soon` always finds room
# afterwards.
_DRAIN_SHARE: Final = 0.5


class BufferRoom:
    """`wait` returns when a batch has ended, because its share of the buffer is free then.

    `pump` has the sender look for batches to send.
    """

    def __init__(self, accumulator: Accumulator, buffer_memory: int, pump: Callable[[], None]) -> None:
        self._accumulator = accumulator
        self._pump = pump
        self._drain_bytes = int(buffer_memory * _DRAIN_SHARE)
        self._waiters: list[asyncio.Future[None]] = []

    async def wait(self, timeout_ms: float | None) -> bool:
        """Wait for `wake`; False if the time is over before."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            with self.hurried():
                async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                    await waiter
        except TimeoutError:
            return False
        return True

    async def drained(self) -> None:
        """Wait until the buffer is half empty."""
        while self._accumulator.ledger.buffered_bytes > self._drain_bytes:
            await self.wait(None)

    def wake(self) -> None:
        """A batch has ended: all waiting callers look again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    @contextlib.contextmanager
    def hurried(self) -> Iterator[None]:
        """No batch lingers inside of this context, because a caller waits."""
        self._accumulator.hurry()
        self._pump()
        try:
            yield
        finally:
            self._accumulator.unhurry()
