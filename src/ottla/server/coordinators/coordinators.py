"""The group coordinators of this broker: one shard per partition of `__consumer_offsets` that it leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.config import BrokerConfig
from ottla.controller.image import ClusterImage, topic_changes
from ottla.errors import ErrorCode, KafkaError
from ottla.records.control import TransactionMarker
from ottla.runtime.clock import Clock
from ottla.runtime.runtime import Runtime
from ottla.server.coordinators.internal_topic import InternalTopic, TopicPlan
from ottla.server.coordinators.shards import Shards
from ottla.server.partitions.flushing import Flusher
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.partition_table import Partitions
from ottla.server.quorum.quorum import Quorum

if TYPE_CHECKING:
    from ottla.server.coordinators.group_shard import GroupShard

OFFSETS_TOPIC: Final = "__consumer_offsets"


class Coordinators:
    """Finds the shard of a group, and lets the shards know of topics that are gone."""

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
        self._flusher = flusher
        self._now_ms = runtime.clock.wall_ms
        self._steady_ms = steady(runtime.clock)
        self._new_uuid = runtime.random.uuid4
        self.topic = InternalTopic(_plan(config), quorum, len(config.node.voters), self._steady_ms)
        self._shards = Shards(self.topic, quorum, partitions, self._new_shard, self._forget_topics_that_went)

    def _new_member_id(self, prefix: str) -> str:
        return f"{prefix}-{self._new_uuid()}"

    def start(self) -> None:
        """Load the shards of what this broker leads already."""
        self._shards.take_partitions(self._quorum.image)

    async def stop(self) -> None:
        """Refuse all waiting requests."""
        await self._shards.stop()

    def apply(self, before: ClusterImage, after: ClusterImage) -> None:
        """Follow a change of metadata.

        New partitions to coordinate, and topics whose offsets are not needed any more.
        """
        self._shards.take_partitions(after)
        removed = {topic.name for topic in topic_changes(before, after).removed} - after.topics_by_name.keys()
        if removed:
            for shard in self.shards:
                shard.forget_topics(removed)

    def shard_of(self, group_id: str) -> GroupShard:
        """The shard that answers for a group; KafkaError when it is not here."""
        return self._shards.of(group_id)

    def shard_at(self, index: int) -> GroupShard | None:
        """The shard of a partition of the topic, if this broker has it."""
        return self._shards.at(index)

    def end_transaction(self, index: int, marker: TransactionMarker) -> None:
        """Write the marker of a producer's transaction into a partition of the topic; KafkaError if it cannot be
        written now.
        """
        shard = self.shard_at(index)
        if shard is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        shard.end_transaction(marker)

    @property
    def shards(self) -> list[GroupShard]:
        """All of this broker's."""
        return self._shards.all

    def _new_shard(self, partition: HostedPartition) -> GroupShard:
        # Imported here: a broker without groups starts faster without the machine that coordinates them.
        from ottla.group.coordinator import GroupCoordinator
        from ottla.server.coordinators.group_shard import GroupShard

        machine = GroupCoordinator(self._config.groups, self._new_member_id)
        return GroupShard(partition, machine, self._flusher, self._now_ms, self._steady_ms)

    def _forget_topics_that_went(self, shard: GroupShard) -> None:
        """Forget offsets in topics that were deleted while these groups had no coordinator.

        None of them can be a topic that we only do not know yet: whoever accepted the offset knew the topic,
        and led this partition then, so it knew less of the metadata than we, who lead it now.
        """
        gone = shard.committed_topics - self._quorum.image.topics_by_name.keys()
        if gone:
            shard.forget_topics(gone)


def _plan(config: BrokerConfig) -> TopicPlan:
    groups = config.groups
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(groups.offsets_topic_segment_bytes),
    }
    return TopicPlan(
        OFFSETS_TOPIC, groups.offsets_topic_num_partitions, groups.offsets_topic_replication_factor, configs
    )


def steady(clock: Clock) -> Callable[[], int]:
    """The time of day as it goes on from now, whoever sets the clock.

    A jump must neither end sessions nor prolong them.
    """
    begun_ms = clock.wall_ms() - clock.boot_ms()
    return lambda: begun_ms + clock.boot_ms()
