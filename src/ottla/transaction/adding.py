"""Partitions that join a transaction: AddPartitionsToTxn, AddOffsetsToTxn, and the questions of brokers.

A broker asks for a producer that wrote to a partition: with transactions of version 2 the partition joins by
that, before it is only verified that the producer added it (KIP-890). A partition that is in the transaction
already needs no record.
"""

from __future__ import annotations

from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.transaction.commands import AddPartitions, Context, VerifyPartitions
from ottla.transaction.decision import Decision, record_of
from ottla.transaction.metadata import TransactionEvent, TransactionMetadata, TransactionState


def add_partitions(
    metadata: TransactionMetadata | None, command: AddPartitions, context: Context
) -> Decision:
    """Have partitions join; the first ones begin a transaction, whose timeout counts from here."""
    metadata = _identified(metadata, command)
    is_ongoing = metadata.state is TransactionState.ONGOING
    if is_ongoing and command.partitions <= metadata.partitions:
        return Decision((), ErrorCode.NONE)
    joined = metadata.moved(
        TransactionEvent.ADD,
        context.now_ms,
        partitions=metadata.partitions | command.partitions,
        started_ms=metadata.started_ms if is_ongoing else context.now_ms,
        transaction_version=command.transaction_version,
    )
    return Decision([record_of(joined, context.finalized_version)], ErrorCode.NONE)


def verify_partitions(
    metadata: TransactionMetadata | None, command: VerifyPartitions
) -> dict[TopicPartition, ErrorCode]:
    """NONE for a partition that is in the transaction; otherwise the producer has to abort."""
    metadata = _identified(metadata, command)
    return {
        partition: ErrorCode.NONE if partition in metadata.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for partition in command.partitions
    }


def _identified(
    metadata: TransactionMetadata | None, command: AddPartitions | VerifyPartitions
) -> TransactionMetadata:
    if metadata is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    holder_id, holder_epoch = metadata.holder
    is_older = holder_id == command.producer_id and command.producer_epoch < holder_epoch
    if metadata.is_ending and not is_older:
        # Before the identity is looked at: it may be the one that the producer has after this transaction.
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if holder_id != command.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if holder_epoch != command.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if metadata.is_kept:
        # Nothing joins a transaction that its producer has prepared.
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    return metadata
