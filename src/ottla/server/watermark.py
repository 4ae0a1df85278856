"""A number that only rises, and that coroutines can wait for.

The high watermark and the flushed offset of a partition are watermarks: a producer that asked for more than a
write to the page cache awaits one, with its own deadline.
"""

import asyncio
from heapq import heappop, heappush
from itertools import count


class Watermark:
    """Wakes each waiter once the value it asked for is reached, lowest first."""

    __slots__ = ("_failure", "_order", "_waiting", "value")

    def __init__(self, value: int) -> None:
        self.value = value
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = count()
        self._failure: Exception | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits: the carrier of a flush goes on only as long as this holds."""
        return bool(self._waiting)

    def advance(self, value: int) -> None:
        """Raise the value and wake whoever waited for it. A lower value is ignored."""
        if value <= self.value:
            return
        self.value = value
        waiting = self._waiting
        while waiting and waiting[0][0] <= value:
            future = heappop(waiting)[2]
            if not future.done():
                future.set_result(None)

    def fail(self, failure: Exception) -> None:
        """Tell everybody, now and later, that the value will not rise any more."""
        self._failure = failure
        self.refuse(failure)

    def refuse(self, failure: Exception) -> None:
        """Tell everybody who waits now that it is in vain; whoever comes later may be luckier."""
        waiting, self._waiting = self._waiting, []
        for _, _, future in waiting:
            if not future.done():
                future.set_exception(failure)

    async def reached(self, value: int) -> None:
        """Return when the watermark is at `value` or above; raise what `fail` was given."""
        if self.value >= value:
            return
        if self._failure is not None:
            raise self._failure
        future = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (value, next(self._order), future))
        await future
