"""InitProducerId of a transactional id: the producer is given a producer id and an epoch that fences all others.

    state             answer
    no such id        a new producer id, epoch 0
    at rest           the next epoch; with a new producer id if the epochs are used up
    Ongoing           the transaction is aborted under the next epoch; CONCURRENT_TRANSACTIONS, ask again
                      or kept, if the producer asks for that; the next epoch, to commit or abort it with
    Prepare…          CONCURRENT_TRANSACTIONS, ask again

A producer that names its producer id and epoch goes on after an error (KIP-360). Any other identity than the
current one is fenced, but for the one before: then the answer to the same question was lost, and is repeated.
Unlike in Kafka, a fenced producer does not abort the transaction of the one that fenced it.
"""

from __future__ import annotations

from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_PRODUCER_ID, NO_TIMESTAMP
from ottla.transaction.commands import Context, InitProducer, ProducerAnswer, TransactionKept
from ottla.transaction.decision import Decision, NeedsProducerIdError, record_of
from ottla.transaction.ending import abort_and_fence
from ottla.transaction.metadata import (
    LAST_EPOCH,
    NO_PRODUCER_EPOCH,
    TransactionEvent,
    TransactionMetadata,
)


def init_producer(metadata: TransactionMetadata | None, command: InitProducer, context: Context) -> Decision:
    """Give the id to a producer."""
    if metadata is None:
        first = TransactionMetadata(command.transactional_id, _new_id(context), 0, command.timeout_ms)
        return _given(first, command, context)
    if metadata.is_ending:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    is_known = command.producer_id != NO_PRODUCER_ID
    is_repeated = is_known and _is_repeated(metadata, command)
    is_current = (command.producer_id, command.producer_epoch) == metadata.holder
    if is_known and not is_current and not is_repeated:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if not metadata.is_at_rest and command.keeps_prepared:
        return _kept(metadata, command, context)
    if not metadata.is_at_rest:
        aborted = abort_and_fence(metadata, context)
        return aborted._replace(response=ProducerAnswer(ErrorCode.CONCURRENT_TRANSACTIONS))
    if is_repeated:
        return Decision((), _identity(metadata))
    last_epoch = metadata.producer_epoch if is_known else NO_PRODUCER_EPOCH
    if metadata.is_exhausted:
        changes = {"producer_id": _new_id(context), "producer_epoch": 0, "last_producer_epoch": last_epoch}
    else:
        changes = {"producer_epoch": metadata.producer_epoch + 1, "last_producer_epoch": last_epoch}
    return _given(metadata, command, context, **changes)


def _kept(metadata: TransactionMetadata, command: InitProducer, context: Context) -> Decision:
    """Leave a transaction open, under the next identity, which fences all producers before.

    The timeout of a transaction that is prepared is not shortened.
    """
    producer_id, epoch = metadata.holder
    next_id, next_epoch = (_new_id(context), 0) if metadata.is_exhausted else (producer_id, epoch + 1)
    kept = metadata.moved(
        TransactionEvent.KEEP,
        context.now_ms,
        next_producer_id=next_id,
        next_producer_epoch=next_epoch,
        last_producer_epoch=NO_PRODUCER_EPOCH,
        timeout_ms=max(metadata.timeout_ms, command.timeout_ms),
    )
    answer = TransactionKept(
        ErrorCode.NONE, next_id, next_epoch, metadata.producer_id, metadata.producer_epoch
    )
    note = f"the open transaction of '{kept.transactional_id}' is kept for producer id {next_id}, epoch {next_epoch}"
    return Decision([record_of(kept, context.finalized_version)], answer, notes=[note])


def _new_id(context: Context) -> int:
    if context.new_producer_id is None:
        raise NeedsProducerIdError
    return context.new_producer_id


def _is_repeated(metadata: TransactionMetadata, command: InitProducer) -> bool:
    """Whether the producer names the identity that the current one was given out for."""
    if command.producer_epoch != metadata.last_producer_epoch:
        return False
    if command.producer_id == metadata.producer_id:
        return True
    is_exhausted = command.producer_epoch >= LAST_EPOCH - 1
    return command.producer_id == metadata.previous_producer_id and is_exhausted


def _given(
    metadata: TransactionMetadata, command: InitProducer, context: Context, **changes: int
) -> Decision:
    given = metadata.moved(
        TransactionEvent.INITIALISE,
        context.now_ms,
        timeout_ms=command.timeout_ms,
        partitions=frozenset(),
        started_ms=NO_TIMESTAMP,
        **changes,
    )
    note = (
        f"transactional id '{given.transactional_id}' has producer id {given.producer_id}, "
        f"epoch {given.producer_epoch}"
    )
    return Decision([record_of(given, context.finalized_version)], _identity(given), notes=[note])


def _identity(metadata: TransactionMetadata) -> ProducerAnswer:
    return ProducerAnswer(ErrorCode.NONE, metadata.producer_id, metadata.producer_epoch)
