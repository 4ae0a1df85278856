"""How a partition changes when its brokers come, go or catch up (CTL-3, REP-7).

Rules, whatever the reason for a change:
- A broker that is not eligible (fenced, or about to stop) neither leads nor is in sync, unless no replica in
  sync would be left: then the replicas in sync stay, for they hold the acknowledged records, and the
  partition has no leader. The ISR is never empty.
- The leader stays if it can. Else the first replica, in their order, that is in sync leads.
- A replica that is not in sync leads only where the topic allows it: records that only others hold are lost.
- A move is finished once every added replica is in sync and one of those that stay can lead: the removed ones
  go.
- The leader epoch rises with a new leader, with none, and where replicas go.
"""

from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from ottla.controller.config_sources import BrokerSettings
from ottla.controller.decision import Decision
from ottla.controller.delta import changed_partition
from ottla.controller.image import ClusterImage, PartitionImage, ResourceType, TopicImage
from ottla.controller.records import NO_LEADER_CHANGE, PartitionChangeRecord
from ottla.model import NO_LEADER, TopicPartition


def elected(partition: PartitionImage, eligible: AbstractSet[int]) -> PartitionImage:
    """The partition as it has to be if only these brokers may lead: its ISR, and a leader out of it or
    none.
    """
    isr = tuple(node_id for node_id in partition.isr if node_id in eligible)
    if not isr:
        return replace(partition, leader=NO_LEADER)
    leader = partition.leader
    if leader not in isr:
        leader = next(node_id for node_id in partition.replicas if node_id in isr)
    return replace(partition, isr=isr, leader=leader)


def uncleanly_elected(partition: PartitionImage, eligible: AbstractSet[int]) -> PartitionImage | None:
    """The partition led by the first replica that is there at all; None if none is."""
    leader = next((node_id for node_id in partition.replicas if node_id in eligible), None)
    return None if leader is None else replace(partition, isr=(leader,), leader=leader)


def finished(partition: PartitionImage, eligible: AbstractSet[int]) -> PartitionImage:
    """The partition with its move finished, if it has come so far."""
    if not partition.is_moving or not set(partition.adding_replicas) <= set(partition.isr):
        return partition
    isr = tuple(node_id for node_id in partition.isr if node_id not in partition.removing_replicas)
    if not isr:
        return partition
    moved = elected(
        replace(
            partition,
            replicas=partition.target_replicas,
            isr=isr,
            adding_replicas=(),
            removing_replicas=(),
        ),
        eligible,
    )
    return partition if moved.leader == NO_LEADER else moved


def change_record(
    topic: TopicImage, before: PartitionImage, after: PartitionImage, *, renews_leader: bool = False
) -> PartitionChangeRecord:
    """The changed fields between two versions of a partition, epochs apart; the partition epoch rises in any
    case.
    """
    drops_replicas = before.replicas != after.replicas and not set(before.replicas) <= set(after.replicas)
    names_leader = renews_leader or after.leader != before.leader or drops_replicas
    return PartitionChangeRecord(
        partition_id=before.index,
        topic_id=topic.topic_id,
        isr=_difference(before.isr, after.isr),
        leader=after.leader if names_leader else NO_LEADER_CHANGE,
        replicas=_difference(before.replicas, after.replicas),
        removing_replicas=_difference(before.removing_replicas, after.removing_replicas),
        adding_replicas=_difference(before.adding_replicas, after.adding_replicas),
    )


def _difference(before: tuple[int, ...], after: tuple[int, ...]) -> list[int] | None:
    return None if before == after else list(after)


class PartitionChanges:
    """The changes of partitions that one command decides on. `eligible` are the brokers that may lead
    afterwards.
    """

    def __init__(self, image: ClusterImage, eligible: AbstractSet[int], settings: BrokerSettings) -> None:
        self.records: list[Any] = []
        self.unclean_elections: list[TopicPartition] = []
        self.eligible = eligible
        self._image = image
        self._settings = settings
        self._allows_unclean: dict[str, bool] = {}

    def decision(self, before: list[Any], response: Any) -> Decision:
        """These changes, after other records, as the decision of a command."""
        return Decision([*before, *self.records], response, unclean_elections=tuple(self.unclean_elections))

    def elect(self, topic: TopicImage, partition: PartitionImage) -> PartitionImage:
        """Bring ISR and leader in step with the eligible brokers; uncleanly where that is the only way and
        allowed.
        """
        after = elected(partition, self.eligible)
        if after.leader == NO_LEADER and self.allows_unclean(topic):
            return self.elect_uncleanly(topic, partition) or self.put(topic, partition, after)
        return self.put(topic, partition, after)

    def elect_uncleanly(self, topic: TopicImage, partition: PartitionImage) -> PartitionImage | None:
        """Let any replica lead that is there; None, and nothing changed, if none is."""
        after = uncleanly_elected(partition, self.eligible)
        if after is None:
            return None
        self.unclean_elections.append(TopicPartition(topic.name, partition.index))
        return self.put(topic, partition, after, renews_leader=True)

    def put(
        self,
        topic: TopicImage,
        before: PartitionImage,
        after: PartitionImage,
        *,
        renews_leader: bool = False,
        renews_epoch: bool = False,
    ) -> PartitionImage:
        """Change a partition; what it will be, epochs and all, with a move finished that can be."""
        after = finished(after, self.eligible)
        if before == after and not renews_leader and not renews_epoch:
            return before
        record = change_record(topic, before, after, renews_leader=renews_leader)
        self.records.append(record)
        return changed_partition(before, record)

    def allows_unclean(self, topic: TopicImage) -> bool:
        """Whether the topic may be led by a replica that is not in sync."""
        allowed = self._allows_unclean.get(topic.name)
        if allowed is None:
            overrides = self._image.config_of(ResourceType.TOPIC, topic.name)
            allowed = self._settings.topic_config(overrides).unclean_leader_election_enable
            self._allows_unclean[topic.name] = allowed
        return allowed
