"""Transactions as an administrator sees them: at their coordinators, and in the partitions that they write.

A transaction hangs if a partition has it open and no coordinator knows of it: nothing will ever end it, and
consumers that read committed records stop before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ottla.client.calls import arguments
from ottla.client.requests.outcomes import error_of, outcome
from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_OFFSET, TopicPartition
from ottla.protocol.codec import first_version
from ottla.protocol.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.transaction_admin import (
    DescribedTransactionState,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    ProducerState,
    TopicRequest,
)
from ottla.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

# Kafka's names of the states, in the order in which a transaction goes through them.
ONGOING = "Ongoing"
STATES = ("Empty", ONGOING, "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
UNFINISHED_STATES = (ONGOING, "PrepareCommit", "PrepareAbort")

# The timeout of a transaction with two-phase commit.
NO_TIMEOUT_MS = 2**31 - 1

_NO_DURATION = -1
# A fenced transactional id that nobody uses again should not keep a transaction open.
_FENCING_TIMEOUT_MS = 1
# A producer whose partition has seen no marker yet: any coordinator may write the first one.
_FIRST_COORDINATOR_EPOCH = 0


@dataclass(frozen=True, slots=True)
class TransactionFilters:
    """Which transactions to list: those that pass every filter. An empty filter lets all pass."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    open_for_ms: int | None = None
    pattern: str | None = None


def transaction_filters(
    states: object, producer_ids: object, open_for_ms: object, pattern: object
) -> TransactionFilters:
    """Filters that can be written to the wire. Raises TypeError and ValueError."""
    return TransactionFilters(
        tuple(arguments.names("states", states)),
        tuple(arguments.numbers("producer_ids", producer_ids)),
        None if open_for_ms is None else arguments.whole_number("open_for_ms", open_for_ms),
        None if pattern is None else arguments.name_of("pattern", pattern),
    )


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id and the state of its latest transaction."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The latest transaction of a transactional id.

    `started_ms` is None before the first transaction. While markers are written, `partitions` are those that
    lack theirs.
    """

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    partitions: frozenset[TopicPartition]

    @property
    def is_two_phase(self) -> bool:
        """Whether the transaction has no timeout: its producer, or an administrator, has to end it."""
        return self.timeout_ms == NO_TIMEOUT_MS

    @property
    def is_unfinished(self) -> bool:
        """Whether readers of committed records wait for the transaction: it is open, or is being ended."""
        return self.state in UNFINISHED_STATES


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """An idempotent or transactional producer that a partition knows.

    `coordinator_epoch` is -1 before the first marker. `open_since_offset` is the first offset of the
    producer's open transaction, or None.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    open_since_offset: int | None


@dataclass(frozen=True, slots=True)
class FencedProducer:
    """The producer id and epoch of a transactional id after older producers were fenced."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """An open transaction of a partition that no coordinator will end.

    `transactional_id` is None if no coordinator knows the producer.
    """

    partition: TopicPartition
    producer: ActiveProducer
    transactional_id: str | None


def list_transactions_request(filters: TransactionFilters) -> ListTransactionsRequest:
    duration_ms = _NO_DURATION if filters.open_for_ms is None else filters.open_for_ms
    return ListTransactionsRequest(
        list(filters.states), list(filters.producer_ids), duration_ms, filters.pattern
    )


def first_version_of(filters: TransactionFilters) -> int:
    """The first version of ListTransactions that has these filters."""
    if filters.pattern is not None:
        return first_version(ListTransactionsRequest, "transactional_id_pattern")
    return 0 if filters.open_for_ms is None else first_version(ListTransactionsRequest, "duration_filter")


def listed_transactions(
    response: ListTransactionsResponse, coordinator: int
) -> list[TransactionListing] | KafkaError:
    if response.error_code != ErrorCode.NONE:
        return error_of(response.error_code)
    return [
        TransactionListing(each.transactional_id, each.producer_id, each.transaction_state, coordinator)
        for each in response.transaction_states
    ]


def described_transactions(
    response: DescribeTransactionsResponse, coordinator: int
) -> dict[str, TransactionDescription | KafkaError]:
    return {
        each.transactional_id: outcome(each.error_code, _described(each, coordinator), _words_for(each))
        for each in response.transaction_states
    }


def _described(state: DescribedTransactionState, coordinator: int) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=state.transactional_id,
        coordinator=coordinator,
        state=state.transaction_state,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        timeout_ms=state.transaction_timeout_ms,
        started_ms=state.transaction_start_time_ms if state.transaction_start_time_ms >= 0 else None,
        partitions=frozenset(
            TopicPartition(topic.topic, index) for topic in state.topics for index in topic.partitions
        ),
    )


def _words_for(state: DescribedTransactionState) -> str | None:
    if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return f'there is no transactional id "{state.transactional_id}"'
    return None


def fence_request(transactional_id: str) -> InitProducerIdRequest:
    """Take the id over, as its next producer would: older producers are fenced, their transaction ends."""
    return InitProducerIdRequest(transactional_id, _FENCING_TIMEOUT_MS)


def fenced_producer(response: InitProducerIdResponse) -> FencedProducer | KafkaError:
    return outcome(response.error_code, FencedProducer(response.producer_id, response.producer_epoch))


def describe_producers_request(partitions: Iterable[TopicPartition]) -> DescribeProducersRequest:
    by_topic = groupby(sorted(partitions), key=lambda each: each.topic)
    return DescribeProducersRequest(
        [TopicRequest(topic, [each.partition for each in some]) for topic, some in by_topic]
    )


def described_producers(
    response: DescribeProducersResponse,
) -> dict[TopicPartition, tuple[ActiveProducer, ...] | KafkaError]:
    return {
        TopicPartition(topic.name, each.partition_index): outcome(
            each.error_code, tuple(map(_producer, each.active_producers)), each.error_message
        )
        for topic in response.topics
        for each in topic.partitions
    }


def _producer(state: ProducerState) -> ActiveProducer:
    start = state.current_txn_start_offset
    return ActiveProducer(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        last_sequence=state.last_sequence,
        last_timestamp_ms=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch,
        open_since_offset=None if start == NO_OFFSET else start,
    )


def abort_request(partition: TopicPartition, producer: ActiveProducer) -> WriteTxnMarkersRequest:
    """Write an abort marker in the name of the coordinator that the partition heard of last."""
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(partition.topic, [partition.partition])],
        coordinator_epoch=max(producer.coordinator_epoch, _FIRST_COORDINATOR_EPOCH),
    )
    return WriteTxnMarkersRequest([marker])


def aborted_transaction(response: WriteTxnMarkersResponse) -> dict[TopicPartition, KafkaError | None]:
    return {
        TopicPartition(topic.name, each.partition_index): outcome(each.error_code, None)
        for marker in response.markers
        for topic in marker.topics
        for each in topic.partitions
    }


def open_transactions(
    producers: Mapping[TopicPartition, Sequence[ActiveProducer]], silent_since_ms: int
) -> list[tuple[TopicPartition, ActiveProducer]]:
    """The open transactions of partitions that nothing was written to since, the oldest first."""
    found = [
        (partition, producer)
        for partition, some in producers.items()
        for producer in some
        if producer.open_since_offset is not None and producer.last_timestamp_ms <= silent_since_ms
    ]
    return sorted(found, key=lambda each: (each[1].last_timestamp_ms, each[0]))


def hanging_transactions(
    candidates: Iterable[tuple[TopicPartition, ActiveProducer]],
    listed: Iterable[TransactionListing],
    described: Mapping[str, TransactionDescription | KafkaError],
) -> list[HangingTransaction]:
    """Those candidates that are not part of a transaction that a coordinator has open or is ending.

    Raises the KafkaError of a transactional id whose coordinator could not be asked.
    """
    ids = {each.producer_id: each.transactional_id for each in listed}
    hanging = []
    for partition, producer in candidates:
        transactional_id = ids.get(producer.producer_id)
        known = described.get(transactional_id or "")
        if isinstance(known, KafkaError) and known.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise known
        if not isinstance(known, TransactionDescription) or partition not in known.partitions:
            hanging.append(HangingTransaction(partition, producer, transactional_id))
    return hanging
