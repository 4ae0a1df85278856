"""Tasks that end with their owner.

An unexpected failure must not vanish with its task: the first one is kept, and the owner is woken to raise it
where the application sees it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ottla.runtime.ordered_set import OrderedSet


class Background:
    """Starts tasks and keeps track of them; `on_failure` is called when one of them failed."""

    def __init__(self, on_failure: Callable[[], None]) -> None:
        self._on_failure = on_failure
        self._tasks: OrderedSet[asyncio.Task[None]] = OrderedSet()
        self.failure: BaseException | None = None

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def fail(self, failure: BaseException) -> None:
        """Something failed outside of the tasks: keep the failure, as if it had been in one of them."""
        self.failure = self.failure or failure
        self._on_failure()

    async def close(self) -> None:
        """Cancel all running tasks, and wait until they have ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self.fail(failure)
