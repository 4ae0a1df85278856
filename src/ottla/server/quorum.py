"""Runs the controller over its log: decide, write, fsync, replay, and only then answer (CTL-4).

One node is a quorum of one: a record is committed when it is durable here. Commands are carried out one after the
other by one task, so a client that goes away in the middle cannot leave a decision half done.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ottla.controller.controller import Controller
from ottla.controller.image import ClusterImage
from ottla.controller.records import decode_record, encode_record
from ottla.errors import ErrorCode, KafkaError
from ottla.log.log import Log
from ottla.records.batch import iter_batches
from ottla.records.builder import build_batch
from ottla.records.record import Record

logger = logging.getLogger(__name__)

METADATA_TOPIC = "__cluster_metadata"
# The only epoch there is while the quorum is one node that never loses an election.
LEADER_EPOCH = 1
_READ_BYTES = 1 << 20

OnImage = Callable[[ClusterImage, ClusterImage], Awaitable[None]]


class Quorum:
    """The metadata log and the machine that it feeds. `on_image` hears of every change, on the loop."""

    def __init__(
        self, controller: Controller, log: Log, now_ms: Callable[[], int], on_image: OnImage
    ) -> None:
        self._controller = controller
        self._log = log
        self._now_ms = now_ms
        self._on_image = on_image
        self._commands: asyncio.Queue[tuple[Any, asyncio.Future[Any]]] = asyncio.Queue()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ottla-metadata")
        self._task: asyncio.Task[None] | None = None

    @property
    def image(self) -> ClusterImage:
        """The cluster as of the last committed record."""
        return self._controller.image

    def replay(self) -> None:
        """Rebuild the state from the log."""
        offset = self._log.log_start_offset
        end = self._log.log_end_offset
        while offset < end:
            found = self._log.read(offset, _READ_BYTES, upper_offset=end, at_least_one=True)
            if found is None:
                return
            for batch in iter_batches(found.file.read(found.position, found.size)):
                for record in batch.records() if not batch.is_control else ():
                    self._controller.replay(decode_record(record.value or b""), record.offset, LEADER_EPOCH)
            offset = found.next_offset

    def start(self) -> None:
        """Take commands from now on."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Finish the command under way and refuse the rest."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        while not self._commands.empty():
            _, future = self._commands.get_nowait()
            if not future.done():
                future.set_exception(KafkaError(ErrorCode.NOT_CONTROLLER, "the broker is stopping"))
        self._thread.shutdown(wait=True)

    async def submit(self, request: Any) -> Any:
        """Carry a command out; answer its response once the change is durable and in force here."""
        return await self.submit_soon(request)

    def submit_soon(self, request: Any) -> asyncio.Future[Any]:
        """Have a command carried out, whether or not somebody waits for its response."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._commands.put_nowait((request, future))
        return future

    async def _run(self) -> None:
        while True:
            request, future = await self._commands.get()
            work = asyncio.get_running_loop().create_task(self._carry_out(request))
            try:
                response = await asyncio.shield(work)
            except asyncio.CancelledError:
                await asyncio.gather(work, return_exceptions=True)
                raise
            except Exception as error:
                if isinstance(error, KafkaError):
                    logger.error("the command %s failed: %s", type(request).__name__, error)
                else:
                    logger.exception("the command %s failed", type(request).__name__)
                if not future.done():
                    future.set_exception(error)
                    # It is logged already; nobody has to wait for a command.
                    future.exception()
                continue
            if not future.done():
                future.set_result(response)

    async def _carry_out(self, request: Any) -> Any:
        decision = self._controller.command(request, self._now_ms())
        if decision.records:
            before = self.image
            await self._commit(decision.records)
            await self._on_image(before, self.image)
        return decision.response

    async def _commit(self, records: list[Any]) -> None:
        now_ms = self._now_ms()
        values = [Record(delta, now_ms, None, encode_record(record)) for delta, record in enumerate(records)]
        batch = memoryview(build_batch(values))
        appended = self._log.append_records(batch, leader_epoch=LEADER_EPOCH, now_ms=now_ms)
        await self._flush()
        for delta, record in enumerate(records):
            self._controller.replay(record, appended.base_offset + delta, LEADER_EPOCH)

    async def _flush(self) -> None:
        job = self._log.begin_flush()
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, job.run)
        except OSError as problem:
            # Whether the records are durable is unknown: the next start will tell. Until then nothing is decided.
            self._log.fail_flush(problem)
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"the metadata could not be made durable: {problem.strerror}"
            ) from problem
        self._log.complete_flush(job)
