"""The object store as the event loop sees it: calls on threads, and a memory of what went wrong.

Copying and reading have threads of their own, so that neither waits for the other, and both are bounded. After a
failure the store rests for a while, longer each time: a store that is down is not asked by every reader, and its
trouble is logged once and then now and then. Whoever calls during a rest gets the reason at once.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, TypeVar

from ottla.config import TierConfig
from ottla.runtime.clock import monotonic_s
from ottla.runtime.object_store import ObjectMissingError, ObjectStore, StoreError
from ottla.runtime.runtime import Runtime
from ottla.runtime.threads import Executor

logger = logging.getLogger(__name__)

T = TypeVar("T")

_FIRST_REST_S: Final = 0.2
_LONGEST_REST_S: Final = 30.0
# The same trouble is logged so often.
_LOG_INTERVAL_S: Final = 60.0


class StoreAccess:
    """The store of one broker. `problem` is why it cannot be used now, in a sentence; None if it can."""

    def __init__(self, config: TierConfig, runtime: Runtime) -> None:
        assert config.store_url is not None
        self.url = config.store_url
        self._runtime = runtime
        self._copiers = runtime.threads.pool(config.copier_thread_pool_size, "ottla-tier-copy")
        self._readers = runtime.threads.pool(config.reader_threads, "ottla-tier-read")
        self._store: ObjectStore | None = None
        self._rest_s = _FIRST_REST_S
        self._rests_until_s = 0.0
        self._logged_at_s: float | None = None
        self.problem: str | None = None

    async def copy(self, work: Callable[[ObjectStore], T]) -> T:
        """Run work of the copier. StoreError if the store fails or rests."""
        return await self._run(self._copiers, work)

    async def read(self, work: Callable[[ObjectStore], T]) -> T:
        """Run work of a reader. StoreError if the store fails or rests."""
        return await self._run(self._readers, work)

    def close(self) -> None:
        """Let the threads end; work that has not begun never does."""
        for pool in (self._copiers, self._readers):
            pool.shutdown(wait=False, cancel_futures=True)

    async def _run(self, pool: Executor, work: Callable[[ObjectStore], T]) -> T:
        if self.problem is not None and monotonic_s() < self._rests_until_s:
            raise StoreError(self.problem)
        loop = asyncio.get_running_loop()
        try:
            done = await loop.run_in_executor(pool, self._with_store, work)
        except ObjectMissingError:
            raise
        except StoreError as problem:
            self._failed(str(problem))
            raise
        self._works()
        return done

    def _with_store(self, work: Callable[[ObjectStore], T]) -> T:
        """In a thread. Two threads may open the store at the same time, which does no harm."""
        store = self._store
        if store is None:
            store = self._store = self._runtime.stores.open(self.url)
        return work(store)

    def _failed(self, problem: str) -> None:
        now_s = monotonic_s()
        if now_s >= self._rests_until_s:
            self._rests_until_s = now_s + self._rest_s
            self._rest_s = min(2 * self._rest_s, _LONGEST_REST_S)
        if self._logged_at_s is None or now_s - self._logged_at_s >= _LOG_INTERVAL_S:
            self._logged_at_s = now_s
            logger.error(
                "the object store %s fails: %s. Records are taken as before; old ones cannot be read meanwhile",
                self.url,
                problem,
            )
        self.problem = problem

    def _works(self) -> None:
        if self.problem is not None:
            logger.warning("the object store %s works again", self.url)
        self.problem, self._logged_at_s, self._rest_s = None, None, _FIRST_REST_S
