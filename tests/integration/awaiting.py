"""How tests of asynchronous clients run: with a deadline, and nothing may be left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

DEADLINE_SECONDS = 60.0


def awaited(body: Callable[[], Awaitable[None]]) -> None:
    """Run with a deadline, and see that no task is left behind."""

    async def run() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await body()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.005)
