"""Thread pools: work that blocks (fsync, removal of files, waiting for the cleaner's process) stays off the
event loop.

A pool is given to `loop.run_in_executor`. Work for the event loop's own pool (`run_in_executor(None, …)`,
`asyncio.to_thread`) needs nothing from here: the loop is part of the edge.
"""

from concurrent.futures import Executor as Executor
from concurrent.futures import ThreadPoolExecutor
from threading import Lock as Lock
from typing import Protocol


class Threads(Protocol):
    """Where pools come from."""

    def pool(self, size: int, name: str) -> Executor:
        """A pool of `size` threads whose names begin with `name`."""


class OsThreads:
    """Threads of the operating system, started when a pool first needs them."""

    def pool(self, size: int, name: str) -> Executor:
        return ThreadPoolExecutor(size, thread_name_prefix=name)
