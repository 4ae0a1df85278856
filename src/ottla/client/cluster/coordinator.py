"""The broker that coordinates a consumer's group: found when first needed, found again when it is another.

Here are the requests that a consumer makes besides its membership: commits, and the question for what is committed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, TypeVar

from ottla.client.cluster.connections import Connections, hanging_up
from ottla.client.cluster.retries import settle
from ottla.client.cluster.routing import Attempt, find_coordinators
from ottla.client.requests.group_offsets import (
    CommittedOffset,
    CommittedOffsets,
    commit_offsets,
    fetch_offsets,
)
from ottla.client.requests.member_requests import Membership
from ottla.client.requests.outcomes import succeeded
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.wire.connection import Connection

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

LOST: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Coordinator:
    """The coordinator of one group, asked over `connections`."""

    def __init__(
        self,
        connections: Connections,
        group_id: str,
        group_instance_id: str | None,
        *,
        timeout_ms: int,
        request_timeout_ms: int,
    ) -> None:
        self._connections = connections
        self._group_id = group_id
        self._group_instance_id = group_instance_id
        self._timeout_ms = timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._node_id: int | None = None

    async def find(self, timeout_ms: int | None = None) -> int:
        """The number of the coordinator, from memory if it is there."""
        if self._node_id is None:
            found = await find_coordinators(
                self._connections, [self._group_id], timeout_ms or self._timeout_ms
            )
            self._node_id = succeeded(found)[self._group_id]
        return self._node_id

    def forget(self) -> None:
        """The coordinator was not there, or is none: look for it again next time."""
        self._node_id = None

    async def commit(
        self,
        offsets: Mapping[TopicPartition, CommittedOffset],
        membership: Membership | None,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Commit for a member, or, without a membership, for a group that has none."""

        async def attempt(
            pending: Mapping[TopicPartition, CommittedOffset], left_ms: int
        ) -> Mapping[TopicPartition, KafkaError | None]:
            connection = await self._connection(left_ms)
            if isinstance(connection, KafkaError):
                return dict.fromkeys(pending, connection)
            async with hanging_up(connection):
                return await commit_offsets(
                    connection,
                    self._group_id,
                    pending,
                    membership=membership,
                    group_instance_id=self._group_instance_id if membership else None,
                    timeout_ms=min(left_ms, self._request_timeout_ms),
                )

        return await settle(
            offsets, self._watched(attempt), repeatable=True, timeout_ms=timeout_ms or self._timeout_ms
        )

    async def committed(self, partitions: Collection[TopicPartition]) -> CommittedOffsets:
        """What is committed of these partitions; those without a commit are left out."""

        async def attempt(
            pending: Mapping[str, None], left_ms: int
        ) -> Mapping[str, CommittedOffsets | KafkaError]:
            connection = await self._connection(left_ms)
            if isinstance(connection, KafkaError):
                return {self._group_id: connection}
            wait_ms = min(left_ms, self._request_timeout_ms)
            async with hanging_up(connection):
                found = await fetch_offsets(
                    connection, self._group_id, partitions, require_stable=True, timeout_ms=wait_ms
                )
            return {self._group_id: found}

        outcomes = await settle(
            {self._group_id: None}, self._watched(attempt), repeatable=True, timeout_ms=self._timeout_ms
        )
        return succeeded(outcomes)[self._group_id]

    async def _connection(self, left_ms: int) -> Connection | KafkaError:
        try:
            return await self._connections.to(await self.find(left_ms))
        except KafkaError as error:
            self.forget()
            return error

    def _watched(self, attempt: Attempt[K, V, T]) -> Attempt[K, V, T]:
        """The attempt, after which a coordinator that failed is forgotten."""

        async def watched(pending: Mapping[K, V], left_ms: int) -> Mapping[K, T | KafkaError]:
            try:
                outcomes = await attempt(pending, left_ms)
            except (ConnectionError, TimeoutError):
                self.forget()
                raise
            if any(isinstance(each, KafkaError) and each.code in LOST for each in outcomes.values()):
                self.forget()
            return outcomes

        return watched
