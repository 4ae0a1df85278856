"""The questions of a writer that has many transactional ids, and commits their transactions together.

All ids have the coordinator of the writer's name, which is a transactional id itself. The progress of the writer is
an offset of the group of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from ottla.client.cluster.machine.conversation import Ask, Steps, refreshed
from ottla.client.cluster.machine.coordinators import by_coordinator
from ottla.client.cluster.machine.known_cluster import KnownCluster
from ottla.client.cluster.machine.retries import Inquiry
from ottla.client.requests import group_commit as requests
from ottla.client.requests.coordinators import CoordinatorType
from ottla.client.requests.group_commit import MemberTransaction
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.transactions import (
    TransactionFilters,
    first_version_of,
    list_transactions_request,
    listed_transactions,
)
from ottla.errors import KafkaError
from ottla.model import TopicPartition

T = TypeVar("T")

# From this level of the feature on every transaction has a producer epoch of its own.
_TRANSACTION_VERSION: Final = "transaction.version"
_WITH_EPOCHS: Final = 2


def reach(known: KnownCluster) -> Inquiry[str, None, None]:
    """An answer of any broker, under the key "": from then on its features are known."""

    def attempt(_: Mapping[str, None], left_ms: int) -> Steps[Mapping[str, KafkaError | None]]:
        yield from refreshed(known, [], left_ms)
        return {"": None}

    return Inquiry({"": None}, attempt)


def find(known: KnownCluster, name: str) -> Inquiry[str, None, int]:
    """The broker that coordinates the writer's transactions."""

    def ask(coordinator: int, part: Mapping[str, None], left_ms: int) -> Steps[Mapping[str, int]]:
        yield from ()
        return dict.fromkeys(part, coordinator)

    return Inquiry({name: None}, by_coordinator(known, _itself, ask, CoordinatorType.TRANSACTION))


def begin(
    known: KnownCluster, transactional_ids: Iterable[str], timeout_ms: int
) -> Inquiry[str, None, MemberTransaction]:
    """A producer id and epoch for each id; what its producers before have left open is aborted."""

    def ask(
        coordinator: int, part: Mapping[str, None], left_ms: int
    ) -> Steps[Mapping[str, MemberTransaction | KafkaError]]:
        outcomes: dict[str, MemberTransaction | KafkaError] = {}
        for each in part:
            response = yield Ask(coordinator, requests.begin_request(each, timeout_ms), left_ms)
            outcomes[each] = requests.begun(response, each)
        return outcomes

    attempt = by_coordinator(known, _itself, ask, CoordinatorType.TRANSACTION)
    return Inquiry(dict.fromkeys(transactional_ids), attempt)


def store_progress(
    known: KnownCluster,
    transaction: MemberTransaction,
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
) -> Inquiry[str, None, None]:
    """Have the group's offsets in the transaction."""
    request = requests.progress_request(transaction, group_id, offsets)

    def ask(
        coordinator: int, part: Mapping[str, None], left_ms: int
    ) -> Steps[Mapping[str, KafkaError | None]]:
        response = yield Ask(coordinator, request, left_ms, at_least=requests.COMMIT_OFFSETS_SINCE)
        return dict.fromkeys(part, requests.progress_result(response))

    return Inquiry({group_id: None}, by_coordinator(known, _itself, ask))


def commit_together(
    known: KnownCluster, name: str, transactions: Iterable[MemberTransaction]
) -> Inquiry[str, None, None]:
    """Commit all transactions by one decision, or none."""
    return _to_coordinator(
        known, name, requests.commit_together_request(transactions), requests.committed_together
    )


def end_each(
    known: KnownCluster, transactions: Iterable[MemberTransaction], *, is_commit: bool
) -> Inquiry[MemberTransaction, None, None]:
    """End each transaction by itself, all of them in the same way."""

    def ask(
        coordinator: int, part: Mapping[MemberTransaction, None], left_ms: int
    ) -> Steps[Mapping[MemberTransaction, KafkaError | None]]:
        outcomes: dict[MemberTransaction, KafkaError | None] = {}
        # The versions since then are those of the protocol with an epoch for each transaction.
        has_epochs = known.feature_level(_TRANSACTION_VERSION) >= _WITH_EPOCHS
        at_most = None if has_epochs else requests.END_SINCE - 1
        for each in part:
            request = requests.end_request(each, is_commit=is_commit)
            outcomes[each] = requests.ended((yield Ask(coordinator, request, left_ms, at_most=at_most)))
        return outcomes

    attempt = by_coordinator(known, lambda each: each.transactional_id, ask, CoordinatorType.TRANSACTION)
    return Inquiry(dict.fromkeys(transactions), attempt)


def list_ids(known: KnownCluster, name: str, filters: TransactionFilters) -> Inquiry[str, None, list[str]]:
    """The transactional ids that the coordinator of `name` has, and that pass the filters."""

    def read(response: Any) -> list[str] | KafkaError:
        found = listed_transactions(response, coordinator=-1)
        return found if isinstance(found, KafkaError) else [each.transactional_id for each in found]

    request = list_transactions_request(filters)
    return _to_coordinator(known, name, request, read, at_least=first_version_of(filters))


def _to_coordinator(
    known: KnownCluster,
    name: str,
    request: Any,
    read: Callable[[Any], T | KafkaError],
    at_least: int = requests.END_SINCE,
) -> Inquiry[str, None, T]:
    def ask(coordinator: int, part: Mapping[str, None], left_ms: int) -> Steps[Mapping[str, T | KafkaError]]:
        return dict.fromkeys(part, read((yield Ask(coordinator, request, left_ms, at_least=at_least))))

    return Inquiry({name: None}, by_coordinator(known, _itself, ask, CoordinatorType.TRANSACTION))


def _itself(name: str) -> str:
    return name
