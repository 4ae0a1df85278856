"""Transactions of several transactional ids that are committed together, with the progress of their writer.

Ottla's own extension of EndTxn, announced as the feature `GROUP_COMMIT_FEATURE`. A broker that does not know the
extension refuses the request, as it names no transactional id of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.outcomes import error_of, outcome
from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_PRODUCER_ID, TopicPartition
from ottla.protocol.codec import first_version
from ottla.protocol.messages.api_versions import GROUP_COMMIT_FEATURE as GROUP_COMMIT_FEATURE
from ottla.protocol.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.transactions import (
    EndTxnRequest,
    EndTxnResponse,
    TransactionToEnd,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

# With these versions brokers add partitions by themselves, and every transaction has an epoch of its own.
END_SINCE: Final = first_version(EndTxnResponse, "producer_epoch")
COMMIT_OFFSETS_SINCE: Final = 5
# As late as can be written down: the progress of a writer must not be forgotten while the writer rests.
_FOR_EVER_MS: Final = 2**62
_WHY_REFUSED: Final = {
    ErrorCode.RECORD_LIST_TOO_LARGE: "the transactions do not fit into one batch of __transaction_state: write with "
    "fewer tasks, to fewer partitions, or raise max.message.bytes of that topic",
    ErrorCode.INVALID_REQUEST: "the coordinator does not commit transactions together, or has not all of them: "
    "__transaction_state has another number of partitions than when they began",
}


class Progress(NamedTuple):
    """How far a writer is: the number that its last commit stored, and whose number it is."""

    number: int
    owner: str


class MemberTransaction(NamedTuple):
    """The open transaction of one transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


def begin_request(transactional_id: str, timeout_ms: int) -> InitProducerIdRequest:
    """Take a transactional id over: older producers are fenced, and their transaction is aborted."""
    return InitProducerIdRequest(transactional_id, timeout_ms)


def begun(response: InitProducerIdResponse, transactional_id: str) -> MemberTransaction | KafkaError:
    begun_transaction = MemberTransaction(transactional_id, response.producer_id, response.producer_epoch)
    return outcome(response.error_code, begun_transaction)


def progress_request(
    transaction: MemberTransaction, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> TxnOffsetCommitRequest:
    """Have offsets of a group committed with a transaction; they are kept until somebody deletes them."""
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for (topic, partition), committed in offsets.items():
        topics.setdefault(topic, TxnOffsetCommitRequestTopic(name=topic)).partitions.append(
            TxnOffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=committed.offset,
                committed_metadata=committed.metadata,
            )
        )
    return TxnOffsetCommitRequest(
        transactional_id=transaction.transactional_id,
        group_id=group_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=list(topics.values()),
        ottla_retention_time_ms=_FOR_EVER_MS,
    )


def progress_result(response: TxnOffsetCommitResponse) -> KafkaError | None:
    """The first error of a partition."""
    codes = (each.error_code for topic in response.topics for each in topic.partitions)
    return next((error_of(code) for code in codes if code != ErrorCode.NONE), None)


def commit_together_request(transactions: Iterable[MemberTransaction]) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id="",
        producer_id=NO_PRODUCER_ID,
        producer_epoch=-1,
        committed=True,
        ottla_transactions=[TransactionToEnd(*each) for each in transactions],
    )


def committed_together(response: EndTxnResponse) -> KafkaError | None:
    """Why nothing was committed; None if all was."""
    if response.error_code == ErrorCode.NONE:
        return None
    error = error_of(response.error_code)
    message = _WHY_REFUSED.get(error.code, error.message.rstrip("."))
    of_whom = f" (transactional id {response.ottla_refused_id})" if response.ottla_refused_id else ""
    return KafkaError(error.code, message + of_whom)


def end_request(transaction: MemberTransaction, *, is_commit: bool) -> EndTxnRequest:
    """End one transaction by itself, as its producer would."""
    return EndTxnRequest(*transaction, committed=is_commit)


def ended(response: EndTxnResponse) -> KafkaError | None:
    return outcome(response.error_code, None)
