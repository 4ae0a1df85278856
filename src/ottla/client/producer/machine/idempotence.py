"""How a producer's batches are written once and in order, whatever happens on the way (KIP-98, KIP-360).

Each batch of a partition carries the producer's id, an epoch and the sequence number of its first record. The
broker takes only the next number, answers a batch it already has with success, and refuses a gap; so a batch
may be sent again, with the same numbers, as often as needed.

    answer                                what to do
    no error, DUPLICATE_SEQUENCE_NUMBER   DONE
    OUT_OF_ORDER_SEQUENCE_NUMBER          RETRY if an earlier batch is not done: both were refused;
                                          else RESET: the broker lacks a batch that will never come
    UNKNOWN_PRODUCER_ID                   RESET: the broker has forgotten us
    INVALID_PRODUCER_EPOCH and its kin    RENEW: the id is spoiled, another one is needed
    MESSAGE_TOO_LARGE, several records    SPLIT
    an error that passes by itself        RETRY
    any other                             FAIL; later batches have a gap before them: the partition resets

A reset goes to the next epoch and counts from 0. It waits until no batch of the partition is under way,
because only then it is known which batches were written. An old copy of a batch that is still somewhere in
the network has the old epoch: once the broker has seen the new one it refuses the copy. (Between the refusal
that caused the reset and the first batch of the new epoch, a copy from a dead connection could still arrive,
as with every Kafka client; it would have to outlive a pause of `retry_backoff_ms`.)

A transactional producer has its epoch from its coordinator (see `transaction`): where others RESET or RENEW,
it fails the batch, and with it the transaction. The parts of a batch that is SPLIT keep its sequence numbers.

Each partition counts epochs for itself; brokers compare them per partition. A producer id has 2^15 epochs,
then a new id is asked for.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple

from ottla.client.producer.machine.batch import ProducerBatch
from ottla.errors import ErrorCode
from ottla.model import NO_SEQUENCE

LAST_EPOCH: Final = (1 << 15) - 1
SEQUENCE_MASK: Final = (1 << 31) - 1
# Of a producer's batches a broker remembers five, so it knows a batch again only if no more than four came
# after it.
BATCHES_REMEMBERED: Final = 5

_WRITTEN: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
_SPOILED: Final = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
# These say nothing about whether the batch was written.
UNCERTAIN: Final = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.KAFKA_STORAGE_ERROR,
)


class ProducerIdentity(NamedTuple):
    """The producer id and epoch that InitProducerId grants."""

    producer_id: int
    epoch: int


class Verdict(Enum):
    """How a batch is treated after an answer; the table is in the module's docstring."""

    DONE = auto()
    RETRY = auto()
    RESET = auto()
    RENEW = auto()
    SPLIT = auto()
    FAIL = auto()


def judge(error: ErrorCode, *, is_idempotent: bool, is_first: bool, records_count: int) -> Verdict:
    """`is_first`: no earlier batch of the partition is still to be answered."""
    if error in _WRITTEN:
        return Verdict.DONE
    if error in _TOO_LARGE and records_count > 1:
        return Verdict.SPLIT
    if is_idempotent:
        if error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return Verdict.RESET if is_first else Verdict.RETRY
        if error == ErrorCode.UNKNOWN_PRODUCER_ID:
            return Verdict.RESET
        if error in _SPOILED:
            return Verdict.RENEW
    return Verdict.RETRY if error.retriable else Verdict.FAIL


class PartitionSequence:
    """The producer's numbers on one partition. Without an identity, nothing can be sent."""

    __slots__ = ("_spent_id", "batches_count", "epoch", "next_sequence", "producer_id")

    def __init__(self) -> None:
        self.producer_id = self.epoch = self._spent_id = -1
        self.next_sequence = self.batches_count = 0

    @property
    def has_identity(self) -> bool:
        return self.producer_id >= 0

    def has_spent(self, identity: ProducerIdentity) -> bool:
        """Whether the partition had this id, and cannot use it any more."""
        return identity.producer_id == self._spent_id

    def adopt(self, identity: ProducerIdentity) -> None:
        """Begin with a producer id that this partition has not seen."""
        self.producer_id, self.epoch = identity
        self.next_sequence = 0

    def assign(self, batch: ProducerBatch) -> None:
        """Give a batch its numbers, unless it has them from an earlier attempt."""
        if batch.first_sequence == NO_SEQUENCE:
            batch.number(self.producer_id, self.epoch, self.next_sequence)
            self.next_sequence = (batch.last_sequence + 1) & SEQUENCE_MASK
            batch.place = self.batches_count
            self.batches_count += 1

    def reset(self) -> None:
        """Count from 0 in the next epoch; after the last one there is no identity any more."""
        self.next_sequence = 0
        self.epoch += 1
        if self.epoch > LAST_EPOCH:
            self.forget()

    def forget(self) -> None:
        """The id is of no use any more."""
        if self.has_identity:
            self._spent_id = self.producer_id
        self.producer_id = self.epoch = -1
        self.next_sequence = 0
