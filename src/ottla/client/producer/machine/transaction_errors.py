"""How a transaction fails, and the exception that says what an application can do about it (KIP-1050).

    remedy     exception                    the application
    ABORT      TransactionAbortedError      runs the transaction again: nothing of it will be read
    UNKNOWN    TransactionUncertainError    finds out, or runs it again if that does no harm
    RESTART    ProducerFencedError          makes another producer, if it is still the one to write
    GIVE_UP    TransactionError             needs another setting, permission or broker

Errors that pass by themselves are not among them: the producer repeats those requests.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from ottla.errors import ErrorCode, KafkaError


class TransactionError(KafkaError):
    """The transaction failed for a reason that stays: a setting, a permission, a broker that is too old."""


class TransactionAbortedError(TransactionError):
    """The transaction was aborted: none of its records and offsets will be read. It can be run again."""


class TransactionUncertainError(TransactionError):
    """The answer to the commit was lost: the transaction was committed as a whole, or not at all.

    The producer has the coordinator decide when it begins the next transaction.
    """


class ProducerFencedError(TransactionError):
    """The producer's epoch is out of date, and the producer cannot write any more.

    Another producer has the same transactional id, or a transaction took longer than
    `transaction_timeout_ms` and was aborted by its coordinator. To go on, make another producer.
    """


class Remedy(IntEnum):
    """What a failure asks for. The higher number is the graver failure."""

    ABORT = 1
    UNKNOWN = 2
    RESTART = 3
    GIVE_UP = 4


_EXCEPTIONS: Final = {
    Remedy.ABORT: TransactionAbortedError,
    Remedy.UNKNOWN: TransactionUncertainError,
    Remedy.RESTART: ProducerFencedError,
    Remedy.GIVE_UP: TransactionError,
}
_WHY_FENCED: Final = (
    "another producer has the same transactional_id, or a transaction took longer than transaction_timeout_ms"
)
# The producer id and epoch are not those of the transactional id any more.
_FENCED: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
# Errors of one transaction: the next one may succeed. The rest of the coordinator's errors stay.
_OF_ONE_TRANSACTION: Final = frozenset(
    {
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)
# Errors of a record that no other transaction of this producer would escape.
_OF_THE_PRODUCER: Final = frozenset(
    {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


class TransactionFailure(NamedTuple):
    """The gravest failure of a transaction so far."""

    remedy: Remedy
    code: ErrorCode
    message: str

    @property
    def error(self) -> TransactionError:
        """The exception for the application."""
        message = self.message
        if self.remedy is Remedy.RESTART:
            message = f"{message.rstrip('.')} ({_WHY_FENCED})"
        return _EXCEPTIONS[self.remedy](self.code, message)


def remedy_of_request(code: ErrorCode) -> Remedy:
    """What the coordinator's refusal of a request asks for."""
    if code in _FENCED:
        return Remedy.RESTART
    return Remedy.ABORT if code.retriable or code in _OF_ONE_TRANSACTION else Remedy.GIVE_UP


def remedy_of_record(code: ErrorCode) -> Remedy:
    """What a record that was not delivered asks for.

    An epoch that a partition's leader finds out of date may be that of an earlier transaction of ours: the
    coordinator decides, when the transaction is aborted.
    """
    if code in _FENCED and code != ErrorCode.INVALID_PRODUCER_EPOCH:
        return Remedy.RESTART
    return Remedy.GIVE_UP if code in _OF_THE_PRODUCER else Remedy.ABORT
