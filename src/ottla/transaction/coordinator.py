"""The transaction coordinator: a machine that decides on the transactional ids of one partition of
`__transaction_state`.

    command              records
    InitProducer         Empty; if a transaction is open, PrepareAbort or (kept) Ongoing
    AddPartitions        Ongoing, unless all are in the transaction already
    EndTransaction       PrepareCommit or PrepareAbort
    CommitTogether       PrepareCommit of several ids, in one batch
    AbortTimedOut        PrepareAbort
    MarkersWritten       CompleteCommit or CompleteAbort, when no partition lacks the marker
    ExpireIds            tombstones
    VerifyPartitions     none

All of a transactional id is in the log, and changed by `replay` alone, but for one thing: the partitions that
have the marker of a transaction that is being ended. The next coordinator does not know them, and sends all
markers again (`loaded`); a partition takes no harm from a second marker.

How to run it: `replay` the log, then `loaded`. For every decision: append its records, `replay` them, and give
its answer and send its markers when the records are committed. If they cannot be appended, refuse: what was
decided did not happen. The records of an atomic decision are appended as one batch. Where a command needs
producer ids, NeedsProducerIdError says so: repeat it with as many.
Call `timed_out` now and then, and carry out what it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from ottla.config import TransactionConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.codec import DecodeError
from ottla.protocol.messages.transaction_admin import (
    DescribedTransactionState,
    ListedTransactionState,
    ListTransactionsRequest,
)
from ottla.transaction.adding import add_partitions, verify_partitions
from ottla.transaction.commands import (
    AbortTimedOut,
    AddPartitions,
    CommitTogether,
    Context,
    EndTransaction,
    ExpireIds,
    InitProducer,
    MarkersWritten,
    ProducerAnswer,
    VerifyPartitions,
)
from ottla.transaction.decision import Decision, Markers, markers_of, record_of
from ottla.transaction.ending import abort_timed_out, complete, end_transaction
from ottla.transaction.group_commit import commit_together
from ottla.transaction.initialisation import init_producer
from ottla.transaction.listing import described, listed
from ottla.transaction.metadata import (
    EPOCH_PER_TRANSACTION,
    NO_TIMEOUT_MS,
    TransactionMetadata,
    TransactionState,
    from_value,
)
from ottla.transaction.records import decode_record, transaction_record

# Transactional ids that are forgotten in one run: some milliseconds, so that producers do not have to wait.
_EXPIRED_AT_ONCE: Final = 1000


class TransactionCoordinator:
    """The machine."""

    def __init__(self, settings: TransactionConfig) -> None:
        self._settings = settings
        self._transactions: dict[str, TransactionMetadata] = {}
        # By transactional id, of transactions that are being ended: the partitions that lack the marker.
        self._unmarked: dict[str, frozenset[TopicPartition]] = {}
        self._decide: dict[type[Any], Callable[[Any, Context], Decision]] = {
            InitProducer: self._init_producer,
            AddPartitions: self._add_partitions,
            VerifyPartitions: self._verify_partitions,
            EndTransaction: self._end_transaction,
            CommitTogether: lambda command, context: commit_together(self._transactions, command, context),
            AbortTimedOut: lambda command, context: abort_timed_out(
                self._transactions.get(command.transactional_id), command, context
            ),
            MarkersWritten: self._markers_written,
            ExpireIds: self._expire_ids,
        }

    @property
    def transactions(self) -> Mapping[str, TransactionMetadata]:
        """The transactional ids, to look at."""
        return MappingProxyType(self._transactions)

    def command(self, command: Any, context: Context) -> Decision:
        """Decide on a command. Raises NeedsProducerIdError."""
        return self._decide[type(command)](command, context)

    # The log

    def replay(self, key: bytes | memoryview | None, value: bytes | memoryview | None) -> None:
        """Take over a record of the log. DecodeError if it is damaged."""
        decoded = decode_record(key, value)
        if decoded is None:
            return
        transactional_id, content = decoded
        self._unmarked.pop(transactional_id, None)
        if content is None:
            self._transactions.pop(transactional_id, None)
            return
        try:
            metadata = self._transactions[transactional_id] = from_value(transactional_id, content)
        except ValueError as problem:
            raise DecodeError(str(problem)) from None
        if metadata.state is TransactionState.DEAD:
            del self._transactions[transactional_id]
        elif metadata.is_ending:
            self._unmarked[transactional_id] = metadata.partitions

    def loaded(self) -> list[Markers]:
        """The log is replayed: the markers of all transactions whose end is decided, to be sent again."""
        return [
            markers_of(self._transactions[transactional_id], partitions)
            for transactional_id, partitions in self._unmarked.items()
        ]

    # Time

    def timed_out(self, now_ms: int) -> list[AbortTimedOut]:
        """The transactions that are open for longer than their timeout, counted from the first partition.

        Those of producers with two-phase commit have none.
        """
        return [
            AbortTimedOut(one.transactional_id, one.producer_id, one.producer_epoch)
            for one in self._transactions.values()
            if one.state is TransactionState.ONGOING
            and one.timeout_ms != NO_TIMEOUT_MS
            and one.started_ms + one.timeout_ms < now_ms
        ]

    # Questions

    def describe(self, transactional_id: str) -> DescribedTransactionState:
        """One transactional id."""
        if not transactional_id:
            return DescribedTransactionState(ErrorCode.INVALID_REQUEST)
        metadata = self._transactions.get(transactional_id)
        if metadata is None:
            return DescribedTransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
        return described(metadata, self._unmarked.get(transactional_id, metadata.partitions))

    def list(self, request: ListTransactionsRequest, now_ms: int) -> list[ListedTransactionState]:
        """The transactional ids that pass the request's filters."""
        return listed(self._transactions.values(), request, now_ms)

    # Commands

    def _init_producer(self, command: InitProducer, context: Context) -> Decision:
        try:
            self._check(command.transactional_id)
            command = self._allowed(command, context)
            return init_producer(self._transactions.get(command.transactional_id), command, context)
        except KafkaError as error:
            return Decision((), ProducerAnswer(error.code))

    def _allowed(self, command: InitProducer, context: Context) -> InitProducer:
        """The command with its timeout. Raises KafkaError for what the settings do not allow."""
        wants_two_phase = command.is_two_phase or command.keeps_prepared
        if wants_two_phase and context.finalized_version < EPOCH_PER_TRANSACTION:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        if command.is_two_phase:
            if not self._settings.two_phase_commit_enable:
                raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            return command._replace(timeout_ms=NO_TIMEOUT_MS)
        if not 0 < command.timeout_ms <= self._settings.max_timeout_ms:
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        return command

    def _end_transaction(self, command: EndTransaction, context: Context) -> Decision:
        try:
            self._check(command.transactional_id)
            return end_transaction(self._transactions.get(command.transactional_id), command, context)
        except KafkaError as error:
            return Decision((), ProducerAnswer(error.code))

    def _add_partitions(self, command: AddPartitions, context: Context) -> Decision:
        try:
            self._check(command.transactional_id)
            return add_partitions(self._transactions.get(command.transactional_id), command, context)
        except KafkaError as error:
            return Decision((), error.code)

    def _verify_partitions(self, command: VerifyPartitions, context: Context) -> Decision:
        try:
            self._check(command.transactional_id)
            return Decision((), verify_partitions(self._transactions.get(command.transactional_id), command))
        except KafkaError as error:
            return Decision((), dict.fromkeys(command.partitions, error.code))

    @staticmethod
    def _check(transactional_id: str) -> None:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)

    def _markers_written(self, command: MarkersWritten, context: Context) -> Decision:
        metadata = self._transactions.get(command.transactional_id)
        identity = command.producer_id, command.producer_epoch
        is_same = metadata is not None and (metadata.producer_id, metadata.producer_epoch) == identity
        if metadata is None or not is_same or not metadata.is_ending:
            return Decision((), ErrorCode.NONE)
        left = self._unmarked[command.transactional_id] - command.partitions
        self._unmarked[command.transactional_id] = left
        if left:
            return Decision((), ErrorCode.NONE)
        completed = complete(metadata, context.now_ms)
        return Decision([record_of(completed, context.finalized_version)], ErrorCode.NONE)

    def _expire_ids(self, _: ExpireIds, context: Context) -> Decision:
        oldest_ms = context.now_ms - self._settings.id_expiration_ms
        expired = [
            transaction_record(one.transactional_id, None)
            for one in self._transactions.values()
            if one.is_at_rest and one.updated_ms <= oldest_ms
        ]
        return Decision(expired[:_EXPIRED_AT_ONCE], ErrorCode.NONE)
