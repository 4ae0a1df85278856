"""The table of hosted partitions, by name and by topic id."""

from collections.abc import Callable, Iterator
from uuid import UUID

from ottla.controller.image import ClusterImage, TopicImage
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime.ordered_set import OrderedSet
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.partition_counts import PartitionCounts


class Partitions:
    """Finds a hosted partition. A partition that exists elsewhere has another error than one that does not
    exist.
    """

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image
        self._by_name: dict[tuple[str, int], HostedPartition] = {}
        self._by_id: dict[tuple[UUID, int], HostedPartition] = {}
        # The topics that have a log which could not be opened.
        self.unopened: OrderedSet[str] = OrderedSet()
        # Grows with every partition that is added or removed, and when one begins to check schemas; for decisions
        # that are remembered (gate/basis.py).
        self.version = 0
        # What the partitions that are not hosted here any more have counted: totals of a broker never fall.
        self.past_counts = PartitionCounts()

    def __iter__(self) -> Iterator[HostedPartition]:
        return iter(tuple(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def by_name(self, topic: str, index: int) -> HostedPartition:
        """Raises UNKNOWN_TOPIC_OR_PARTITION, or another error for a partition that exists and is not open."""
        partition = self._by_name.get((topic, index))
        if partition is not None:
            return partition
        known = self._image().topics_by_name.get(topic)
        if known is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic}")
        raise self._absence(known, index)

    def by_id(self, topic_id: UUID, index: int) -> HostedPartition:
        """Raises UNKNOWN_TOPIC_ID; where only the partition is unknown, as `by_name` does."""
        partition = self._by_id.get((topic_id, index))
        if partition is not None:
            return partition
        topic = self._image().topics_by_id.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        raise self._absence(topic, index)

    def find(self, topic: str, index: int) -> HostedPartition | None:
        """The partition if it is hosted here."""
        return self._by_name.get((topic, index))

    def add(self, partition: HostedPartition) -> None:
        """Serve a partition from now on."""
        self._by_name[partition.topic, partition.index] = partition
        self._by_id[partition.topic_id, partition.index] = partition
        self.version += 1

    def remove(self, partition: HostedPartition) -> None:
        """Stop serving it."""
        del self._by_name[partition.topic, partition.index]
        del self._by_id[partition.topic_id, partition.index]
        self.version += 1
        self.past_counts.add(partition.counts)
        partition.close()

    def checks_changed(self) -> None:
        """Records that were taken as they are must name schemas from now on, or no longer."""
        self.version += 1

    def _absence(self, topic: TopicImage, index: int) -> KafkaError:
        """Why a partition of a known topic is not here."""
        if topic.partition(index) is None:
            return KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the topic {topic.name} has no partition {index}"
            )
        name = f"{topic.name}-{index}"
        if topic.name in self.unopened:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {name} cannot be opened now")
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{name} is not served by this broker now")
