"""The desk of the active controller: commands are carried out one after the other, each on the state that the
last one left.

A command is decided, its records are appended as one batch, and the next one has its turn when they are
committed and replayed. One task does this, so a client that goes away in the middle cannot leave a decision
half done. A waiting caller is answered when the change is in force on this node, too; brokers among
themselves do not wait for that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from ottla.controller.commands import BalanceLeaders, ExpireTokens, FenceBrokers
from ottla.controller.decision import Decision
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.brokers import (
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
)
from ottla.protocol.messages.partitions import AlterPartitionRequest
from ottla.protocol.messages.producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.remote_logs import AlterRemoteLogRequest
from ottla.runtime.ordered_set import OrderedSet
from ottla.server.quorum.member import QuorumMember
from ottla.server.quorum.replay import MetadataReplay

logger = logging.getLogger(__name__)

_OF_BROKERS: Final = (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    AlterRemoteLogRequest,
    AssignReplicasToDirsRequest,
    BalanceLeaders,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    ExpireTokens,
    FenceBrokers,
)


class NotControllerError(Exception):
    """This node does not decide now, and has not: whoever asked may ask another."""


class Commands:
    """See the module. `open` when this node becomes the active controller, `shut` when it is no longer."""

    def __init__(self, member: QuorumMember, replay: MetadataReplay, now_ms: Callable[[], int]) -> None:
        self._member = member
        self._replay = replay
        self._now_ms = now_ms
        self._queue: asyncio.Queue[tuple[Any, asyncio.Future[Any]]] = asyncio.Queue()
        self._over: asyncio.Future[KafkaError] | None = None  # while open
        self._task: asyncio.Task[None] | None = None
        self._answering: OrderedSet[asyncio.Task[None]] = OrderedSet()

    def start(self) -> None:
        """Take commands from now on; without `open` they are refused."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def is_open(self) -> bool:
        """Whether this node decides."""
        return self._over is not None and not self._over.done()

    def open(self) -> None:
        """This node decides from now on."""
        self._over = asyncio.get_running_loop().create_future()

    def shut(self, reason: KafkaError) -> None:
        """Stop deciding on this node. The outcome of the command under way is not known."""
        if self._over is not None and not self._over.done():
            self._over.set_result(reason)

    async def stop(self) -> None:
        """Finish the command under way, if that can be, and refuse the rest."""
        stopping = KafkaError(ErrorCode.NOT_CONTROLLER, "the broker is stopping")
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.shut(stopping)
        await asyncio.gather(*self._answering, return_exceptions=True)
        while not self._queue.empty():
            _fail(self._queue.get_nowait()[1], stopping)

    def put(self, request: Any) -> asyncio.Future[Any]:
        """Have a command carried out. NotControllerError if it is certain that it was not, and will not
        be.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if isinstance(request, BrokerHeartbeatRequest) and self.is_open:
            # One that changes nothing need not wait for those that do: a slow disk must not cost sessions.
            decision = self._replay.controller.command(request, self._now_ms())
            if not decision.records:
                future.set_result(decision.response)
                return future
        self._queue.put_nowait((request, future))
        return future

    async def _run(self) -> None:
        while True:
            request, future = await self._queue.get()
            if future.done():
                continue
            work = asyncio.get_running_loop().create_task(self._try(request, future))
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                await asyncio.gather(work, return_exceptions=True)
                raise

    async def _try(self, request: Any, future: asyncio.Future[Any]) -> None:
        name = type(request).__name__
        try:
            await self._carry_out(request, future)
        except NotControllerError as error:
            _fail(future, error)
        except KafkaError as error:
            # Another controller goes on where this one ends: that is no fault.
            level = logging.INFO if error.code == ErrorCode.NOT_CONTROLLER else logging.ERROR
            logger.log(level, "the command %s failed: %s", name, error)
            _fail(future, error)
        except Exception as error:
            logger.exception("the command %s failed", name)
            _fail(future, error)

    async def _carry_out(self, request: Any, future: asyncio.Future[Any]) -> None:
        await self._catch_up()
        decision = self._replay.controller.command(request, self._now_ms())
        if not decision.records:
            _answer(future, decision.response)
            return
        try:
            end_offset = self._member.append(decision.records)
        except KafkaError:
            if self.is_open:
                raise
            # This node has resigned, because it cannot write: the next controller may carry the command out.
            raise NotControllerError from None
        await self._replayed(end_offset)
        _report(decision)
        if isinstance(request, _OF_BROKERS):
            _answer(future, decision.response)
        else:
            task = asyncio.get_running_loop().create_task(self._answer_in_force(decision, end_offset, future))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _catch_up(self) -> None:
        """A decision is made on everything that is in the log, the records of elections too."""
        while True:
            if not self.is_open:
                raise NotControllerError
            if self._replay.replayed.value >= self._member.log_end_offset:
                return
            try:
                await self._replayed(self._member.log_end_offset)
            except KafkaError as error:
                raise NotControllerError from error

    async def _replayed(self, offset: int) -> None:
        """Wait until everything below an offset is committed and replayed; KafkaError if that is not to
        be.
        """
        over = self._over
        assert over is not None
        reached = asyncio.ensure_future(self._replay.replayed.reached(offset))
        try:
            waiting: set[asyncio.Future[Any]] = {reached, over}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not reached.done():
                raise over.result()
            reached.result()
        finally:
            reached.cancel()

    async def _answer_in_force(
        self, decision: Decision, end_offset: int, future: asyncio.Future[Any]
    ) -> None:
        await self._replay.in_force(end_offset)
        _answer(future, decision.response)


def _answer(future: asyncio.Future[Any], response: Any) -> None:
    if not future.done():
        future.set_result(response)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        # The failure is logged already; no caller has to wait for a command.
        future.exception()


def _report(decision: Decision) -> None:
    for topic, partition in decision.unclean_elections:
        logger.warning(
            "%s-%d has an unclean leader: records that were acknowledged may be lost", topic, partition
        )
    for topic, partition in decision.waiting:
        logger.error(
            "%s-%d waits for you: every replica may miss records that were acknowledged. "
            "ottla cluster recover shows what each of them has, and lets one lead",
            topic,
            partition,
        )
