"""What the transaction coordinator is asked: requests of producers and brokers in the coordinator's own words,
and what the shell tells it.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.errors import ErrorCode
from ottla.model import NO_PRODUCER_ID, TopicPartition
from ottla.transaction.metadata import NO_PRODUCER_EPOCH


class Context(NamedTuple):
    """The circumstances of a command.

    `finalized_version` is the cluster's level of `transaction.version`. `new_producer_id` is an id that nobody
    has, or None if the shell has not asked for one yet; a command about several transactional ids takes
    `more_producer_ids` as well.
    """

    now_ms: int
    finalized_version: int
    new_producer_id: int | None = None
    more_producer_ids: tuple[int, ...] = ()


class InitProducer(NamedTuple):
    """A producer takes a transactional id over, or goes on after an error (then it names its id and epoch).

    A producer with two-phase commit has transactions without a timeout. With `keeps_prepared`, an open transaction
    stays open for the producer to end it; the answer is then TransactionKept.
    """

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    is_two_phase: bool = False
    keeps_prepared: bool = False


class AddPartitions(NamedTuple):
    """Partitions join the transaction of a producer. Answered with an error code."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    transaction_version: int


class VerifyPartitions(NamedTuple):
    """Whether partitions are in the transaction of a producer. Answered with an error code for each."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


class EndTransaction(NamedTuple):
    """A producer commits or aborts."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    transaction_version: int


class CommitTogether(NamedTuple):
    """The transactions of several transactional ids are committed by one decision. Answered with GroupAnswer."""

    transactions: tuple[EndTransaction, ...]


class AbortTimedOut(NamedTuple):
    """A transaction took longer than its timeout. Not carried out if the id has gone on meanwhile.

    With `is_forced` it does not matter how long it took: a test has its timeout over now.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_forced: bool = False


class MarkersWritten(NamedTuple):
    """Partitions have the marker of a transaction that is being ended, or are gone for ever."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


class ExpireIds(NamedTuple):
    """Look for transactional ids that were not used for too long."""


class ProducerAnswer(NamedTuple):
    """The answer to InitProducer and EndTransaction: an error, or the producer id and epoch to go on with."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class TransactionKept(NamedTuple):
    """The answer to InitProducer over a transaction that is kept: the producer id and epoch to end it with, and
    those under which it was written.
    """

    error: ErrorCode
    producer_id: int
    producer_epoch: int
    ongoing_producer_id: int
    ongoing_producer_epoch: int


class GroupAnswer(NamedTuple):
    """The answer to CommitTogether: an error, and the transactional id for whose sake nothing was committed."""

    error: ErrorCode
    refused_id: str = ""
