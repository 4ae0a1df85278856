"""Ready-made ways to process the records of a consumer.

    async with Consumer(group_id="billing") as consumer:
        consumer.subscribe(["orders"])
        await at_least_once(consumer, handle, order="key", workers=50)

`at_least_once` commits a record when it is finished: after a crash some records are processed again.
`at_most_once` commits a record before it begins: after a crash some records are never processed. Both run
until they are cancelled, the consumer is closed, or a record fails.

Order and workers: with `order="partition"` the records of a partition are processed one after the other,
first in, first out; with "key" those of the same key; with "none" in any order. Up to `workers` records are
processed at the same time. Commits never pass a record that is not finished, whatever later records are.

Rules
- A handler may be async or plain. A plain one runs in a thread, so that it does not delay heartbeats.
- A handler that raises ends the processing with ProcessingError, after running handlers have finished and
  finished records are committed. With `on_error(record, error)` the record counts as done if that returns:
  put it aside there, or log it.
- In a rebalance, records of partitions that are given up are finished if they were begun, and left to the
  next owner if not.
- If all workers are busy and no handler finishes within `max_poll_interval_ms`, the group gives the
  partitions to other members.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any, Final, TypeAlias, get_args

from ottla.client.calls import arguments
from ottla.client.consumer.consumer import Consumer, ConsumerRecord
from ottla.client.consumer.plan.processing_plan import Order, ProcessingPlan, Work
from ottla.errors import KafkaError
from ottla.model import TopicPartition

Handler: TypeAlias = Callable[[ConsumerRecord], Awaitable[Any] | Any]
OnError: TypeAlias = Callable[[ConsumerRecord, Exception], Awaitable[Any] | Any]

__all__ = ["Handler", "OnError", "Order", "ProcessingError", "at_least_once", "at_most_once", "call"]

# Records that wait for a worker, besides those that are worked on.
_MOST_WAITING: Final = 500
_LONGEST_WITHOUT_POLL_SECONDS: Final = 0.5
_COMMIT_SECONDS: Final = 1.0
# A last commit that a broken cluster does not take should not delay the end for long.
_LAST_COMMIT_SECONDS: Final = 5.0


class ProcessingError(Exception):
    """A handler failed on `record`; `__cause__` is the reason.

    `at_least_once` has not committed the record.
    """

    def __init__(self, record: ConsumerRecord, error: Exception) -> None:
        where = f"{record.topic}-{record.partition} at offset {record.offset}"
        super().__init__(f"the handler failed on {where}: {type(error).__name__}: {error}")
        self.record = record


async def at_least_once(
    consumer: Consumer,
    handle: Handler,
    *,
    order: Order = "partition",
    workers: int = 1,
    on_error: OnError | None = None,
) -> None:
    """Process records, and commit each when it is finished."""
    await _Processing(consumer, handle, order, workers, on_error, commits_first=False).run()


async def at_most_once(
    consumer: Consumer,
    handle: Handler,
    *,
    order: Order = "partition",
    workers: int = 1,
    on_error: OnError | None = None,
) -> None:
    """Process records, and commit each before it is begun."""
    await _Processing(consumer, handle, order, workers, on_error, commits_first=True).run()


class _Processing:
    """One run. It is the consumer's worker meanwhile."""

    def __init__(
        self,
        consumer: Consumer,
        handle: Handler,
        order: Order,
        workers: int,
        on_error: OnError | None,
        *,
        commits_first: bool,
    ) -> None:
        if not isinstance(consumer, Consumer):
            raise TypeError(f"consumer must be an ottla.Consumer, not a {type(consumer).__name__}")
        if not callable(handle):
            raise TypeError(f"handle must be a function of one record, not {handle!r}")
        arguments.function("on_error", on_error)
        arguments.whole_number("workers", workers, 1)
        arguments.one_of("order", order, get_args(Order))
        if not consumer.is_open:
            raise RuntimeError("consumer is not open: use it in `async with`")
        if consumer.group_id is None:
            way = "at_most_once" if commits_first else "at_least_once"
            raise ValueError(f"{way} commits offsets, and for that consumer needs a group_id")
        self._consumer = consumer
        self._handle = handle
        self._on_error = on_error
        self._commits_first = commits_first
        self._most = workers if commits_first else workers + _MOST_WAITING
        self._plan = ProcessingPlan(order, most_running=workers)
        self._tasks: dict[Work, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()  # a record was finished, or failed
        self._failure: BaseException | None = None
        self._is_stopping = False
        self._polled_seconds = self._committed_seconds = 0.0

    async def run(self) -> None:
        consumer = self._consumer
        consumer.attach(self)
        try:
            while self._failure is None and consumer.is_open:
                if self._is_hungry():
                    await self._take()
                else:
                    self._changed.clear()
                    await self._changed.wait()
            await self._until_idle()
        finally:
            await self._stop()
        if self._failure is not None:
            raise self._failure

    def _is_hungry(self) -> bool:
        """Whether to ask for records: not after each one, but often enough to take part in rebalances."""
        room = self._room()
        is_due = asyncio.get_running_loop().time() - self._polled_seconds > _LONGEST_WITHOUT_POLL_SECONDS
        return room * 2 >= self._most or (room > 0 and is_due)

    def _room(self) -> int:
        return self._most - self._plan.waiting - self._plan.running

    # ---- the consumer's questions

    def unfinished(self, partition: TopicPartition) -> int | None:
        return None if self._commits_first else self._plan.unfinished(partition)

    async def release(self, partitions: frozenset[TopicPartition], is_lost: bool) -> None:
        if is_lost or not self._commits_first:
            self._plan.drop_waiting(partitions)
        for work in self._plan.running_of(partitions) if is_lost else ():
            self._tasks[work].cancel()
        # The waiting records are committed already: no other member would process them.
        while self._plan.running_of(partitions) or self._will_begin(partitions):
            self._changed.clear()
            await self._changed.wait()
        if not is_lost and not self._commits_first:
            await self._commit()

    def _will_begin(self, partitions: frozenset[TopicPartition]) -> bool:
        return self._failure is None and self._plan.waiting_of(partitions) > 0

    def forget(self, partitions: frozenset[TopicPartition]) -> None:
        self._plan.forget(partitions)

    # ---- work

    async def _take(self) -> None:
        records = await self._poll(timeout_ms=0) or await self._awaited()
        self._polled_seconds = now_seconds = asyncio.get_running_loop().time()
        if records and self._commits_first and await self._commit():
            self._plan.add(records)
        self._begin()
        if not self._commits_first and now_seconds - self._committed_seconds > _COMMIT_SECONDS:
            self._committed_seconds = now_seconds
            await self._commit()

    async def _poll(self, timeout_ms: int | None = None) -> list[ConsumerRecord]:
        if not self._consumer.is_open:
            return []  # the consumer was closed: that ends the processing
        records = await self._consumer.poll(max_records=self._room(), timeout_ms=timeout_ms)
        if not self._commits_first:
            # In the same turn of the loop: a commit in between, by a close or a rebalance, would count them
            # as done.
            self._plan.add(records)
        return records

    async def _awaited(self) -> list[ConsumerRecord]:
        """Wait for records, but not if something fails meanwhile."""
        polling = asyncio.ensure_future(self._poll())
        failing = asyncio.ensure_future(self._until_failure())
        try:
            await asyncio.wait({polling, failing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (polling, failing):
                task.cancel()
            await asyncio.wait({polling, failing})
        return [] if polling.cancelled() else polling.result()

    async def _until_failure(self) -> None:
        while self._failure is None:
            self._changed.clear()
            await self._changed.wait()

    async def _until_idle(self) -> None:
        while self._tasks:
            self._changed.clear()
            await self._changed.wait()

    async def _commit(self) -> bool:
        """Commit; False if other members have the records by now: then they must not be processed."""
        try:
            await self._consumer.commit()
        except (KafkaError, ConnectionError, TimeoutError):
            return False
        return True

    def _begin(self) -> None:
        if self._failure is not None or self._is_stopping:
            return  # no later record may overtake one that was not finished
        for work in self._plan.begin():
            task = asyncio.get_running_loop().create_task(self._process(work.record))
            self._tasks[work] = task
            task.add_done_callback(partial(self._ended, work))

    async def _process(self, record: ConsumerRecord) -> None:
        try:
            await call(self._handle, record)
        except Exception as error:
            if self._on_error is None:
                raise ProcessingError(record, error) from error
            await call(self._on_error, record, error)

    def _ended(self, work: Work, task: asyncio.Task[None]) -> None:
        del self._tasks[work]
        failure = None if task.cancelled() else task.exception()
        self._failure = self._failure or failure
        self._plan.finish(work, is_done=failure is None and not task.cancelled())
        self._begin()
        self._changed.set()

    async def _stop(self) -> None:
        """Cancel running handlers and commit finished records.

        The consumer then continues with the first record that is not done.
        """
        self._is_stopping = True
        for task in self._tasks.values():
            task.cancel()
        try:
            await self._until_idle()
            if self._consumer.is_open and not self._commits_first:
                async with asyncio.timeout(_LAST_COMMIT_SECONDS):
                    await self._commit()
        except TimeoutError:
            pass  # some records will be processed again
        finally:
            self._consumer.attach(None)


async def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call an application's function: an async one here, a plain one in a thread; what it returns."""
    if iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__):
        return await function(*arguments)
    answer = await asyncio.to_thread(function, *arguments)
    return await answer if isawaitable(answer) else answer
