"""A leader's changes of its remote logs: asked of the controller, and waited for until this broker has them.

A change that was refused because the leader changed is over; one whose answer was lost is asked for again, and
changes nothing the second time.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from ottla.controller.alter_remote_log import RemoteLogOperation
from ottla.controller.remote_log import RemoteLog, RemoteSegment
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.remote_logs import (
    AlterRemoteLogRequest,
    RemoteEpochData,
    RemoteObjectData,
    RemoteSegmentData,
)
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.quorum.quorum import Quorum

# A change is in the controller's log: this broker hears of it within moments, or is cut off.
_PATIENCE_S: Final = 10.0
_LOOK_S: Final = 0.005


class RemoteChanges:
    """Asks the controller on behalf of one broker."""

    def __init__(self, node_id: int, quorum: Quorum) -> None:
        self._node_id = node_id
        self._quorum = quorum

    async def start_copy(self, partition: HostedPartition, segment: RemoteSegment, log_start: int) -> None:
        """Name a segment before its first object is written. KafkaError."""
        await self._ask(
            partition, RemoteLogOperation.START_COPY, segment=segment_data(segment), offset=log_start
        )
        # Whoever asks this broker what exists must hear of the segment before its objects are there.
        wanted = segment.segment_id
        await self._seen(
            partition, lambda log: any(wanted == each.segment_id for _, each in log.all_segments())
        )

    async def finish_copy(self, partition: HostedPartition, segment: RemoteSegment) -> None:
        """A segment is copied and verified. KafkaError."""
        await self._ask(partition, RemoteLogOperation.FINISH_COPY, segment=segment_data(segment))
        wanted = segment.segment_id
        await self._seen(partition, lambda log: log.copying is None or log.copying.segment_id != wanted)

    async def advance_start(self, partition: HostedPartition, offset: int) -> None:
        """Records below `offset` are deleted. KafkaError."""
        await self._ask(partition, RemoteLogOperation.ADVANCE_START, offset=offset)
        await self._seen(partition, lambda log: log.start_offset >= offset)

    async def truncate(self, partition: HostedPartition, offset: int) -> None:
        """The leader's log has other records from `offset` on. KafkaError."""
        await self._ask(partition, RemoteLogOperation.TRUNCATE, offset=offset)
        await self._seen(partition, lambda log: (log.next_offset or 0) <= offset)

    async def give_up(self, partition: HostedPartition, segment_id: UUID) -> None:
        """A copy that was begun is not finished any more. KafkaError."""
        await self._ask(partition, RemoteLogOperation.GIVE_UP, segment_ids=[segment_id])
        await self._seen(partition, lambda log: log.copying is None or log.copying.segment_id != segment_id)

    async def clear(self, partition: HostedPartition) -> None:
        """The topic has no tiered storage any more. KafkaError."""
        await self._ask(partition, RemoteLogOperation.CLEAR)

    async def finish_delete(self, topic_id: UUID, index: int, segment_ids: Sequence[UUID]) -> None:
        """The objects of these segments are deleted. KafkaError."""
        request = AlterRemoteLogRequest(
            self._node_id,
            self._quorum.broker_epoch,
            topic_id,
            index,
            operation=RemoteLogOperation.FINISH_DELETE,
            segment_ids=list(segment_ids),
        )
        await self._submit(request)

    async def _ask(
        self,
        partition: HostedPartition,
        operation: RemoteLogOperation,
        *,
        segment: RemoteSegmentData | None = None,
        segment_ids: Sequence[UUID] = (),
        offset: int = -1,
    ) -> None:
        request = AlterRemoteLogRequest(
            self._node_id,
            self._quorum.broker_epoch,
            partition.topic_id,
            partition.index,
            partition.replica.leader_epoch,
            operation,
            segment or RemoteSegmentData(),
            list(segment_ids),
            offset,
        )
        await self._submit(request)

    async def _submit(self, request: AlterRemoteLogRequest) -> None:
        response = await self._quorum.submit(request)
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code), response.error_message)

    async def _seen(self, partition: HostedPartition, is_done: Callable[[RemoteLog], bool]) -> None:
        """Wait until this broker's image has a change. KafkaError if it takes too long."""
        deadline = asyncio.get_running_loop().time() + _PATIENCE_S
        while partition.tier is not None and not partition.is_closed and not is_done(partition.tier.remote):
            if asyncio.get_running_loop().time() > deadline:
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT, "this broker does not hear of changes of the metadata"
                )
            await asyncio.sleep(_LOOK_S)


def segment_data(segment: RemoteSegment) -> RemoteSegmentData:
    """A segment as it travels."""
    return RemoteSegmentData(
        segment_id=segment.segment_id,
        base_offset=segment.base_offset,
        next_offset=segment.next_offset,
        leader_epoch=segment.leader_epoch,
        size_bytes=segment.size_bytes,
        max_timestamp_ms=segment.max_timestamp_ms,
        objects=[RemoteObjectData(*each) for each in segment.objects],
        epochs=[RemoteEpochData(*each) for each in segment.epochs],
    )
