"""The group coordinators of this broker: one shard per partition of `__consumer_offsets` that it leads.

The topic is made when the first client asks for a coordinator. A group's shard follows from its name, so every broker
finds it without asking (GRP-1).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final
from uuid import uuid4

from ottla.config import BrokerConfig
from ottla.controller.image import ClusterImage, topic_changes
from ottla.errors import ErrorCode, KafkaError
from ottla.group.coordinator import GroupCoordinator, TopicsDeleted
from ottla.group.settings import GroupSettings
from ottla.protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.server.group_shard import GroupShard
from ottla.server.java_hash import partition_for
from ottla.server.partitions import Partitions
from ottla.server.quorum import Quorum

logger = logging.getLogger(__name__)

OFFSETS_TOPIC: Final = "__consumer_offsets"
_CREATE_TIMEOUT_MS: Final = 10_000


class Coordinators:
    """Finds the shard of a group; loads shards as their partitions come, lets them go as they leave."""

    def __init__(
        self, config: BrokerConfig, quorum: Quorum, partitions: Partitions, now_ms: Callable[[], int]
    ) -> None:
        self._config = config
        self._quorum = quorum
        self._partitions = partitions
        self._now_ms = now_ms
        self._shards: dict[int, GroupShard] = {}
        self._loading: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Load the shards of what this broker leads already."""
        self._take_partitions(self._quorum.image)

    async def stop(self) -> None:
        """Send everybody away who waits."""
        for task in self._loading:
            task.cancel()
        await asyncio.gather(*self._loading, return_exceptions=True)
        for shard in self._shards.values():
            shard.unload()

    def apply(self, before: ClusterImage, after: ClusterImage) -> None:
        """Follow a change of metadata: new partitions to coordinate, topics whose offsets nobody needs any more."""
        changes = topic_changes(before, after)
        self._take_partitions(after)
        removed = [topic.name for topic in changes.removed if topic.name not in after.topics_by_name]
        if removed:
            for shard in self._shards.values():
                shard.tell(TopicsDeleted(frozenset(removed)))

    def partition_of(self, group_id: str) -> int:
        """The partition of the offsets topic that holds a group. The topic must be there."""
        return partition_for(group_id, len(self._quorum.image.topics_by_name[OFFSETS_TOPIC].partitions))

    def shard_of(self, group_id: str) -> GroupShard:
        """The shard that answers for a group; KafkaError when it is not here."""
        if OFFSETS_TOPIC not in self._quorum.image.topics_by_name:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        shard = self._shards.get(self.partition_of(group_id))
        if shard is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return shard

    @property
    def shards(self) -> list[GroupShard]:
        """All of this broker's."""
        return list(self._shards.values())

    async def make_topic(self) -> None:
        """See that the offsets topic exists."""
        if OFFSETS_TOPIC in self._quorum.image.topics_by_name:
            return
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self._config.offsets_topic_segment_bytes),
        }
        topic = CreatableTopic(
            name=OFFSETS_TOPIC,
            num_partitions=self._config.offsets_topic_num_partitions,
            replication_factor=min(
                self._config.offsets_topic_replication_factor, len(self._quorum.image.live_brokers)
            ),
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
        )
        response = await self._quorum.submit(CreateTopicsRequest([topic], _CREATE_TIMEOUT_MS))
        error = response.topics[0].error_code
        if error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            logger.error("%s could not be created: %s", OFFSETS_TOPIC, response.topics[0].error_message)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, response.topics[0].error_message)

    def _take_partitions(self, image: ClusterImage) -> None:
        topic = image.topics_by_name.get(OFFSETS_TOPIC)
        led = {
            placed.index
            for placed in (topic.partitions if topic is not None else ())
            if placed.leader == self._config.node_id
        }
        for index in self._shards.keys() - led:
            self._shards.pop(index).unload()
        for index in sorted(led - self._shards.keys()):
            self._load(index)

    def _load(self, index: int) -> None:
        machine = GroupCoordinator(GroupSettings.of(self._config), _new_member_id)
        shard = GroupShard(self._partitions.by_name(OFFSETS_TOPIC, index), machine, self._now_ms)
        self._shards[index] = shard
        if not shard.partition.log.log_end_offset:
            # Nothing to replay: the first member need not be told to come back.
            shard.begin()
            return
        task = asyncio.get_running_loop().create_task(shard.load())
        self._loading.add(task)
        task.add_done_callback(self._loading.discard)


def _new_member_id(prefix: str) -> str:
    return f"{prefix}-{uuid4()}"
