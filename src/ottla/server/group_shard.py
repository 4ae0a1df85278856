"""One group coordinator: a machine, the partition of `__consumer_offsets` that is its log, and those who wait for it.

A decision's records are appended and, once they are in the log, replayed; the answers leave when the records are
committed (the high watermark has passed them). Loading replays the log and nothing else; until it is done every
question is answered with COORDINATOR_LOAD_IN_PROGRESS.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import Any

from ottla.errors import ErrorCode, KafkaError
from ottla.group.coordinator import GroupCoordinator
from ottla.group.decision import Decision, GroupRequestContext
from ottla.records.batch import iter_batches
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.server.partitions import HostedPartition

logger = logging.getLogger(__name__)

_LOAD_BYTES = 1 << 20


class GroupShard:
    """Answers for the groups of one partition."""

    def __init__(
        self, partition: HostedPartition, machine: GroupCoordinator, now_ms: Callable[[], int]
    ) -> None:
        self.partition = partition
        self.is_loaded = False
        self._machine = machine
        self._now_ms = now_ms
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._tickets = count(1)
        self._releases: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None

    async def load(self) -> None:
        """Replay the partition; requests of other groups have their turn in between."""
        log = self.partition.log
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            found = log.read(offset, _LOAD_BYTES, upper_offset=log.log_end_offset, at_least_one=True)
            if found is None:
                break
            for batch in iter_batches(found.file.read(found.position, found.size)):
                if not batch.is_control:
                    for record in batch.records():
                        self._machine.replay(record.key, record.value)
            offset = found.next_offset
            await asyncio.sleep(0)
        self.begin()

    def begin(self) -> None:
        """Answer from now on: the log is replayed, or there is nothing in it."""
        self._machine.loaded(self._now_ms())
        self.is_loaded = True
        self._set_timer()

    def unload(self) -> None:
        """This broker no longer coordinates these groups: everybody who waits is sent away."""
        self.is_loaded = False
        if self._timer is not None:
            self._timer.cancel()
        for decision in self._machine.unload():
            self._release(decision)

    def tell(self, command: Any) -> None:
        """Give the machine a command that nobody waits for."""
        if self.is_loaded:
            context = GroupRequestContext(0, "", "", None)
            with suppress(KafkaError):
                self._carry_out(self._machine.command(command, context, self._now_ms()))

    def ask(self, request: Any, version: int, client_id: str, client_host: str) -> Any | Awaitable[Any]:
        """The answer to a request, or what to await for it. Raises KafkaError while there is no coordinator."""
        if not self.is_loaded:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        ticket = next(self._tickets)
        context = GroupRequestContext(version, client_id, client_host, ticket)
        decision = self._machine.command(request, context, self._now_ms())
        if decision.response is None:
            answer = self._waiting[ticket] = asyncio.get_running_loop().create_future()
            self._carry_out(decision)
            return answer
        end = self._carry_out(decision)
        if end > self.partition.high_watermark.value:
            return self._answer_when_committed(end, decision.response)
        return decision.response

    async def _answer_when_committed(self, end: int, response: Any) -> Any:
        await self.partition.high_watermark.reached(end)
        return response

    def _carry_out(self, decision: Decision) -> int:
        """Write and replay; release those who were waiting. Answers the offset behind what was written."""
        end = 0
        for note in decision.notes:
            logger.info("%s", note)
        try:
            if decision.records:
                end = self._append(decision)
        except KafkaError as error:
            logger.error("%s could not be written: %s", self.partition.name, error)
            self._fail(decision)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error
        if end <= self.partition.high_watermark.value:
            self._release(decision)
        elif decision.completions:
            task = asyncio.get_running_loop().create_task(self._release_when_committed(end, decision))
            self._releases.add(task)
            task.add_done_callback(self._releases.discard)
        self._set_timer()
        return end

    async def _release_when_committed(self, end: int, decision: Decision) -> None:
        try:
            await self.partition.high_watermark.reached(end)
        except KafkaError:
            self._fail(decision)
        else:
            self._release(decision)

    def _append(self, decision: Decision) -> int:
        now_ms = self._now_ms()
        records = [Record(n, now_ms, key, value) for n, (key, value) in enumerate(decision.records)]
        appended = self.partition.append_own(memoryview(build_batch(records)), now_ms)
        for key, value in decision.records:
            self._machine.replay(key, value)
        return appended.last_offset + 1

    def _release(self, decision: Decision) -> None:
        for ticket, response in decision.completions:
            future = self._waiting.pop(ticket, None)
            if future is not None and not future.done():
                future.set_result(response)

    def _fail(self, decision: Decision) -> None:
        for ticket, _ in decision.completions:
            future = self._waiting.pop(ticket, None)
            if future is not None and not future.done():
                future.set_exception(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def _set_timer(self) -> None:
        """Be called again when the machine's next deadline is due."""
        due_ms = self._machine.next_deadline_ms
        if due_ms == self._timer_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms, self._timer = due_ms, None
        if due_ms is not None:
            delay_s = max(0, due_ms - self._now_ms()) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = self._timer_ms = None
        for decision in self._machine.tick(self._now_ms()):
            # A failure is logged there; the members' next requests, or the next deadline, try again.
            with suppress(KafkaError):
                self._carry_out(decision)
        self._set_timer()
