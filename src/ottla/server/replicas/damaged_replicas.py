"""Replicas with records that cannot be read: this broker gives up their leadership, and repairs them.

Reads that fail, the scrubber, and followers that do not get on are reasons to look at a segment
(`Status.unread_offset`). What a look finds, and what follows:

    the segment is whole                          nothing: the read failed for another reason
    it is damaged, another member can lead        the controller takes the replica out of ISR and ELR, and lets it in
                                                  no more (controller/lost_replicas.py)
    it is damaged, no other member can lead       it stays, and the log says so; again when there is another member

A replica that is out stays so over a restart, until this broker says that it is whole. The broker reads all of it. The
segment with the first damage is set aside (log/scrubbing/quarantine.py), the log is truncated there, and the records
are fetched from the leader like any others. That waits until the ISR has as many members as
min.insync.replicas asks for, or as there are other replicas: until then the readable rest of this log may be needed.
It also waits for a while if the disk refuses to read, and longer if the same replica was repaired before: a disk that
reads again has nothing to be repaired.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from ottla.config import BrokerConfig
from ottla.controller.image import DAMAGED_DIRECTORY, ClusterImage, topic_changes
from ottla.errors import ErrorCode, KafkaError
from ottla.log.scrubbing.segment_check import Damage, SegmentCheck
from ottla.log.segments.segment import Segment
from ottla.model import NO_LEADER
from ottla.replication.stuck_followers import StuckFollowers
from ottla.runtime.clock import monotonic_ms
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.partition_table import Partitions
from ottla.server.quorum.quorum import Quorum
from ottla.server.quorum.replica_directories import assignment
from ottla.server.replicas.fetchers import Fetchers

logger = logging.getLogger(__name__)

_LOOK_S: Final = 1.0
_ATTEMPT_MS: Final = 1_000
# How long a disk may refuse to read before its records are fetched again; twice as long after each repair.
_PATIENCE_MS: Final = 30_000
# A replica that cannot be repaired now is read again so often: its disk may read again.
_AGAIN_MS: Final = 10_000
_PARTITIONS_PER_TURN: Final = 64


class _Damaged:
    """A replica that is out of ISR and ELR until this broker has repaired it."""

    __slots__ = ("again_ms", "since_ms", "whole")

    def __init__(self, now_ms: int) -> None:
        self.since_ms = now_ms
        self.again_ms = now_ms
        # The segments that were found whole since.
        self.whole: set[Segment] = set()

    def rest(self, now_ms: int) -> None:
        """The replica cannot be repaired now."""
        self.again_ms = now_ms + _AGAIN_MS


class DamagedReplicas:
    """Those of one broker."""

    def __init__(
        self,
        config: BrokerConfig,
        quorum: Quorum,
        partitions: Partitions,
        fetchers: Fetchers,
        directory_id: UUID,
    ) -> None:
        self._node_id = config.node.id
        self._quorum = quorum
        self._partitions = partitions
        self._fetchers = fetchers
        self._directory_id = directory_id
        self._followers: dict[HostedPartition, StuckFollowers] = {}
        self._only_copies: dict[HostedPartition, Damage] = {}
        # As the controller has them, by topic id and partition.
        self._damaged: dict[tuple[UUID, int], _Damaged] = {}
        self._repairs: dict[tuple[UUID, int], int] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look from now on."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stop where it stands."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def apply(self, before: ClusterImage, after: ClusterImage) -> None:
        """Learn which replicas of this broker are out."""
        changes = topic_changes(before, after)
        gone = {topic.topic_id for topic in changes.removed}
        for key in [key for key in self._damaged if key[0] in gone]:
            del self._damaged[key]
        for topic in changes.changed:
            for placed in topic.partitions:
                key = topic.topic_id, placed.index
                if not placed.is_damaged_on(self._node_id):
                    self._damaged.pop(key, None)
                elif key not in self._damaged:
                    self._damaged[key] = _Damaged(monotonic_ms())

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                await self._look_at_followers()
                for partition in self._partitions:
                    if partition.log.status.unread_offset is not None and not partition.is_closed:
                        await self._look_at(partition)
                await self._repair_all()
            except Exception:
                logger.exception("looking after damaged replicas failed; the next turn is in %.1f s", _LOOK_S)

    # What is damaged

    async def _look_at_followers(self) -> None:
        """Suspect the records that a follower does not get on with."""
        before, self._followers = self._followers, {}
        for count, partition in enumerate(self._partitions):
            replica, end = partition.replica, partition.log.log_end_offset
            if any(state.log_end_offset < end for state in replica.followers.values()):
                stuck = self._followers[partition] = before.get(partition) or StuckFollowers()
                for offset in stuck.look(replica.followers, end):
                    partition.log.status.note_unread(offset)
            if count % _PARTITIONS_PER_TURN == _PARTITIONS_PER_TURN - 1:
                await asyncio.sleep(0)
        for partition in list(self._only_copies):
            log, damaged = partition.log, self._only_copies[partition].segment
            if partition.is_closed or damaged not in tuple(log.extent.segments):
                del self._only_copies[partition]
                log.status.note_damage(is_damaged=False)
            elif len(partition.replica.isr) > 1:
                log.status.note_unread(damaged.base_offset)

    async def _look_at(self, partition: HostedPartition) -> None:
        """Read the segment in which a read failed, and give the replica up if it is damaged."""
        log = partition.log
        offset = log.status.take_unread()
        if offset is None or (partition.topic_id, partition.index) in self._damaged:
            return
        damage = await self._first_damage(partition, log.extent.segments.from_offset(offset)[:1])
        if damage is None:
            if self._only_copies.pop(partition, None) is not None:
                log.status.note_damage(is_damaged=False)
            return
        log.status.note_damage(is_damaged=True)
        is_news = self._only_copies.pop(partition, None) is None
        if is_news:
            logger.error("%s has a damaged segment: %s", partition.name, damage)
        error = await self._tell(partition, DAMAGED_DIRECTORY)
        if error is ErrorCode.NONE:
            logger.error("%s: this replica leaves the in-sync replicas until it is repaired", partition.name)
        elif error is ErrorCode.INELIGIBLE_REPLICA:
            self._only_copies[partition] = damage
            if is_news:
                logger.error(
                    "%s stays in use although it is damaged: no other replica could lead, or there is none",
                    partition.name,
                )
        elif not partition.is_closed:
            log.status.note_unread(offset)

    async def _first_damage(self, partition: HostedPartition, segments: Iterable[Segment]) -> Damage | None:
        """The first damage in these segments of a log; None if there is none, or the log is closed."""
        for segment in segments:
            # Twice: the segment may have been truncated and written again during the first check.
            for _ in range(2):
                damage = await self._checked(partition, segment)
                if damage is None:
                    break
            else:
                return damage
        return None

    async def _checked(self, partition: HostedPartition, segment: Segment) -> Damage | None:
        log = partition.log
        if log.status.is_closed or segment not in tuple(log.extent.segments):
            return None
        try:
            check = SegmentCheck(segment)
        except OSError as problem:
            return Damage(segment, 0, segment.base_offset, is_unreadable=True, problem=str(problem))
        while not check.is_complete:
            await asyncio.to_thread(check.step)
        is_current = not log.status.is_closed and check.is_current(log.extent.segments)
        return check.damage if is_current else None

    async def _tell(self, partition: HostedPartition, directory: UUID) -> ErrorCode:
        """Tell the controller where a replica is, once; its answer."""
        replica = partition.topic_id, partition.index
        request = assignment(self._node_id, self._quorum.broker_epoch, directory, [replica])
        try:
            response = await self._quorum.submit(request, timeout_ms=_ATTEMPT_MS)
        except KafkaError as error:
            return error.code
        if response.error_code:
            return ErrorCode(response.error_code)
        return ErrorCode(response.directories[0].topics[0].partitions[0].error_code)

    # Repairs

    async def _repair_all(self) -> None:
        for key, state in list(self._damaged.items()):
            partition = self._partition(key)
            if partition is None or partition.is_closed or monotonic_ms() < state.again_ms:
                continue
            if partition.log.extent.first_lost_offset is None:
                await self._repair(key, state, partition)

    def _partition(self, key: tuple[UUID, int]) -> HostedPartition | None:
        topic = self._quorum.image.topics_by_id.get(key[0])
        return None if topic is None else self._partitions.find(topic.name, key[1])

    async def _repair(self, key: tuple[UUID, int], state: _Damaged, partition: HostedPartition) -> None:
        """Have the first damaged segment of a replica fetched again; say that the replica is whole if none is."""
        segments = partition.log.extent.segments
        damage = None
        partition.log.status.note_damage(is_damaged=True)
        for segment in tuple(segments):
            if segment in state.whole:
                continue
            damage = await self._first_damage(partition, [segment])
            if damage is not None:
                break
            if segment is not segments.active:
                state.whole.add(segment)
        if self._damaged.get(key) is not state or partition.is_closed:
            return
        if damage is None:
            if await self._tell(partition, self._directory_id) is ErrorCode.NONE:
                partition.log.status.note_damage(is_damaged=False)
                logger.warning("%s is whole again, and may be in sync", partition.name)
        elif self._may_repair(key, state, partition, damage):
            self._set_aside(key, partition, damage)
        else:
            state.rest(monotonic_ms())

    def _may_repair(
        self, key: tuple[UUID, int], state: _Damaged, partition: HostedPartition, damage: Damage
    ) -> bool:
        """Whether other replicas have the records, and this one has been given its chance."""
        replica = partition.replica
        if replica.leader in (NO_LEADER, self._node_id) or self._node_id in replica.isr:
            return False
        wanted = min(partition.config.min_insync_replicas, len(replica.replicas) - 1)
        repairs = self._repairs.get(key, 0)
        patience_ms = (_PATIENCE_MS << repairs) if damage.is_unreadable or repairs else 0
        return len(replica.isr) >= wanted and monotonic_ms() >= state.since_ms + patience_ms

    def _set_aside(self, key: tuple[UUID, int], partition: HostedPartition, damage: Damage) -> None:
        try:
            kept = partition.log.set_aside(damage)
        except OSError as problem:
            logger.error("the damaged segment of %s cannot be set aside: %s", partition.name, problem)
            return
        self._repairs[key] = self._repairs.get(key, 0) + 1
        logger.error(
            "%s is fetched again from offset %d on; the damaged segment is kept in %s",
            partition.name, damage.segment.base_offset, kept,
        )  # fmt: skip
        self._fetchers.restart(partition)
