"""Transactions at their coordinators, and the producers of partitions (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.cluster.machine.conversation import Ask, Steps
from ottla.client.cluster.machine.coordinators import by_coordinator
from ottla.client.cluster.machine.known_cluster import KnownCluster
from ottla.client.cluster.machine.leaders import by_leader
from ottla.client.cluster.machine.retries import Inquiry
from ottla.client.cluster.machine.transaction_inquiries import describe_producers as describe_producers
from ottla.client.cluster.machine.transaction_inquiries import describe_transactions as describe_transactions
from ottla.client.requests.coordinators import CoordinatorType
from ottla.client.requests.transactions import (
    ActiveProducer,
    FencedProducer,
    TransactionFilters,
    TransactionListing,
    abort_request,
    aborted_transaction,
    fence_request,
    fenced_producer,
    first_version_of,
    list_transactions_request,
    listed_transactions,
)
from ottla.errors import KafkaError
from ottla.model import TopicPartition


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
