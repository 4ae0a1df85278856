"""Carries fsyncs out of the event loop, so that one fsync serves all requests that wait for it.

While a flush of a log runs in a thread, appends go on; the next flush makes all of them durable together. A
flush that failed is never tried again: which records it made durable is unknown, so the log refuses writes
from then on. A flush that could not begin, for lack of room for the file of leader epochs, has synced nothing: who
waits is refused, and the next flush is tried.
"""

import asyncio
import logging

from ottla.errors import ErrorCode, KafkaError
from ottla.log.writing.flush import FlushJob
from ottla.runtime.clock import monotonic_ms
from ottla.runtime.threads import Threads
from ottla.server.answers.watermark import Waiter
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.telemetry.histogram import Histogram

logger = logging.getLogger(__name__)

# More threads than this only queue in the disk.
_THREADS = 4


class Flusher:
    """One task per log being flushed, a few threads for all."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads.pool(_THREADS, "ottla-flush")
        self._running: dict[HostedPartition, asyncio.Task[None]] = {}
        # How long flushes took, the wait for a thread included, in microseconds; and how many failed.
        self.times_us = Histogram()
        self.failures = 0

    def flush(self, partition: HostedPartition) -> None:
        """Begin to flush what is written now; nothing happens where a flush has failed before."""
        if partition not in self._running and partition.log.status.refusal is None:
            task = asyncio.get_running_loop().create_task(self._flush(partition))
            self._running[partition] = task

    async def flushed(self, partition: HostedPartition, offset: int) -> None:
        """Return when everything before `offset` is durable; raise KAFKA_STORAGE_ERROR when it cannot be."""
        if partition.flushed.value < offset:
            if partition.log.status.refusal is not None:
                raise partition.log.status.refusal
            self.flush(partition)
            await partition.flushed.reached(offset)

    def when_flushed(self, partition: HostedPartition, offset: int, waiter: Waiter) -> None:
        """Call `waiter` when everything before `offset` is durable, or with the reason why it cannot be."""
        if partition.flushed.value < offset:
            if partition.log.status.refusal is not None:
                waiter(partition.log.status.refusal)
                return
            self.flush(partition)
        partition.flushed.when_reached(offset, waiter)

    async def stop(self) -> None:
        """Wait for the flushes under way."""
        await asyncio.gather(*self._running.values(), return_exceptions=True)
        self._threads.shutdown(wait=True)

    def _begun(self, partition: HostedPartition) -> FlushJob | None:
        """A flush; None if the disk did not let it begin."""
        try:
            return partition.log.durability.begin_flush()
        except OSError as problem:
            self.failures += 1
            partition.flushed.refuse(partition.log.status.write_failed(problem))
            return None

    async def _flush(self, partition: HostedPartition) -> None:
        loop = asyncio.get_running_loop()
        try:
            again = True
            while again:
                job, begun = self._begun(partition), loop.time()
                if job is None:
                    return
                await loop.run_in_executor(self._threads, job.run)
                self.times_us.record(int((loop.time() - begun) * 1_000_000))
                partition.log.durability.complete_flush(job)
                partition.note_flushed(monotonic_ms())
                again = not partition.is_closed and (
                    partition.flushed.is_awaited or partition.flush_policy.is_due
                )
        except Exception as error:
            if partition.is_closed:
                # It was deleted meanwhile, and its files with it.
                return
            self.failures += 1
            partition.log.durability.fail_flush(error)
            logger.error(
                "flushing %s failed: %s. It refuses writes until the broker restarts.",
                partition.name,
                error,
                extra=partition.log_fields,
            )
            partition.flushed.fail(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"flushing failed: {error}"))
        finally:
            del self._running[partition]
