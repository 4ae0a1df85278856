"""One transaction coordinator: a machine over one partition of `__transaction_state`.

A decision's records are appended and, once they are in the log, replayed. The answer leaves, and the markers
are sent, when the append is acknowledged; also the answer to a question that writes nothing waits for what was
written before it, so that no client sees a transaction that the next coordinator may not know. A decision that
cannot be written did not happen: the client is told COORDINATOR_NOT_AVAILABLE, and asks again.

A shard belongs to one leadership of its partition. When that leadership ends, waiting requests are answered
with NOT_COORDINATOR, and no marker is sent any more: the next coordinator sends them all. A broker that is cut
off from controller and followers may have been replaced without knowing, so its shards answer NOT_COORDINATOR,
too.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.model import ACKS_LEADER, TopicPartition
from ottla.protocol.messages.transaction_admin import (
    DescribedTransactionState,
    ListedTransactionState,
    ListTransactionsRequest,
)
from ottla.server.coordinators.coordinator_log import CoordinatorLog
from ottla.server.coordinators.log_reading import replay_log
from ottla.server.coordinators.marker_sender import MarkerSender
from ottla.server.partitions.flushing import Flusher
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.transaction.commands import AbortTimedOut, Context, ExpireIds, MarkersWritten
from ottla.transaction.coordinator import TransactionCoordinator
from ottla.transaction.decision import Decision, Markers, NeedsProducerIdError
from ottla.transaction.metadata import TransactionMetadata, TransactionState

logger = logging.getLogger(__name__)

# A write that failed, or that is not acknowledged, is tried again after this time.
_RETRY_S: Final = 0.1


class World(NamedTuple):
    """What a shard asks of its broker: the time, the cluster's `transaction.version`, a producer id that nobody
    has.
    """

    now_ms: Callable[[], int]
    finalized_version: Callable[[], int]
    new_producer_id: Callable[[], Awaitable[int]]


class TransactionShard:
    """Answers for the transactional ids of one partition."""

    def __init__(
        self,
        partition: HostedPartition,
        machine: TransactionCoordinator,
        flusher: Flusher,
        world: World,
        sender: MarkerSender,
    ) -> None:
        self.partition = partition
        self.is_loaded = False
        self._is_gone = False
        self._machine = machine
        self._log = CoordinatorLog(partition, machine.replay, flusher, world.now_ms)
        self._world = world
        self._sender = sender

    @property
    def is_current(self) -> bool:
        """Whether its leadership goes on."""
        return not self._is_gone and self._log.is_current

    @property
    def transactions(self) -> Mapping[str, TransactionMetadata]:
        """Its transactional ids, to look at."""
        return self._machine.transactions

    @property
    def coordinator_epoch(self) -> int:
        """The epoch by which partitions tell this coordinator from earlier ones."""
        return self.partition.replica.leader_epoch

    async def load(self) -> None:
        """Replay the log, then answer; unless the shard is unloaded meanwhile."""
        machine = self._machine
        # Whoever wrote a control batch here: it says nothing about transactional ids.
        await replay_log(
            self.partition,
            lambda batch: None if batch.is_control else machine.replay,
            lambda: not self._is_gone,
        )
        if not self._is_gone:
            self.begin()

    def begin(self) -> None:
        """Answer from now on: the log is replayed, or there is nothing in it."""
        self._log.begin()
        self.is_loaded = True
        self._send_when_acknowledged(self._log.replayed_end, self._machine.loaded())

    def unload(self) -> None:
        """This broker no longer coordinates these transactions."""
        self.is_loaded = False
        self._is_gone = True

    async def ask(self, command: Any) -> Any:
        """The answer to a command. Raises KafkaError while there is no coordinator."""
        decision = await self._decide(command)
        self._carry_out(decision)
        await self._acknowledged()
        return decision.response

    async def describe(self, transactional_id: str) -> DescribedTransactionState:
        """One transactional id, as DescribeTransactions has it."""
        self._check_presence()
        found = self._machine.describe(transactional_id)
        await self._acknowledged()
        return found

    async def list(self, request: ListTransactionsRequest) -> list[ListedTransactionState]:
        """The transactional ids that pass the filters of a ListTransactions."""
        self._check_presence()
        found = self._machine.list(request, self._world.now_ms())
        await self._acknowledged()
        return found

    async def abort_timed_out(self) -> None:
        """Abort the transactions that took too long."""
        for command in self._machine.timed_out(self._world.now_ms()) if self.is_loaded else ():
            await self._try(command)

    async def time_out(self, transactional_id: str) -> bool:
        """Abort the open transaction of an id as if its timeout were over; False if none is open. For tests of
        applications.
        """
        found = self._machine.transactions.get(transactional_id)
        if found is None or found.state is not TransactionState.ONGOING:
            return False
        identity = found.producer_id, found.producer_epoch
        await self.ask(AbortTimedOut(transactional_id, *identity, is_forced=True))
        return True

    async def expire_ids(self) -> None:
        """Forget the transactional ids that were not used for too long."""
        if self.is_loaded:
            await self._try(ExpireIds())

    def markers_written(self, markers: Markers, partitions: frozenset[TopicPartition]) -> None:
        """Partitions have the marker, or are gone; the last ones complete the transaction."""
        if self._is_gone:
            return
        command = MarkersWritten(
            markers.transactional_id, markers.producer_id, markers.producer_epoch, partitions
        )
        try:
            self._carry_out(self._machine.command(command, self._context()))
        except KafkaError:
            # A failure is logged there.
            asyncio.get_running_loop().call_later(_RETRY_S, self.markers_written, markers, partitions)

    # Deciding and writing

    def _context(self) -> Context:
        return Context(self._world.now_ms(), self._world.finalized_version())

    async def _decide(self, command: Any) -> Decision:
        new_ids: list[int] = []
        while True:
            self._check_presence()
            context = self._context()
            if new_ids:
                first, *more = new_ids
                context = context._replace(new_producer_id=first, more_producer_ids=tuple(more))
            try:
                return self._machine.command(command, context)
            except NeedsProducerIdError as needed:
                while len(new_ids) < needed.count:
                    new_ids.append(await self._world.new_producer_id())

    def _check_presence(self) -> None:
        """Raise KafkaError unless this shard answers for its transactions, and knows that no other does."""
        if not self.is_loaded:
            raise KafkaError(
                ErrorCode.NOT_COORDINATOR if self._is_gone else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            )
        if self.partition.append_error(ACKS_LEADER):
            raise KafkaError(ErrorCode.NOT_COORDINATOR)

    def _carry_out(self, decision: Decision) -> None:
        """Write and replay, and see that the markers leave once the records are committed."""
        if decision.records:
            try:
                end = self._log.append(decision.records, is_atomic=decision.is_atomic)
            except KafkaError as error:
                if error.code is ErrorCode.RECORD_LIST_TOO_LARGE:
                    raise  # no other coordinator could write an atomic decision of this size
                code = self._code_for(error)
                if code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                    logger.error("%s could not be written: %s", self.partition.name, error)
                raise KafkaError(code) from error
            self._send_when_acknowledged(end, decision.markers)
        for note in decision.notes:
            logger.info("%s", note)

    async def _try(self, command: Any) -> None:
        try:
            await self.ask(command)
        except KafkaError as error:
            logger.info("%s: %s has to wait: %s", self.partition.name, type(command).__name__, error)

    # Acknowledgement

    def _code_for(self, error: KafkaError) -> ErrorCode:
        """The error for a client after a failed write: find the new coordinator, or ask this one again."""
        is_elsewhere = self._is_gone or error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NOT_COORDINATOR if is_elsewhere else ErrorCode.COORDINATOR_NOT_AVAILABLE

    async def _acknowledged(self) -> None:
        """Wait until all that the machine has replayed is committed."""
        end = self._log.replayed_end
        if self._log.is_acknowledged(end):
            return
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(failure: KafkaError | None) -> None:
            if outcome.done():
                return
            if failure is None:
                outcome.set_result(None)
            else:
                outcome.set_exception(KafkaError(self._code_for(failure)))

        self._log.when_acknowledged(end, done)
        await outcome

    def _send_when_acknowledged(self, end: int, markers: Sequence[Markers]) -> None:
        """Send markers once the decision is committed: until then the next coordinator may not know it."""
        if not markers or not self.is_current:
            return

        def done(failure: KafkaError | None) -> None:
            if failure is None:
                for one in markers:
                    self._sender.send(one, self)
            else:
                asyncio.get_running_loop().call_later(_RETRY_S, self._send_when_acknowledged, end, markers)

        self._log.when_acknowledged(end, done)
