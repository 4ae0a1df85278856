"""The thread that waits for the cleaner's process, so that the event loop need not."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from ottla.log.compaction.cleaner import CleanerLimits
from ottla.log.compaction.remote_cleaner import CleanerDied, RemoteCleaner
from ottla.runtime.clock import monotonic_s
from ottla.runtime.threads import Threads
from ottla.runtime.workers import Workers

# The process ends when it had nothing to do for this long: it takes 20 MiB, and a fifth of a second to start
# again.
_IDLE_S: Final = 60.0

T = TypeVar("T")


class CleaningThread:
    """One thread, and the process while there is use for one."""

    def __init__(self, limits: CleanerLimits, threads: Threads, workers: Workers) -> None:
        self._limits = limits
        self._workers = workers
        self._thread = threads.pool(1, "ottla-clean")
        self._cleaner: RemoteCleaner | None = None
        self._last_used_s = 0.0
        self._is_stopping = False

    @property
    def pid(self) -> int | None:
        """The process, if there is one."""
        cleaner = self._cleaner
        return None if cleaner is None else cleaner.pid

    async def call(self, work: Callable[[RemoteCleaner], T]) -> T:
        """Have something done by the process, which is started if need be. Raises what `work` raises."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._work, work)

    def rest(self) -> None:
        """There is nothing to do now."""
        if self._cleaner is not None and monotonic_s() - self._last_used_s > _IDLE_S:
            self._thread.submit(self._end)

    def stop(self) -> None:
        """End what is under way; a call that waits raises CleanerDied."""
        self._is_stopping = True
        if self._cleaner is not None:
            self._cleaner.kill()

    def close(self) -> None:
        """Leave neither a thread nor a process behind."""
        self._thread.shutdown(wait=True)
        self._end()

    def _work(self, work: Callable[[RemoteCleaner], T]) -> T:
        if self._cleaner is None:
            self._cleaner = RemoteCleaner(self._limits, self._workers)
        if self._is_stopping:
            self._cleaner.kill()
        try:
            return work(self._cleaner)
        except CleanerDied:
            self._end()
            raise
        finally:
            self._last_used_s = monotonic_s()

    def _end(self) -> None:
        cleaner, self._cleaner = self._cleaner, None
        if cleaner is not None:
            cleaner.close()
