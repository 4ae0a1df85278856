"""One turn of a leader that looks after its partition's remote part.

1. After an unclean election: remote records that the leader's log does not have are let go.
2. Retention of the whole partition: what is too old or too much is deleted, remote segments first.
3. Objects that nobody reads any more are deleted.
4. Closed segments below the last stable offset are copied, oldest first.

A failure ends the turn; the next one begins again. Each step is safe to repeat: a copy goes on under the id that it
began with as long as the same leader makes it, deleted objects may be deleted again.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final
from uuid import UUID

from ottla.controller.remote_log import RemoteLog, RemoteObject, RemoteSegment
from ottla.log.files.file_names import LOG
from ottla.log.plan.retention import plan_retention
from ottla.log.segments.segment import Segment
from ottla.log.tiers.object_names import KINDS, object_name
from ottla.log.tiers.segment_copy import plan_copy
from ottla.records.corruption import CorruptRecord
from ottla.runtime.object_store import ObjectStore
from ottla.runtime.runtime import Runtime
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.tiered_part import TieredPart
from ottla.server.tiers.remote_changes import RemoteChanges
from ottla.server.tiers.store_access import StoreAccess

logger = logging.getLogger(__name__)

# Segments whose deletion one command reports.
_DELETIONS_AT_A_TIME: Final = 50


class UncopyableError(Exception):
    """Something is wrong with the local log: nothing more is copied for now."""


class LeaderWork:
    """The work on the remote parts of the partitions that one broker leads. KafkaError, StoreError, OSError."""

    def __init__(self, access: StoreAccess, changes: RemoteChanges, runtime: Runtime) -> None:
        self._access = access
        self._changes = changes
        self._runtime = runtime
        # Since the start: segments and bytes copied, and objects' segments deleted.
        self.copied_segments = 0
        self.copied_bytes = 0
        self.deleted_segments = 0

    async def turn(self, partition: HostedPartition, tier: TieredPart) -> None:
        """Do what there is to do for a partition with tiered storage."""
        diverges_at = tier.divergence()
        if diverges_at is not None:
            logger.warning(
                "%s: remote records from %d on are not in the new leader's log and are let go",
                partition.name,
                diverges_at,
            )
            await self._changes.truncate(partition, diverges_at)
        await self._retain(partition, tier)
        await self._give_up(partition, tier)
        await self.delete(partition.topic, partition.topic_id, partition.index, tier.remote)
        if tier.has_gap:
            raise UncopyableError(
                f"records between the remote part, which ends at {tier.remote.next_offset}, and the local log are "
                "missing: nothing more is copied"
            )
        while (segment := self._next(partition, tier)) is not None:
            await self._copy(partition, tier, segment)

    async def clear(self, partition: HostedPartition, remote: RemoteLog) -> None:
        """Let go of the remote part of a topic whose tiered storage was disabled."""
        if remote.segments or remote.copying is not None:
            logger.info("%s has no tiered storage any more: its remote segments are deleted", partition.name)
            await self._changes.clear(partition)
        await self.delete(partition.topic, partition.topic_id, partition.index, remote)

    async def delete(self, topic: str, topic_id: UUID, index: int, remote: RemoteLog) -> None:
        """Delete the objects of segments that nobody reads any more."""
        for first in range(0, len(remote.deleting), _DELETIONS_AT_A_TIME):
            going = remote.deleting[first : first + _DELETIONS_AT_A_TIME]
            names = [
                object_name(topic, topic_id, index, each.base_offset, each.segment_id, kind)
                for each in going
                for kind in KINDS
            ]
            await self._access.copy(_deletion(names))
            await self._changes.finish_delete(topic_id, index, [each.segment_id for each in going])
            self.deleted_segments += len(going)

    async def _retain(self, partition: HostedPartition, tier: TieredPart) -> None:
        now_ms, start = self._runtime.clock.wall_ms(), tier.log_start_offset
        plan = plan_retention(
            tier.segment_facts(now_ms),
            partition.config,
            log_start_offset=start,
            now_ms=now_ms,
            deletable_up_to=partition.deletable_up_to,
        )
        if plan.log_start_offset > start:
            for deletion in plan.deletions:
                logger.info(
                    "deleting segment %d of %s, remote or local: %s",
                    deletion.base_offset, partition.name, deletion.reason.value,
                )  # fmt: skip
            await self._changes.advance_start(partition, plan.log_start_offset)
            partition.advance_log_start_offset(plan.log_start_offset)

    async def _give_up(self, partition: HostedPartition, tier: TieredPart) -> None:
        """Give a copy up that another leader began, or whose segment is not copied any more."""
        begun, segment = tier.remote.copying, self._next(partition, tier)
        if begun is not None and (segment is None or self._begun(partition, tier, segment) is not begun):
            await self._changes.give_up(partition, begun.segment_id)

    def _next(self, partition: HostedPartition, tier: TieredPart) -> Segment | None:
        if partition.is_closed or partition.config.remote_log_copy_disable or partition.tier is not tier:
            return None
        if not partition.replica.is_leader:
            return None
        return tier.next_to_copy(min(partition.high_watermark.value, partition.last_stable_offset))

    async def _copy(self, partition: HostedPartition, tier: TieredPart, segment: Segment) -> None:
        begun = self._begun(partition, tier, segment)
        log = partition.log
        place = partition.topic, partition.topic_id, partition.index, begun.base_offset, begun.segment_id
        copy = plan_copy(log, segment, partial(object_name, *place))
        await self._changes.start_copy(partition, begun, tier.log_start_offset)
        max_timestamp_ms = segment.largest_timestamp[0]
        try:
            objects, epochs = await self._access.copy(copy.run)
        except CorruptRecord as problem:
            # Somebody looks again, and repairs the segment from another replica if it is damaged.
            log.status.note_unread(segment.base_offset)
            raise UncopyableError(f"segment {segment.base_offset} is not copied: {problem}") from problem
        copied = replace(
            begun,
            size_bytes=next(each.size_bytes for each in objects if each.kind == LOG),
            max_timestamp_ms=max_timestamp_ms,
            objects=tuple(RemoteObject(*each) for each in objects),
            epochs=epochs,
        )
        await self._changes.finish_copy(partition, copied)
        self.copied_segments += 1
        self.copied_bytes += copied.size_bytes

    def _begun(self, partition: HostedPartition, tier: TieredPart, segment: Segment) -> RemoteSegment:
        """The copy of a segment: the one that this leader began, if it did, else a new one."""
        begun, epoch = tier.remote.copying, partition.replica.leader_epoch
        wanted = segment.base_offset, segment.next_offset, epoch
        if begun is not None and (begun.base_offset, begun.next_offset, begun.leader_epoch) == wanted:
            return begun
        return RemoteSegment(self._runtime.random.uuid4(), *wanted)


def _deletion(names: Sequence[str]) -> Callable[[ObjectStore], None]:
    return lambda store: store.delete(names)
