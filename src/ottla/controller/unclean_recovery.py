"""Which partitions recover by themselves although no replica is trusted (KIP-966's unclean recovery). Pure.

    unclean.recovery.strategy   a partition without a trusted replica
    None                        waits for an operator
    Balanced                    waits until every replica is back, and is then led by the most complete one

The most complete log is the longest of those with the highest last leader epoch. With every replica compared,
it holds each acknowledged record that still exists. A replica that is trusted is always elected first: such a
partition never comes here.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.controller.config_sources import BrokerSettings
from ottla.controller.elections import ElectionType
from ottla.controller.image import ClusterImage, PartitionImage, ResourceType
from ottla.model import NO_LEADER, TopicPartition
from ottla.protocol.messages.partitions import ElectLeadersRequest, TopicPartitions

BALANCED: Final = "Balanced"


class LogEnd(NamedTuple):
    """The end of a replica's log. A greater one is more complete."""

    last_epoch: int
    end_offset: int


def recoverable(
    image: ClusterImage, settings: BrokerSettings
) -> Iterator[tuple[TopicPartition, PartitionImage]]:
    """The partitions without a trusted replica whose replicas are all there, where the strategy is Balanced."""
    eligible = image.eligible_brokers
    for topic, partition in image.partitions():
        if partition.leader == NO_LEADER and not partition.isr and eligible.issuperset(partition.replicas):
            overrides = image.config_of(ResourceType.TOPIC, topic.name)
            if settings.topic_config(overrides).unclean_recovery_strategy == BALANCED:
                yield TopicPartition(topic.name, partition.index), partition


def most_complete(partition: PartitionImage, ends: dict[int, LogEnd]) -> int | None:
    """The replica with the most complete log, the preferred one of equals; None if one is not known."""
    if not ends.keys() >= set(partition.replicas):
        return None
    return max(partition.replicas, key=lambda node_id: ends[node_id])


def election_of(partition: TopicPartition, leader: int) -> ElectLeadersRequest:
    """The command that lets this replica lead, unless a trusted one is there by now."""
    wanted = [TopicPartitions(partition.topic, [partition.partition])]
    return ElectLeadersRequest(ElectionType.DESIGNATED, wanted, ottla_leader=leader)
