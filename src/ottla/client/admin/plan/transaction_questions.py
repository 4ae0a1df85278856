"""Transactions at their coordinators, and the producers of partitions (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.cluster.machine.conversation import Ask, Steps
from ottla.client.cluster.machine.coordinators import by_coordinator
from ottla.client.cluster.machine.known_cluster import KnownCluster
from ottla.client.cluster.machine.leaders import by_leader
from ottla.client.cluster.machine.retries import Inquiry
from ottla.client.requests.coordinators import CoordinatorType
from ottla.client.requests.transactions import (
    ActiveProducer,
    FencedProducer,
    TransactionDescription,
    TransactionFilters,
    TransactionListing,
    abort_request,
    aborted_transaction,
    describe_producers_request,
    described_producers,
    described_transactions,
    fence_request,
    fenced_producer,
    first_version_of,
    list_transactions_request,
    listed_transactions,
)
from ottla.errors import KafkaError
from ottla.model import TopicPartition
from ottla.protocol.messages.transaction_admin import DescribeTransactionsRequest


def list_transactions(
    node_ids: Iterable[int], filters: TransactionFilters
) -> Inquiry[int, None, list[TransactionListing]]:
    """The transactions that each broker coordinates; UNSUPPORTED_VERSION if a broker lacks a filter."""
    request = list_transactions_request(filters)
    needed = first_version_of(filters)

    def attempt(
        pending: Mapping[int, None], left_ms: int
    ) -> Steps[Mapping[int, list[TransactionListing] | KafkaError]]:
        outcomes: dict[int, list[TransactionListing] | KafkaError] = {}
        for node_id in pending:
            response = yield Ask(node_id, request, left_ms, at_least=needed)
            outcomes[node_id] = listed_transactions(response, node_id)
        return outcomes

    return Inquiry(dict.fromkeys(node_ids), attempt)


def describe_transactions(
    known: KnownCluster, transactional_ids: Iterable[str]
) -> Inquiry[str, None, TransactionDescription]:
    def ask(
        coordinator: int, part: Mapping[str, None], left_ms: int
    ) -> Steps[Mapping[str, TransactionDescription | KafkaError]]:
        response = yield Ask(coordinator, DescribeTransactionsRequest(list(part)), left_ms)
        return described_transactions(response, coordinator)

    attempt = by_coordinator(known, _itself, ask, CoordinatorType.TRANSACTION)
    return Inquiry(dict.fromkeys(transactional_ids), attempt)


def fence_producers(
    known: KnownCluster, transactional_ids: Iterable[str]
) -> Inquiry[str, None, FencedProducer]:
    def ask(
        coordinator: int, part: Mapping[str, None], left_ms: int
    ) -> Steps[Mapping[str, FencedProducer | KafkaError]]:
        outcomes: dict[str, FencedProducer | KafkaError] = {}
        for each in part:
            outcomes[each] = fenced_producer((yield Ask(coordinator, fence_request(each), left_ms)))
        return outcomes

    attempt = by_coordinator(known, _itself, ask, CoordinatorType.TRANSACTION)
    return Inquiry(dict.fromkeys(transactional_ids), attempt)


def describe_producers(
    known: KnownCluster, partitions: Iterable[TopicPartition]
) -> Inquiry[TopicPartition, None, tuple[ActiveProducer, ...]]:
    def ask(
        leader: int, part: Mapping[TopicPartition, None], left_ms: int
    ) -> Steps[Mapping[TopicPartition, tuple[ActiveProducer, ...] | KafkaError]]:
        return described_producers((yield Ask(leader, describe_producers_request(part), left_ms)))

    return Inquiry(dict.fromkeys(partitions), by_leader(known, ask))


def abort_transaction(
    known: KnownCluster, partition: TopicPartition, producer: ActiveProducer
) -> Inquiry[TopicPartition, None, None]:
    def ask(
        leader: int, _: Mapping[TopicPartition, None], left_ms: int
    ) -> Steps[Mapping[TopicPartition, KafkaError | None]]:
        return aborted_transaction((yield Ask(leader, abort_request(partition, producer), left_ms)))

    return Inquiry({partition: None}, by_leader(known, ask))


def _itself(transactional_id: str) -> str:
    return transactional_id
