"""A transactional id: its producer, its epochs, and the state of its transaction.

A value of this class never changes: each step makes the next one, which is written to the log, and which
`replay` puts in the place of the old one. Epochs end at 32766, the last one that a producer may have: 32767 is
left for fencing. A producer id whose epochs are used up is replaced by a new one.

A transaction is *kept* if another producer has taken the id over without aborting it (two-phase commit, KIP-939).
The new producer has an identity of its own, the next one, and may only commit or abort; the transaction keeps the
identity under which its records were written until it is ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from ottla.model import NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition
from ottla.transaction.records import PartitionsSchema, TransactionLogValue

NO_PRODUCER_EPOCH: Final = -1
LAST_EPOCH: Final = 2**15 - 1
# The timeout of a producer with two-phase commit: its transactions are open until somebody ends them.
NO_TIMEOUT_MS: Final = 2**31 - 1

# The levels of the feature `transaction.version`.
ORIGINAL: Final = 0
FLEXIBLE_RECORDS: Final = 1
EPOCH_PER_TRANSACTION: Final = 2  # KIP-890: every transaction has an epoch of its own


class TransactionState(Enum):
    """Kafka's names, as DescribeTransactions and ListTransactions give them, in the order of Kafka's numbers."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


_BY_NUMBER: Final = tuple(TransactionState)

STATE_MEANINGS: Final[Mapping[TransactionState, str]] = {
    TransactionState.EMPTY: "a producer has the id, and has not begun a transaction",
    TransactionState.ONGOING: "a transaction is open in some partitions",
    TransactionState.PREPARE_COMMIT: "the transaction is committed, and not all partitions have the marker yet",
    TransactionState.PREPARE_ABORT: "the transaction is aborted, and not all partitions have the marker yet",
    TransactionState.COMPLETE_COMMIT: "the last transaction was committed in all its partitions",
    TransactionState.COMPLETE_ABORT: "the last transaction was aborted in all its partitions",
    TransactionState.DEAD: "the id is forgotten",
}


class TransactionEvent(Enum):
    """The reasons for which a transactional id goes from one state to another."""

    INITIALISE = "a producer asks for the id's producer id and epoch"
    ADD = "a partition, or a group's offsets, join the transaction"
    KEEP = "another producer takes the id over, and keeps the transaction (two-phase commit)"
    COMMIT = "the producer commits"
    ABORT = "the producer aborts, its transaction takes too long, or another producer takes the id over"
    COMPLETE = "all partitions have the marker"
    EXPIRE = "the id was not used for too long"


_E, _S = TransactionEvent, TransactionState
_AT_REST: Final[Mapping[TransactionEvent, TransactionState]] = {
    _E.INITIALISE: _S.EMPTY,
    _E.ADD: _S.ONGOING,
    _E.ABORT: _S.PREPARE_ABORT,  # with epochs per transaction: the producer may have written without knowing
    _E.EXPIRE: _S.DEAD,
}
TRANSITIONS: Final[Mapping[TransactionState, Mapping[TransactionEvent, TransactionState]]] = {
    _S.EMPTY: _AT_REST,
    _S.ONGOING: {
        _E.ADD: _S.ONGOING,
        _E.KEEP: _S.ONGOING,
        _E.COMMIT: _S.PREPARE_COMMIT,
        _E.ABORT: _S.PREPARE_ABORT,
    },
    _S.PREPARE_COMMIT: {_E.COMPLETE: _S.COMPLETE_COMMIT},
    _S.PREPARE_ABORT: {_E.COMPLETE: _S.COMPLETE_ABORT},
    _S.COMPLETE_COMMIT: _AT_REST,
    _S.COMPLETE_ABORT: _AT_REST,
    _S.DEAD: {},
}


@dataclass(frozen=True, slots=True)
class TransactionMetadata:
    """What the log knows of a transactional id.

    `last_producer_epoch` is the epoch before the last one that InitProducerId or EndTxn gave out, if the same
    producer asks again. `next_producer_id` is the id that the producer was given at the end of a transaction
    that used the last epoch up, until all partitions have the marker, with `next_producer_epoch`, or 0. Of a
    transaction that is kept, both are the identity of the producer that may end it.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    updated_ms: int = NO_TIMESTAMP
    started_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    transaction_version: int = ORIGINAL

    @property
    def is_kept(self) -> bool:
        """Whether the open transaction belongs to a producer that did not write it, and may only end it."""
        return self.state is TransactionState.ONGOING and self.next_producer_epoch != NO_PRODUCER_EPOCH

    @property
    def holder(self) -> tuple[int, int]:
        """The producer id and epoch of the producer that speaks for the transactional id."""
        if self.is_kept:
            return self.next_producer_id, self.next_producer_epoch
        return self.producer_id, self.producer_epoch

    @property
    def is_exhausted(self) -> bool:
        """Whether no producer may have an epoch after that of the holder."""
        return self.holder[1] >= LAST_EPOCH - 1

    @property
    def is_at_rest(self) -> bool:
        """Whether no transaction is open or being ended."""
        return TransactionEvent.INITIALISE in TRANSITIONS[self.state]

    @property
    def is_ending(self) -> bool:
        """Whether the outcome is decided, and markers are missing."""
        return TransactionEvent.COMPLETE in TRANSITIONS[self.state]

    @property
    def is_commit(self) -> bool:
        """The outcome of a transaction that is being ended."""
        return self.state is TransactionState.PREPARE_COMMIT

    def moved(self, event: TransactionEvent, now_ms: int, **changes: Any) -> TransactionMetadata:
        """The same id after `event`; KeyError for what cannot happen."""
        return replace(
            self,
            state=TRANSITIONS[self.state][event],
            previous_producer_id=self.producer_id,
            updated_ms=now_ms,
            **changes,
        )

    def value(self) -> TransactionLogValue:
        """What is written to the log."""
        is_empty = self.state is TransactionState.EMPTY
        return TransactionLogValue(
            producer_id=self.producer_id,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=self.next_producer_id,
            next_producer_epoch=self.next_producer_epoch,
            producer_epoch=self.producer_epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=_BY_NUMBER.index(self.state),
            transaction_partitions=None if is_empty else _by_topic(self.partitions),
            transaction_last_update_timestamp_ms=self.updated_ms,
            transaction_start_timestamp_ms=self.started_ms,
            client_transaction_version=self.transaction_version,
            ottla_last_producer_epoch=self.last_producer_epoch,
        )


def from_value(transactional_id: str, value: TransactionLogValue) -> TransactionMetadata:
    """What a record of the log says; ValueError if its state has no meaning."""
    if not 0 <= value.transaction_status < len(_BY_NUMBER):
        raise ValueError(f"{value.transaction_status} is not the number of a transaction's state")
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=_BY_NUMBER[value.transaction_status],
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        updated_ms=value.transaction_last_update_timestamp_ms,
        started_ms=value.transaction_start_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        next_producer_epoch=value.next_producer_epoch,
        last_producer_epoch=value.ottla_last_producer_epoch,
        transaction_version=value.client_transaction_version,
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> list[PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic, numbers) for topic, numbers in topics.items()]
