"""Thread pools: work that blocks (fsync, removal of files, waiting for the cleaner's process) stays off the
event loop.

A pool is given to `loop.run_in_executor`. Work for the event loop's own pool (`run_in_executor(None, …)`,
`asyncio.to_thread`) needs nothing from here: the loop is part of the edge.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor as Executor
from concurrent.futures import Future as Future
from concurrent.futures import ThreadPoolExecutor
from threading import Lock as Lock
from typing import Protocol

Work = Callable[[], None]
RunAll = Callable[[Sequence[Work]], list[OSError | None]]
"""Runs every piece of work and returns when all have ended: the problem of each, or None."""


class Threads(Protocol):
    """Where pools come from."""

    def pool(self, size: int, name: str) -> Executor:
        """A pool of `size` threads whose names begin with `name`."""


class OsThreads:
    """Threads of the operating system, started when a pool first needs them."""

    def pool(self, size: int, name: str) -> Executor:
        return ThreadPoolExecutor(size, thread_name_prefix=name)


def run_one_by_one(works: Sequence[Work]) -> list[OSError | None]:
    """Run the works in this thread, in order."""
    return [_problem_of(work) for work in works]


def run_together(threads: Threads, size: int, name: str, works: Sequence[Work]) -> list[OSError | None]:
    """Run the works in a pool of their own, in any order."""
    if len(works) <= 1:
        return run_one_by_one(works)
    pool = threads.pool(size, name)
    running = [pool.submit(_problem_of, work) for work in works]
    pool.shutdown(wait=True)
    return [done.result() for done in running]


def _problem_of(work: Work) -> OSError | None:
    try:
        work()
    except OSError as problem:
        return problem
    return None
