"""Tiered storage of one broker: a task that gives every partition its turns, and the reads of old records.

Every `remote.log.manager.task.interval.ms` each partition that this broker leads has a turn (leader_work.py),
several partitions at a time; a partition whose turn still goes on is left alone. The objects of deleted topics have
no leader: the live broker with the lowest id deletes them.
"""

import asyncio
import logging
from typing import Final

from ottla.config import BrokerConfig
from ottla.errors import KafkaError
from ottla.runtime.object_store import StoreError
from ottla.runtime.ordered_set import OrderedSet
from ottla.runtime.runtime import Runtime
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.partition_table import Partitions
from ottla.server.quorum.quorum import Quorum
from ottla.server.tiers.cold_reads import ColdReads
from ottla.server.tiers.leader_work import LeaderWork, UncopyableError
from ottla.server.tiers.remote_changes import RemoteChanges
from ottla.server.tiers.store_access import StoreAccess

logger = logging.getLogger(__name__)

# After this many partitions a round lets requests have their turn.
_PARTITIONS_PER_TURN: Final = 64


class Tiers:
    """The remote parts of the partitions of one broker."""

    def __init__(
        self, config: BrokerConfig, quorum: Quorum, partitions: Partitions, runtime: Runtime
    ) -> None:
        self._config = config
        self._quorum = quorum
        self._partitions = partitions
        self.access = StoreAccess(config.tiers, runtime)
        self.changes = RemoteChanges(config.node.id, quorum)
        self.work = LeaderWork(self.access, self.changes, runtime)
        self.reads = ColdReads(config.tiers, self.access)
        self._busy: OrderedSet[HostedPartition] = OrderedSet()
        self._tasks: OrderedSet[asyncio.Task[None]] = OrderedSet()
        self._room = asyncio.Semaphore(config.tiers.copier_thread_pool_size)
        self._rounds: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Copy and delete from now on."""
        self._rounds = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stop where it stands; a copy that is not finished goes on under the next leader."""
        tasks = [*self._tasks, *filter(None, [self._rounds])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.reads.stop()
        self.access.close()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._config.tiers.task_interval_ms / 1000)
            try:
                await self._round()
            except Exception:
                logger.exception("looking after the remote parts of partitions failed")

    async def _round(self) -> None:
        for count, partition in enumerate(self._partitions):
            if self._has_work(partition):
                self._busy.add(partition)
                task = asyncio.get_running_loop().create_task(self._turn(partition))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            if count % _PARTITIONS_PER_TURN == _PARTITIONS_PER_TURN - 1:
                await asyncio.sleep(0)
        await self._delete_orphaned_topics()

    def _has_work(self, partition: HostedPartition) -> bool:
        if partition.is_closed or partition in self._busy or not partition.replica.is_leader:
            return False
        return partition.tier is not None or partition.topic_id in self._quorum.image.remote_logs

    async def _turn(self, partition: HostedPartition) -> None:
        try:
            async with self._room:
                await self._try(partition)
        finally:
            self._busy.discard(partition)

    async def _try(self, partition: HostedPartition) -> None:
        tier, problem = partition.tier, None
        try:
            if tier is not None:
                await self.work.turn(partition, tier)
            else:
                topic = self._quorum.image.remote_logs.get(partition.topic_id)
                remote = None if topic is None else topic.partitions.get(partition.index)
                if remote is not None and not remote.is_empty:
                    await self.work.clear(partition, remote)
        except (StoreError, UncopyableError) as failure:
            problem = str(failure)
        except (KafkaError, OSError) as failure:
            # Another leader, a lost answer, a segment that was deleted meanwhile: the next turn knows.
            logger.debug("the turn of %s ended: %s", partition.name, failure)
            problem = str(failure)
        except Exception as failure:
            logger.exception("the remote part of %s cannot be looked after", partition.name)
            problem = repr(failure)
        if tier is not None:
            if problem is not None and problem != tier.problem and self.access.problem is None:
                logger.warning("%s: %s", partition.name, problem)
            tier.note_problem(problem)

    async def _delete_orphaned_topics(self) -> None:
        """Delete the objects of deleted topics, if this broker is the one that does."""
        image = self._quorum.image
        gone = [topic_id for topic_id in image.remote_logs if topic_id not in image.topics_by_id]
        live = image.live_brokers
        if not gone or not live or live[0].node_id != self._config.node.id:
            return
        for topic_id in gone:
            topic = image.remote_logs[topic_id]
            for index, remote in topic.partitions.items():
                try:
                    await self.work.delete(topic.name, topic_id, index, remote)
                except (StoreError, KafkaError) as failure:
                    logger.debug("objects of the deleted topic %s stay for now: %s", topic.name, failure)
                    return
