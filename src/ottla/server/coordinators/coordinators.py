"""The group coordinators of this broker: one shard per partition of `__consumer_offsets` that it leads.

The topic is created when the first client asks for a coordinator. A broker that has just started waits a
little for the other brokers, so that the topic gets as many replicas as it should. A group's shard follows
from the group id, so every broker finds it without asking (GRP-1). Shards are loaded one after the other: the
first ones serve while the last ones load, and all other requests are served in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ottla.config import BrokerConfig
from ottla.controller.image import ClusterImage, TopicImage, topic_changes
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.runtime.clock import Clock
from ottla.runtime.runtime import Runtime
from ottla.server.coordinators.java_hash import partition_for
from ottla.server.partitions.flushing import Flusher
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.partition_table import Partitions
from ottla.server.quorum.quorum import Quorum

if TYPE_CHECKING:
    from ottla.server.coordinators.group_shard import GroupShard

logger = logging.getLogger(__name__)

OFFSETS_TOPIC: Final = "__consumer_offsets"
_CREATE_TIMEOUT_MS: Final = 10_000
# A cluster that starts is complete by then, or needs an operator.
_GATHERING_MS: Final = 10_000

# Hashing a name takes longer than answering a heartbeat; groups are asked about again and again.
_partition_for = lru_cache(maxsize=1 << 16)(partition_for)


class Coordinators:
    """Finds the shard of a group; loads shards as their partitions come, lets them go as they leave."""

    def __init__(
        self,
        config: BrokerConfig,
        quorum: Quorum,
        partitions: Partitions,
        flusher: Flusher,
        runtime: Runtime,
    ) -> None:
        self._config = config
        self._quorum = quorum
        self._partitions = partitions
        self._flusher = flusher
        self._now_ms = runtime.clock.wall_ms
        self._steady_ms = _steady(runtime.clock)
        self._new_uuid = runtime.random.uuid4
        self._started_ms = self._steady_ms()
        self._shards: dict[int, GroupShard] = {}
        self._unloaded: deque[GroupShard] = deque()
        self._loading: asyncio.Task[None] | None = None
        self._is_stopped = False

    def _new_member_id(self, prefix: str) -> str:
        return f"{prefix}-{self._new_uuid()}"

    def start(self) -> None:
        """Load the shards of what this broker leads already."""
        self._take_partitions(self._quorum.image)

    async def stop(self) -> None:
        """Refuse all waiting requests."""
        self._is_stopped = True
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
        for shard in self._shards.values():
            shard.unload()

    def apply(self, before: ClusterImage, after: ClusterImage) -> None:
        """Follow a change of metadata.

        New partitions to coordinate, and topics whose offsets are not needed any more.
        """
        self._take_partitions(after)
        removed = {topic.name for topic in topic_changes(before, after).removed} - after.topics_by_name.keys()
        if removed:
            for shard in self._shards.values():
                shard.forget_topics(removed)

    def leader_of(self, group_id: str) -> int:
        """The broker that coordinates a group. Raises KafkaError while there is no offsets topic."""
        topic = self._offsets_topic(self._quorum.image)
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return topic.partitions[_partition_for(group_id, len(topic.partitions))].leader

    def shard_of(self, group_id: str) -> GroupShard:
        """The shard that answers for a group; KafkaError when it is not here."""
        topic = self._offsets_topic(self._quorum.image)
        if topic is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        index = _partition_for(group_id, len(topic.partitions))
        shard = self._shards.get(index)
        if shard is not None:
            return shard
        if topic.partitions[index].leader != self._config.node.id or self._is_stopped:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        # The log may have been opened since: a full disk has room again, or the topic is just being created.
        self._take(index)
        if index not in self._shards:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return self._shards[index]

    @property
    def shards(self) -> list[GroupShard]:
        """All of this broker's."""
        return list(self._shards.values())

    async def make_topic(self) -> None:
        """See that the offsets topic exists; KafkaError if it cannot be made now."""
        if self._offsets_topic(self._quorum.image) is not None:
            return
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self._config.groups.offsets_topic_segment_bytes),
        }
        topic = CreatableTopic(
            name=OFFSETS_TOPIC,
            num_partitions=self._config.groups.offsets_topic_num_partitions,
            replication_factor=self._replication_factor(),
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
        )
        try:
            response = await self._quorum.submit(CreateTopicsRequest([topic], _CREATE_TIMEOUT_MS))
        except KafkaError as error:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from error
        result = response.topics[0]
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            logger.error("%s could not be created: %s", OFFSETS_TOPIC, result.error_message)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, result.error_message)

    def _replication_factor(self) -> int:
        """As many replicas as are asked for, or as there are brokers."""
        image, config = self._quorum.image, self._config
        wanted = min(
            config.groups.offsets_topic_replication_factor, max(len(image.brokers), len(config.node.voters))
        )
        live = len(image.live_brokers)
        if live < wanted and self._steady_ms() - self._started_ms < _GATHERING_MS:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"{live} of {wanted} brokers are there that should have {OFFSETS_TOPIC}",
            )
        return min(wanted, live)

    def _offsets_topic(self, image: ClusterImage) -> TopicImage | None:
        return image.topics_by_name.get(OFFSETS_TOPIC)

    def _take_partitions(self, image: ClusterImage) -> None:
        """Coordinate what this broker leads, and nothing else.

        Another leadership begins with what the log says then.
        """
        for index, shard in list(self._shards.items()):
            if not shard.is_current:
                self._shards.pop(index).unload()
        topic = self._offsets_topic(image)
        for placed in topic.partitions if topic is not None else ():
            if placed.index not in self._shards:
                self._take(placed.index)

    def _take(self, index: int) -> None:
        partition = self._partitions.find(OFFSETS_TOPIC, index)
        if partition is None or not partition.replica.is_leader or self._is_stopped:
            return
        shard = self._shards[index] = self._new_shard(partition)
        if not partition.log.log_end_offset:
            # Nothing to replay: the first member need not be told to come back.
            shard.begin()
            return
        self._unloaded.append(shard)
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load())
            self._loading.add_done_callback(self._loaded)

    def _new_shard(self, partition: HostedPartition) -> GroupShard:
        # Imported here: a broker without groups starts faster without the machine that coordinates them.
        from ottla.group.coordinator import GroupCoordinator
        from ottla.server.coordinators.group_shard import GroupShard

        machine = GroupCoordinator(self._config.groups, self._new_member_id)
        return GroupShard(partition, machine, self._flusher, self._now_ms, self._steady_ms)

    async def _load(self) -> None:
        while self._unloaded:
            shard = self._unloaded.popleft()
            try:
                await shard.load()
            except Exception:
                # Its groups stay without a coordinator; the others need not.
                logger.exception("%s could not be loaded", shard.partition.name)
                continue
            self._forget_topics_that_went(shard)

    def _loaded(self, _: asyncio.Task[None]) -> None:
        self._loading = None

    def _forget_topics_that_went(self, shard: GroupShard) -> None:
        """Forget offsets in topics that were deleted while these groups had no coordinator.

        None of them can be a topic that we only do not know yet: whoever accepted the offset knew the topic,
        and led this partition then, so it knew less of the metadata than we, who lead it now.
        """
        gone = shard.committed_topics - self._quorum.image.topics_by_name.keys()
        if gone:
            shard.forget_topics(gone)


def _steady(clock: Clock) -> Callable[[], int]:
    """The time of day as it goes on from now, whoever sets the clock.

    A jump must neither end sessions nor prolong them.
    """
    begun_ms = clock.wall_ms() - clock.boot_ms()
    return lambda: begun_ms + clock.boot_ms()
