"""Questions of partitions to the coordinator of a transaction, here or on another broker (KIP-890).

A partition that takes records of a transaction must be in the transaction, or no marker would ever come. Before
transactions of version 2 the producer adds the partition itself, and the coordinator is asked to verify. With
version 2 the question adds the partition. While the markers of the producer's last transaction are on their way
the question is repeated for a moment, so that most producers notice nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

from ottla.config import TransactionConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_LEADER, TopicPartition
from ottla.server.coordinators.internal_topic import InternalTopic
from ottla.server.quorum.quorum import Quorum
from ottla.wire.stream import ConnectionLostError

_TIMEOUT_MS: Final = 10_000
# Markers take a few milliseconds where nothing is wrong: the first pauses are shorter than the setting.
_FIRST_PAUSE_S: Final = 0.002
_PURPOSE: Final = "transactions"

Errors = dict[TopicPartition, ErrorCode]


class TransactionQuestions:
    """Asks coordinators; `ask_here` those of this broker."""

    def __init__(
        self,
        config: TransactionConfig,
        quorum: Quorum,
        topic: InternalTopic,
        ask_here: Callable[[str, Any], Awaitable[Any]],
    ) -> None:
        self._config = config
        self._quorum = quorum
        self._topic = topic
        self._ask_here = ask_here

    async def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        adds: bool,
    ) -> Errors:
        """Whether partitions are in the transaction of a producer; with `adds` they join it.

        Errors are the coordinator's own: CONCURRENT_TRANSACTIONS, TRANSACTION_ABORTABLE (not in the
        transaction), PRODUCER_FENCED, INVALID_PRODUCER_ID_MAPPING, and those of a coordinator that is not found.
        """
        from ottla.transaction.commands import AddPartitions, VerifyPartitions
        from ottla.transaction.metadata import EPOCH_PER_TRANSACTION

        named = frozenset(partitions)
        command: AddPartitions | VerifyPartitions = (
            AddPartitions(transactional_id, producer_id, producer_epoch, named, EPOCH_PER_TRANSACTION)
            if adds
            else VerifyPartitions(transactional_id, producer_id, producer_epoch, named)
        )
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._config.retry_backoff_max_ms / 1000
        longest_s = self._config.retry_backoff_ms / 1000
        pause_s = min(_FIRST_PAUSE_S, longest_s)
        while True:
            errors = await self._ask(command)
            is_concurrent = ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()
            if not is_concurrent or not adds or loop.time() + pause_s > deadline:
                return errors
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, longest_s)

    async def _ask(self, command: Any) -> Errors:
        try:
            leader = self._topic.leader_of(command.transactional_id)
            if leader == self._quorum.node_id:
                answer = await self._ask_here(command.transactional_id, command)
                return answer if isinstance(answer, dict) else dict.fromkeys(command.partitions, answer)
            if leader == NO_LEADER:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return await self._ask_elsewhere(leader, command)
        except KafkaError as error:
            return dict.fromkeys(command.partitions, error.code)
        except (OSError, TimeoutError, ConnectionLostError):
            return dict.fromkeys(command.partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def _ask_elsewhere(self, leader: int, command: Any) -> Errors:
        from ottla.server.coordinators.transaction_messages import add_partitions_request, errors_in

        request = add_partitions_request(command)
        response = await self._quorum.peers.ask(leader, request, purpose=_PURPOSE, timeout_ms=_TIMEOUT_MS)
        return errors_in(response, command)
