"""The queues of one topic's partitions, and records that wait until the partitions are known."""

from __future__ import annotations

from typing import NamedTuple

from ottla.client.producer.machine.batch import ProducerBatch
from ottla.client.producer.machine.partition_queue import PartitionQueue
from ottla.client.producer.machine.partitioners import TopicPartitions


class TopicQueues:
    """A topic's partitions, for the partitioner and for the sender.

    `sticky` is the batch that records without a key went to last; when it is closed there is no room in it.
    `places` are the queues of keys that came before, if the partitioner is one that would say the same again.
    """

    __slots__ = ("partitions", "places", "queues", "sticky")

    def __init__(self, partitions: TopicPartitions) -> None:
        self.partitions = partitions
        self.queues: list[PartitionQueue] = []
        self.sticky: ProducerBatch | None = None
        self.places: dict[bytes, PartitionQueue] = {}


class UnassignedRecords(NamedTuple):
    """Records of a topic whose partitions are not known yet; each may name its partition."""

    batch: ProducerBatch
    partitions: list[int | None]
