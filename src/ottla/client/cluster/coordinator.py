"""The coordinator of a consumer's group: commits, and committed offsets."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ottla.client.cluster.connections import Connections, hanging_up
from ottla.client.cluster.machine.coordinators import find_coordinators
from ottla.client.cluster.machine.group_inquiries import commit_offsets, fetch_offsets
from ottla.client.cluster.notices import Notices
from ottla.client.requests.group_offsets import CommittedOffset, CommittedOffsets
from ottla.client.requests.groups import described_groups
from ottla.client.requests.membership import Membership
from ottla.client.requests.outcomes import succeeded
from ottla.errors import KafkaError
from ottla.model import TopicPartition
from ottla.protocol.messages.group_admin import DescribeGroupsRequest


class Coordinator:
    """The coordinator of one group, asked over `connections`.

    It is looked up when first needed, and again after it has moved.
    """

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

    @property
    def notices(self) -> Notices:
        """The log of the client that the group's member is."""
        return self._connections.notices

    async def find(self, timeout_ms: int | None = None) -> int:
        """The node id of the coordinator, from memory if it is known."""
        known = self._connections.known
        steps = find_coordinators(known, [self._group_id], timeout_ms or self._timeout_ms)
        return succeeded(await self._connections.converse(steps))[self._group_id]

    def forget(self) -> None:
        """The coordinator did not answer, or is not the group's: look it up again next time."""
        self._connections.known.forget_coordinator(self._group_id)

    async def commit(
        self,
        offsets: Mapping[TopicPartition, CommittedOffset],
        membership: Membership | None,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Commit as a member, or, without a membership, for a group that has no members."""
        inquiry = commit_offsets(
            self._connections.known,
            self._group_id,
            offsets,
            membership=membership,
            group_instance_id=self._group_instance_id if membership else None,
            request_timeout_ms=self._request_timeout_ms,
        )
        return await self._connections.settle(inquiry, timeout_ms or self._timeout_ms)

    async def assigned(self) -> frozenset[TopicPartition]:
        """The partitions that the members of the group have been assigned, all together."""
        node_id = await self.find()
        connection = await self._connections.to(node_id)
        request = DescribeGroupsRequest(groups=[self._group_id])
        async with hanging_up(connection):
            response = await connection.ask(request, timeout_ms=self._request_timeout_ms)
        group = succeeded(described_groups(response, node_id))[self._group_id]
        return frozenset(partition for member in group.members for partition in member.assignment)

    async def committed(
        self, partitions: Collection[TopicPartition], *, waits_for_stable: bool = False
    ) -> CommittedOffsets:
        """The committed offsets of these partitions; partitions without one are left out.

        A partition whose offset an open transaction may change has an error, or is waited for.
        """
        inquiry = fetch_offsets(
            self._connections.known,
            self._group_id,
            partitions,
            require_stable=True,
            waits_for_stable=waits_for_stable,
            request_timeout_ms=self._request_timeout_ms,
        )
        outcomes = await self._connections.settle(inquiry, self._timeout_ms)
        return succeeded(outcomes)[self._group_id]
