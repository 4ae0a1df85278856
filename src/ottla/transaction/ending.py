"""The end of a transaction: EndTxn, and aborts by the coordinator.

The outcome is decided by one record (PrepareCommit, PrepareAbort). Then the markers are sent, and a second
record (CompleteCommit, CompleteAbort) says that all partitions have them. A transaction without partitions is
complete at once.

Before transactions of version 2 the producer keeps its epoch, so an EndTxn that comes late may end a later
transaction. With version 2 (KIP-890) the end of a transaction is the end of its epoch, and the answer has the
next one. A retry names the epoch before:

                     commit                         abort
    state            retry        current epoch     retry        current epoch
    Empty            fenced       48                fenced       aborted
    Ongoing          fenced       committed         fenced       aborted
    Prepare…         ask again    ask again         ask again    ask again
    CompleteCommit   answered     48                48           aborted
    CompleteAbort    48           48                answered     aborted

48 is INVALID_TXN_STATE, "ask again" CONCURRENT_TRANSACTIONS: the producer may have its next identity already, so
its identity is not looked at while markers are missing. An abort of nothing costs an epoch: the producer
may have written to a partition without knowing whether the records arrived, and nobody else is to write there
under the same epoch.

A transaction that is kept (two-phase commit) is ended by its holder: Ongoing in the table above, with the holder's
epoch as the current one. It needs version 2, as the holder is told its next identity.
"""

from __future__ import annotations

from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_PRODUCER_ID
from ottla.transaction.commands import AbortTimedOut, Context, EndTransaction, ProducerAnswer
from ottla.transaction.decision import Decision, Markers, NeedsProducerIdError, markers_of, record_of
from ottla.transaction.metadata import (
    EPOCH_PER_TRANSACTION,
    LAST_EPOCH,
    NO_PRODUCER_EPOCH,
    ORIGINAL,
    TransactionEvent,
    TransactionMetadata,
    TransactionState,
)

_OUTCOMES = {
    TransactionState.PREPARE_COMMIT: True,
    TransactionState.COMPLETE_COMMIT: True,
    TransactionState.PREPARE_ABORT: False,
    TransactionState.COMPLETE_ABORT: False,
}


def end_transaction(
    metadata: TransactionMetadata | None, command: EndTransaction, context: Context
) -> Decision:
    """Commit or abort, as the producer asks."""
    if metadata is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if command.transaction_version < EPOCH_PER_TRANSACTION:
        return _end_of_version_1(metadata, command, context)
    return _end_of_version_2(metadata, command, context)


def _end_of_version_1(metadata: TransactionMetadata, command: EndTransaction, context: Context) -> Decision:
    holder_id, holder_epoch = metadata.holder
    if holder_id != command.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if holder_epoch != command.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if metadata.is_kept:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    if metadata.state is TransactionState.ONGOING:
        decided = metadata.moved(_event(command.is_commit), context.now_ms, transaction_version=ORIGINAL)
        return _decided(decided, context)._replace(response=ProducerAnswer(ErrorCode.NONE))
    _check_outcome(metadata, command.is_commit)
    return Decision((), ProducerAnswer(ErrorCode.NONE))


def _end_of_version_2(metadata: TransactionMetadata, command: EndTransaction, context: Context) -> Decision:
    if metadata.is_ending:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    is_retry = _is_retry(metadata, command)
    holder_id, holder_epoch = metadata.holder
    if holder_id != command.producer_id and not is_retry:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if is_retry and metadata.state in _OUTCOMES:
        _check_outcome(metadata, command.is_commit)
        identity = ProducerAnswer(ErrorCode.NONE, metadata.producer_id, metadata.producer_epoch)
        return Decision((), identity)
    if holder_epoch != command.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if command.is_commit and metadata.state is not TransactionState.ONGOING:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    return _end_with_next_epoch(metadata, command.is_commit, context)


def _is_retry(metadata: TransactionMetadata, command: EndTransaction) -> bool:
    """Whether the producer was given the current identity at the end of the transaction that it names."""
    if metadata.transaction_version < EPOCH_PER_TRANSACTION:
        return False
    if command.producer_id == metadata.producer_id:
        return command.producer_epoch + 1 == metadata.producer_epoch
    is_last = command.producer_epoch == LAST_EPOCH - 1 and metadata.producer_epoch == 0
    return command.producer_id == metadata.previous_producer_id and is_last


def _check_outcome(metadata: TransactionMetadata, is_commit: bool) -> None:
    """Raise KafkaError unless the transaction ended, completely, in the same way."""
    if _OUTCOMES.get(metadata.state) is not is_commit:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    if metadata.is_ending:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)


def abort_timed_out(
    metadata: TransactionMetadata | None, command: AbortTimedOut, context: Context
) -> Decision:
    """Abort a transaction that took too long, and fence its producer.

    The producer may have ended that transaction, and begun another, since somebody looked at the time.
    """
    is_open = metadata is not None and metadata.state is TransactionState.ONGOING
    if metadata is None or not is_open or not _is_same(metadata, command):
        return Decision((), ErrorCode.NONE)
    if metadata.started_ms + metadata.timeout_ms >= context.now_ms and not command.is_forced:
        return Decision((), ErrorCode.NONE)
    aborted = abort_and_fence(metadata, context)
    note = f"the transaction of '{metadata.transactional_id}' is aborted after {metadata.timeout_ms} ms"
    return aborted._replace(response=ErrorCode.NONE, notes=[*aborted.notes, note])


def _is_same(metadata: TransactionMetadata, command: AbortTimedOut) -> bool:
    identity = command.producer_id, command.producer_epoch
    return (metadata.producer_id, metadata.producer_epoch) == identity


def abort_and_fence(metadata: TransactionMetadata, context: Context) -> Decision:
    """Abort an open transaction under an epoch that its producer does not have."""
    if context.finalized_version >= EPOCH_PER_TRANSACTION:
        return _end_with_next_epoch(metadata, is_commit=False, context=context)
    aborted = metadata.moved(
        TransactionEvent.ABORT,
        context.now_ms,
        producer_epoch=_marker_epoch(metadata),
        last_producer_epoch=NO_PRODUCER_EPOCH,
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_PRODUCER_EPOCH,
        transaction_version=ORIGINAL,
    )
    return _decided(aborted, context)


def _end_with_next_epoch(metadata: TransactionMetadata, is_commit: bool, context: Context) -> Decision:
    holder_id, holder_epoch = metadata.holder
    next_producer_id, next_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
    if metadata.is_exhausted:
        if context.new_producer_id is None:
            raise NeedsProducerIdError
        next_producer_id = context.new_producer_id
    elif holder_id != metadata.producer_id:
        next_producer_id, next_epoch = holder_id, holder_epoch + 1
    is_open = metadata.state is TransactionState.ONGOING
    decided = metadata.moved(
        _event(is_commit),
        context.now_ms,
        # The markers have this epoch, so that no record of the ended transaction can come after them.
        producer_epoch=_marker_epoch(metadata),
        last_producer_epoch=holder_epoch,
        next_producer_id=next_producer_id,
        next_producer_epoch=next_epoch,
        partitions=metadata.partitions if is_open else frozenset(),
        started_ms=metadata.started_ms if is_open else context.now_ms,
        transaction_version=EPOCH_PER_TRANSACTION,
    )
    return _decided(decided, context)


def _marker_epoch(metadata: TransactionMetadata) -> int:
    """An epoch of the transaction's producer id that no producer has had."""
    holder_id, holder_epoch = metadata.holder
    last = holder_epoch if holder_id == metadata.producer_id else metadata.producer_epoch
    return min(last + 1, LAST_EPOCH)


def _decided(decided: TransactionMetadata, context: Context) -> Decision:
    """The outcome is written; without partitions, so is the completion."""
    completed = complete(decided, context.now_ms)
    written = [decided] if decided.partitions else [decided, completed]
    markers: list[Markers] = [markers_of(decided, decided.partitions)] if decided.partitions else []
    # The producer goes on with the identity that it has when all is complete.
    identity = ProducerAnswer(ErrorCode.NONE, completed.producer_id, completed.producer_epoch)
    return Decision([record_of(one, context.finalized_version) for one in written], identity, markers)


def complete(metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """All partitions have the marker."""
    has_next = metadata.next_producer_id != NO_PRODUCER_ID
    return metadata.moved(
        TransactionEvent.COMPLETE,
        now_ms,
        producer_id=metadata.next_producer_id if has_next else metadata.producer_id,
        producer_epoch=max(metadata.next_producer_epoch, 0) if has_next else metadata.producer_epoch,
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_PRODUCER_EPOCH,
        partitions=frozenset(),
    )


def _event(is_commit: bool) -> TransactionEvent:
    return TransactionEvent.COMMIT if is_commit else TransactionEvent.ABORT
