"""Asks the coordinators of a transaction, until there is an answer that does not pass by itself.

The coordinator of the transactional id has the transaction, that of a group has the group's offsets. Every call
raises KafkaError for a refusal, and ConnectionError or TimeoutError if no answer came in time. `on_lost` is
called when a request got no answer, or one that leaves open whether it is carried out: it may be at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from ottla.client.cluster.backoff import backoff_ms
from ottla.client.cluster.connections import Connections
from ottla.client.cluster.machine.conversation import Ask, Steps
from ottla.client.cluster.machine.coordinators import by_coordinator
from ottla.client.cluster.machine.retries import Inquiry, Patience, settled
from ottla.client.producer.machine import transaction_requests as requests
from ottla.client.producer.machine.idempotence import ProducerIdentity
from ottla.client.producer.machine.settings import ProducerSettings
from ottla.client.requests.coordinators import CoordinatorType
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.membership import GroupMetadata
from ottla.client.requests.outcomes import succeeded
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.transactions import EndTxnResponse
from ottla.wire.failures import CannotConnectError

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

# The first pause before a request is repeated: above all, the markers of the last transaction are being written.
_FIRST_PAUSE_MS: Final = 20
# A coordinator that has written the end, and then lost its place before the end was replicated, answers with these:
# the end may be in force all the same.
_PERHAPS_WRITTEN: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class TransactionCoordinator:
    """The coordinators, as one producer asks them."""

    def __init__(
        self, connections: Connections, settings: ProducerSettings, on_lost: Callable[[], None]
    ) -> None:
        assert settings.transactional_id is not None
        self._connections = connections
        self._id = settings.transactional_id
        self._transaction_timeout_ms = settings.transaction_timeout_ms
        self._is_two_phase = settings.two_phase_commit
        self._request_timeout_ms = settings.request_timeout_ms
        self._patience = Patience(settings.max_block_ms, _pause_ms)
        self._on_lost = on_lost

    @property
    def transaction_version(self) -> int:
        """The cluster's level of the feature."""
        return self._connections.known.feature_level("transaction.version")

    async def initialise(self, identity: ProducerIdentity | None) -> requests.Grant:
        """A producer id and epoch; those after `identity`, if this is not the first time.

        The coordinator ends the transaction before, or with two-phase commit keeps it, and fences other producers
        of the same transactional id.
        """
        is_two_phase = self._is_two_phase
        request = requests.init_request(
            self._id, self._transaction_timeout_ms, identity, is_two_phase=is_two_phase
        )
        if not is_two_phase:
            return await self._asked(request, requests.init_result, requests.LAST_ONE_PHASE)
        # An older version would leave the wish for two-phase commit out.
        return await self._asked(request, requests.two_phase_result, at_least=requests.TWO_PHASE_SINCE)

    async def add_partitions(self, identity: ProducerIdentity, partitions: Iterable[TopicPartition]) -> None:
        """Have partitions in the transaction; for the protocol before `transaction.version` 2."""
        request = requests.add_partitions_request(self._id, identity, partitions)
        await self._asked(request, requests.add_partitions_result, requests.LAST_ADD_PARTITIONS)

    async def add_group(self, identity: ProducerIdentity, group_id: str) -> None:
        """Have a group in the transaction; for the protocol before `transaction.version` 2."""
        request = requests.add_offsets_request(self._id, identity, group_id)
        await self._asked(request, requests.add_offsets_result)

    async def end(
        self, identity: ProducerIdentity, *, is_commit: bool, is_implicit: bool
    ) -> ProducerIdentity | None:
        """End the transaction; the producer id and epoch of the next one, None if they stay."""
        request = requests.end_request(self._id, identity, is_commit=is_commit)
        at_most = requests.last_version(ApiKey.END_TXN, is_implicit=is_implicit)
        return await self._asked(request, self._end_result, at_most)

    def _end_result(self, response: EndTxnResponse) -> ProducerIdentity | KafkaError | None:
        result = requests.end_result(response)
        if isinstance(result, KafkaError) and result.code in _PERHAPS_WRITTEN:
            self._on_lost()
        return result

    async def commit_offsets(
        self,
        identity: ProducerIdentity,
        group: GroupMetadata,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        is_implicit: bool,
    ) -> None:
        """Have offsets of a group committed with the transaction."""
        at_most = requests.last_version(ApiKey.TXN_OFFSET_COMMIT, is_implicit=is_implicit)

        def ask(
            node_id: int, part: Mapping[TopicPartition, CommittedOffset], left_ms: int
        ) -> Steps[Mapping[TopicPartition, KafkaError | None]]:
            request = requests.commit_offsets_request(self._id, identity, group, part)
            response = yield from self._heard(Ask(node_id, request, self._wait_ms(left_ms), at_most=at_most))
            return requests.commit_offsets_results(response)

        attempt = by_coordinator(self._connections.known, lambda _: group.group_id, ask)
        await self._settled(Inquiry(offsets, attempt))

    async def _asked(
        self,
        request: Any,
        read: Callable[[Any], T | KafkaError],
        at_most: int | None = None,
        at_least: int = 0,
    ) -> T:
        """What the coordinator of the transactional id answers."""

        def ask(node_id: int, part: Mapping[str, None], left_ms: int) -> Steps[Mapping[str, T | KafkaError]]:
            question = Ask(node_id, request, self._wait_ms(left_ms), at_least, at_most)
            response = yield from self._heard(question)
            return dict.fromkeys(part, read(response))

        known = self._connections.known
        attempt = by_coordinator(known, lambda name: name, ask, CoordinatorType.TRANSACTION)
        return (await self._settled(Inquiry({self._id: None}, attempt)))[self._id]

    async def _settled(self, inquiry: Inquiry[K, V, T]) -> dict[K, T]:
        steps = settled(self._connections.known, inquiry, self._patience)
        try:
            return succeeded(await self._connections.converse(steps))
        except asyncio.CancelledError:
            self._on_lost()
            raise

    def _heard(self, ask: Ask) -> Steps[Any]:
        try:
            return (yield ask)
        except CannotConnectError:
            raise  # nothing was sent
        except (ConnectionError, TimeoutError):
            self._on_lost()
            raise

    def _wait_ms(self, left_ms: int) -> int:
        return min(left_ms, self._request_timeout_ms)


def _pause_ms(failures: int) -> int:
    return _FIRST_PAUSE_MS if failures == 1 else backoff_ms(failures - 1)
