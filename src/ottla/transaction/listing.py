"""Transactions from outside: DescribeTransactions, version 0, and ListTransactions, 0 to 2.

A transaction that is being ended is described with the partitions that lack the marker.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.messages.transaction_admin import (
    DescribedTransactionState,
    ListedTransactionState,
    ListTransactionsRequest,
    TopicData,
)
from ottla.transaction.metadata import TransactionMetadata, TransactionState


def described(
    metadata: TransactionMetadata, partitions: Iterable[TopicPartition]
) -> DescribedTransactionState:
    """One transactional id; `partitions` are those that its transaction is open in."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return DescribedTransactionState(
        transactional_id=metadata.transactional_id,
        transaction_state=metadata.state.value,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_start_time_ms=metadata.started_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=[TopicData(topic, numbers) for topic, numbers in topics.items()],
    )


def listed(
    transactions: Iterable[TransactionMetadata], request: ListTransactionsRequest, now_ms: int
) -> list[ListedTransactionState]:
    """The transactional ids that pass all filters; an empty filter lets all pass. KafkaError for a pattern that
    cannot be understood.
    """
    pattern = compiled(request.transactional_id_pattern)
    states, producer_ids = set(request.state_filters), set(request.producer_id_filters)
    return [
        ListedTransactionState(one.transactional_id, one.producer_id, one.state.value)
        for one in transactions
        if (not states or one.state.value in states)
        and (not producer_ids or one.producer_id in producer_ids)
        and (request.duration_filter < 0 or now_ms - one.started_ms > request.duration_filter)
        and (pattern is None or pattern.fullmatch(one.transactional_id))
    ]


def compiled(text: str | None) -> re.Pattern[str] | None:
    """A filter of transactional ids; KafkaError if it cannot be understood."""
    if not text:
        return None
    try:
        return re.compile(text)
    except re.error as problem:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(problem)) from None


def unknown_states(names: Iterable[str]) -> list[str]:
    """The names in a filter that are not states of a transaction."""
    known = {state.value for state in TransactionState}
    return [name for name in names if name not in known]
