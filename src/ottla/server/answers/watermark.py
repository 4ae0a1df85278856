"""A number that only rises, and that can be waited for.

The high watermark and the flushed offset of a partition are watermarks: a producer that asked for more than a
write to the page cache waits for one, with its own deadline.
"""

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from ottla.errors import KafkaError

# Called with None when the value is reached, or with the error given to `fail` or `refuse`. The call comes in
# the middle of whatever moved the watermark.
Waiter = Callable[[KafkaError | None], None]


class Watermark:
    """Wakes each waiter once the value it asked for is reached, lowest first."""

    __slots__ = ("_failure", "_order", "_waiting", "value")

    def __init__(self, value: int) -> None:
        self.value = value
        self._waiting: list[tuple[int, int, Waiter]] = []
        self._order = count()
        self._failure: KafkaError | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether there are waiters: the flusher flushes again as long as there are."""
        return bool(self._waiting)

    def advance(self, value: int) -> None:
        """Raise the value and call the waiters that it reaches. A lower value is ignored."""
        if value <= self.value:
            return
        self.value = value
        waiting = self._waiting
        while waiting and waiting[0][0] <= value:
            heappop(waiting)[2](None)

    def fail(self, failure: KafkaError) -> None:
        """Tell all waiters, now and later, that the value will not rise any more."""
        self._failure = failure
        self.refuse(failure)

    def refuse(self, failure: KafkaError) -> None:
        """End the waits of now with an error; later waits may succeed."""
        waiting, self._waiting = self._waiting, []
        for _, _, waiter in waiting:
            waiter(failure)

    def when_reached(self, value: int, waiter: Waiter) -> None:
        """Call `waiter` once: at or above `value`, perhaps now, or when the watermark cannot get there."""
        if self.value >= value:
            waiter(None)
        elif self._failure is not None:
            waiter(self._failure)
        else:
            heappush(self._waiting, (value, next(self._order), waiter))

    async def reached(self, value: int) -> None:
        """Return when the watermark is at `value` or above; raise what `fail` was given."""
        if self.value >= value:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake(failure: KafkaError | None) -> None:
            if future.done():
                return
            if failure is None:
                future.set_result(None)
            else:
                future.set_exception(failure)

        self.when_reached(value, wake)
        await future
