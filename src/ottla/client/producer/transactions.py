"""The transactions of a producer: begin, send offsets, commit or abort.

`machine.transaction` decides, `TransactionCoordinator` asks; this shell waits for records, and gives the
application its errors. Rules
- The end of a transaction runs in a task of its own: a caller that is cancelled meanwhile leaves the end to that
  task, and the next transaction waits for it. A caller that is cancelled while records are still being delivered
  has the transaction aborted.
- A prepared transaction is left to the application, whatever is raised: only `complete`, or the regular end of
  its block, ends it.
- An exception of the application is raised as it is, after the abort. If it is an error of the transaction, the
  application hears the error that says what to do (see `machine.transaction_errors`), with the first as its cause.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from ottla.client.cluster.background_tasks import Background
from ottla.client.producer.delivery_outcomes import Outcomes, ended
from ottla.client.producer.machine.accumulator import Accumulator
from ottla.client.producer.machine.batch import ProducerBatch
from ottla.client.producer.machine.delivery_report import Failure
from ottla.client.producer.machine.idempotence import ProducerIdentity
from ottla.client.producer.machine.prepared_transaction import PreparedTransaction
from ottla.client.producer.machine.transaction import IMPLICIT_LEVEL, Phase, TransactionalProducer
from ottla.client.producer.machine.transaction_errors import (
    Remedy,
    TransactionError,
    TransactionFailure,
    remedy_of_record,
    remedy_of_request,
)
from ottla.client.producer.offset_sources import Group, resolved
from ottla.client.producer.transaction_coordinator import TransactionCoordinator
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_SEQUENCE, TopicPartition

_DISCARDED = Failure(
    ErrorCode.OPERATION_NOT_ATTEMPTED, "the transaction is aborted, and the record was not sent any more"
)


class Transactions:
    """The transactions of one producer. `pump` has the sender look for batches to send."""

    def __init__(
        self,
        machine: TransactionalProducer,
        accumulator: Accumulator,
        coordinator: TransactionCoordinator,
        outcomes: Outcomes,
        background: Background,
        pump: Callable[[], None],
    ) -> None:
        self._machine = machine
        self._accumulator = accumulator
        self._coordinator = coordinator
        self._outcomes = outcomes
        self._background = background
        self._pump = pump
        self._adding: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._is_beginning = self._is_cancelled = False
        self._offsets_under_way = 0
        self._idle = asyncio.Event()

    async def open(self) -> None:
        """Get a producer id and epoch: other producers of the same transactional id are fenced.

        Raises TransactionError, ConnectionError or TimeoutError.
        """
        await self._initialise()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Begin a transaction; commit it at the end, abort it on any exception unless it is prepared."""
        await self._begin()
        try:
            yield
        except BaseException as error:
            if self._machine.phase is Phase.PREPARED:
                raise
            with contextlib.suppress(TransactionError):
                await self._settle(is_commit=False)
            failure = self._machine.failure
            if (
                failure is not None
                and isinstance(error, KafkaError)
                and not isinstance(error, TransactionError)
            ):
                raise failure.error from error
            raise
        else:
            await self._settle(is_commit=True)

    @property
    def prepared(self) -> PreparedTransaction | None:
        """The prepared transaction that waits for its end."""
        return self._machine.prepared

    async def prepare(self) -> PreparedTransaction:
        """Deliver all records of the open transaction, which takes no more. Raises TransactionError."""
        self.needs_begun()
        await self._flush()
        if self._machine.failure is not None:
            raise self._machine.failure.error
        self.needs_begun()
        return self._machine.prepare()

    async def complete(self, stored: PreparedTransaction | None) -> bool:
        """Commit the prepared transaction if it is the one that was stored, else abort it."""
        if self._ending is not None:  # a caller was cancelled meanwhile
            await asyncio.wait({self._ending})
        machine = self._machine
        if machine.phase is Phase.FATAL_ERROR:
            assert machine.failure is not None
            raise machine.failure.error
        if machine.phase is not Phase.PREPARED:
            return False
        is_commit = stored == machine.prepared
        await self._settle(is_commit=is_commit)
        return is_commit

    async def send_offsets(
        self, group: Group, offsets: Mapping[TopicPartition, CommittedOffset] | None
    ) -> None:
        """Have the offsets of a group committed with the transaction. Raises TransactionError."""
        self.needs_begun()
        machine, identity = self._machine, self._identity
        self._offsets_under_way += 1
        try:
            member, wanted = resolved(group, offsets)
            if wanted and machine.needs_group(member.group_id):
                await self._coordinator.add_group(identity, member.group_id)
                machine.added_group(member.group_id)
            if wanted:
                await self._coordinator.commit_offsets(
                    identity, member, wanted, is_implicit=machine.is_implicit
                )
        except (KafkaError, ConnectionError, TimeoutError) as error:
            raise self._refused(error).error from error
        finally:
            self._offsets_under_way -= 1
            self._notice_idle()

    def needs_begun(self) -> None:
        """Raise RuntimeError unless a transaction is open, and TransactionError if it has failed."""
        machine = self._machine
        if machine.failure is not None and machine.is_discarded:
            raise machine.failure.error
        if machine.phase is Phase.PREPARED:
            raise RuntimeError("the transaction is prepared, and takes no more records: complete it")
        if not machine.is_open or self._ending is not None:
            raise RuntimeError(
                "a transactional producer writes in transactions: use it in `async with producer.transaction()`"
            )

    def supply(self, done: list[ProducerBatch]) -> None:
        """Batches were looked for, and these have ended: do what the machine wants."""
        for batch in done:
            if batch.failure is not None:
                self._fail_batch(batch, batch.failure)
        if self._machine.is_discarded:
            self._accumulator.fail_waiting(_DISCARDED)
            if self._accumulator.ledger.has_done:
                asyncio.get_running_loop().call_soon(self._pump)
        elif wanted := self._machine.take_wanted():
            self._adding = self._background.start(self._add(wanted))
        self._notice_idle()

    def fail(self, failure: Failure) -> None:
        """The producer cannot send any more."""
        self._machine.fail(Remedy.GIVE_UP, failure.code, failure.message)
        self._notice_idle()

    async def close(self, timeout_s: float) -> None:
        """Abort the transaction that is open, if there is one; the coordinator would do so later."""
        with contextlib.suppress(TransactionError, TimeoutError):
            async with asyncio.timeout(timeout_s):
                if self._ending is not None:
                    await asyncio.wait({self._ending})
                if self._machine.phase in (Phase.IN_TRANSACTION, Phase.ABORTABLE_ERROR):
                    await self._settle(is_commit=False)
        if self._ending is not None:
            self._ending.cancel()
            await asyncio.wait({self._ending})

    # ---- the beginning

    async def _begin(self) -> None:
        if self._ending is not None:  # a caller was cancelled while its transaction ended
            await asyncio.wait({self._ending})
        machine = self._machine
        if machine.phase is Phase.FATAL_ERROR:
            assert machine.failure is not None
            raise machine.failure.error
        if machine.phase is Phase.PREPARED:
            raise RuntimeError(f"the prepared transaction {machine.prepared} comes first: complete it")
        if self._is_beginning or machine.phase not in (Phase.READY, Phase.UNINITIALISED):
            raise RuntimeError("a transaction of this producer is open already: one at a time")
        self._is_beginning = True
        try:
            if machine.phase is Phase.UNINITIALISED:
                await self._initialise()
        except (ConnectionError, TimeoutError) as error:
            failure = TransactionFailure(Remedy.ABORT, ErrorCode.REQUEST_TIMED_OUT, str(error))
            raise failure.error from error
        finally:
            self._is_beginning = False
        machine.begin(self._coordinator.transaction_version)

    async def _initialise(self) -> None:
        machine, coordinator = self._machine, self._coordinator
        try:
            if machine.is_undecided:
                with contextlib.suppress(KafkaError):  # whatever it says, nothing is open any more
                    await coordinator.end(self._identity, is_commit=False, is_implicit=machine.is_implicit)
            identity, kept = await coordinator.initialise(machine.identity)
        except KafkaError as error:
            remedy = remedy_of_request(error.code)
            if not error.code.retriable:
                # There is no transaction to abort: what the coordinator refuses now, it refuses for good.
                remedy = max(remedy, Remedy.RESTART)
                machine.fail(remedy, error.code, error.message)
            raise TransactionFailure(remedy, error.code, error.message).error from error
        machine.initialised(identity, kept)
        is_implicit = coordinator.transaction_version >= IMPLICIT_LEVEL
        self._accumulator.restart(identity, is_refused_unknown=is_implicit)

    @property
    def _identity(self) -> ProducerIdentity:
        assert self._machine.identity is not None
        return self._machine.identity

    # ---- on the way

    async def _add(self, partitions: list[TopicPartition]) -> None:
        try:
            await self._coordinator.add_partitions(self._identity, partitions)
            self._machine.added(partitions)
        except (KafkaError, ConnectionError, TimeoutError) as error:
            self._machine.not_added()
            self._refused(error)
        finally:
            self._adding = None
            asyncio.get_running_loop().call_soon(self._pump)

    def _fail_batch(self, batch: ProducerBatch, failure: Failure) -> None:
        if batch.first_sequence != NO_SEQUENCE:
            self._machine.spend_epoch()
        if self._machine.phase is not Phase.ABORTING:  # else the application has discarded it
            self._machine.fail(remedy_of_record(failure.code), failure.code, failure.message)

    def _refused(self, error: Exception) -> TransactionFailure:
        """A coordinator refused a request, or could not be asked in time."""
        if isinstance(error, KafkaError):
            code, message, remedy = error.code, error.message, remedy_of_request(error.code)
        else:
            code, message, remedy = ErrorCode.REQUEST_TIMED_OUT, str(error), Remedy.ABORT
        self._machine.fail(remedy, code, message)
        return TransactionFailure(remedy, code, message)

    # ---- the end

    async def _settle(self, *, is_commit: bool) -> None:
        """End the transaction in a task of its own. Raises TransactionError."""
        self._is_cancelled = False
        self._ending = task = asyncio.get_running_loop().create_task(self._end(is_commit=is_commit))
        task.add_done_callback(self._ended)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            self._is_cancelled = True
            raise

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._ending = None
        if not task.cancelled():
            task.exception()  # a cancelled caller does not hear it

    async def _end(self, *, is_commit: bool) -> None:
        machine = self._machine
        if machine.phase is Phase.PREPARED:
            await self._end_prepared(is_commit=is_commit)
            return
        if is_commit and machine.is_open:
            await self._flush()
            if machine.is_open and not self._is_cancelled:
                await self._commit()
        if machine.phase in (Phase.IN_TRANSACTION, Phase.ABORTABLE_ERROR):
            await self._abort()
        cause = self._outcomes.take_unheard()
        if machine.failure is not None:
            raise machine.failure.error from cause

    async def _flush(self) -> None:
        self._accumulator.hurry()
        try:
            self._pump()
            await ended(list(self._accumulator.ledger.incomplete))
            await self._until_idle()
        finally:
            self._accumulator.unhurry()

    async def _commit(self) -> None:
        machine = self._machine
        machine.begin_commit()
        try:
            await self._tell_end(is_commit=True)
        except (KafkaError, ConnectionError, TimeoutError) as error:
            passes = not isinstance(error, KafkaError) or error.code.retriable
            if passes and machine.is_end_lost:
                message = f"the commit was not confirmed, and may have succeeded: {error}"
                machine.fail(Remedy.UNKNOWN, ErrorCode.REQUEST_TIMED_OUT, message)
            else:
                self._refused(error)

    async def _end_prepared(self, *, is_commit: bool) -> None:
        """Tell the application's decision. Without an answer the transaction stays prepared."""
        machine = self._machine
        (machine.begin_commit if is_commit else machine.begin_abort)()
        try:
            await self._tell_end(is_commit=is_commit)
        except (KafkaError, ConnectionError, TimeoutError) as error:
            if isinstance(error, KafkaError) and not error.code.retriable:
                remedy = max(remedy_of_request(error.code), Remedy.RESTART)
                machine.fail(remedy, error.code, error.message)
                raise TransactionFailure(remedy, error.code, error.message).error from error
            machine.unanswered()
            message = f"the end of the prepared transaction had no answer, and has to be told again: {error}"
            raise TransactionFailure(Remedy.UNKNOWN, ErrorCode.REQUEST_TIMED_OUT, message).error from error

    async def _abort(self) -> None:
        """Discard the records that wait, let those under way end, and tell the coordinator."""
        machine = self._machine
        machine.begin_abort()
        if self._adding is not None:
            self._adding.cancel()
            await asyncio.wait({self._adding})
        self._pump()
        await self._until_idle()
        if machine.phase is not Phase.ABORTING:
            return
        try:
            await self._tell_end(is_commit=False)
        except (ConnectionError, TimeoutError):
            machine.undecided()
        except KafkaError as error:
            if error.code.retriable:
                machine.undecided()
            elif error.code == ErrorCode.INVALID_TXN_STATE:  # nothing is open there
                machine.spend_epoch()
                machine.ended()
            else:
                machine.fail(max(remedy_of_request(error.code), Remedy.RESTART), error.code, error.message)

    async def _tell_end(self, *, is_commit: bool) -> None:
        machine, identity = self._machine, None
        if machine.is_known:
            identity = await self._coordinator.end(
                self._identity, is_commit=is_commit, is_implicit=machine.is_implicit
            )
        if machine.phase is not Phase.FATAL_ERROR and machine.ended(identity):
            self._accumulator.restart(self._identity, is_refused_unknown=machine.is_implicit)

    async def _until_idle(self) -> None:
        while not self._is_idle and self._machine.phase is not Phase.FATAL_ERROR:
            self._idle.clear()
            await self._idle.wait()

    @property
    def _is_idle(self) -> bool:
        return self._accumulator.is_idle and not self._offsets_under_way

    def _notice_idle(self) -> None:
        if self._is_idle or self._machine.phase is Phase.FATAL_ERROR:
            self._idle.set()
