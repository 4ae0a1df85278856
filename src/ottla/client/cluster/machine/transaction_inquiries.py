"""Transactions at their coordinators, and the producers that the leaders of partitions know."""

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
    TransactionDescription,
    describe_producers_request,
    described_producers,
    described_transactions,
)
from ottla.errors import KafkaError
from ottla.model import TopicPartition
from ottla.protocol.messages.transaction_admin import DescribeTransactionsRequest


def describe_transactions(
    known: KnownCluster, transactional_ids: Iterable[str]
) -> Inquiry[str, None, TransactionDescription]:
    """The latest transaction of each id; an id that nobody has used is not found."""

    def ask(
        coordinator: int, part: Mapping[str, None], left_ms: int
    ) -> Steps[Mapping[str, TransactionDescription | KafkaError]]:
        response = yield Ask(coordinator, DescribeTransactionsRequest(list(part)), left_ms)
        return described_transactions(response, coordinator)

    attempt = by_coordinator(known, lambda each: each, ask, CoordinatorType.TRANSACTION)
    return Inquiry(dict.fromkeys(transactional_ids), attempt)


def describe_producers(
    known: KnownCluster, partitions: Iterable[TopicPartition]
) -> Inquiry[TopicPartition, None, tuple[ActiveProducer, ...]]:
    """The producers that the leader of each partition knows, with their open transactions."""

    def ask(
        leader: int, part: Mapping[TopicPartition, None], left_ms: int
    ) -> Steps[Mapping[TopicPartition, tuple[ActiveProducer, ...] | KafkaError]]:
        return described_producers((yield Ask(leader, describe_producers_request(part), left_ms)))

    return Inquiry(dict.fromkeys(partitions), by_leader(known, ask))
