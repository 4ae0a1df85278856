"""What the transaction coordinator decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ottla.model import TopicPartition
from ottla.transaction.metadata import FLEXIBLE_RECORDS, TransactionMetadata
from ottla.transaction.records import TransactionRecord, transaction_record


class Markers(NamedTuple):
    """The markers that end one transaction, and the partitions that lack them."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    transaction_version: int
    partitions: frozenset[TopicPartition]


class Decision(NamedTuple):
    """Records to append and replay, the answer to give once they are committed, and the markers to send from
    then on. `notes` are sentences for a log. Records of an atomic decision are in one batch of the log: after a
    crash all of them are there, or none.
    """

    records: Sequence[TransactionRecord]
    response: Any
    markers: Sequence[Markers] = ()
    notes: Sequence[str] = ()
    is_atomic: bool = False


class NeedsProducerIdError(Exception):
    """A command cannot be decided without new producer ids: ask again with `count` of them."""

    def __init__(self, count: int = 1) -> None:
        super().__init__(count)
        self.count = count


def markers_of(metadata: TransactionMetadata, partitions: frozenset[TopicPartition]) -> Markers:
    """The markers of a transaction that is being ended, for these partitions."""
    return Markers(
        metadata.transactional_id,
        metadata.producer_id,
        metadata.producer_epoch,
        metadata.is_commit,
        metadata.transaction_version,
        partitions,
    )


def record_of(metadata: TransactionMetadata, finalized_version: int) -> TransactionRecord:
    """The record of a transactional id, in the version that the whole cluster can read."""
    return transaction_record(
        metadata.transactional_id, metadata.value(), min(finalized_version, FLEXIBLE_RECORDS)
    )
