"""The request by which a broker says in which log directory its replicas are (controller/lost_replicas.py)."""

from collections.abc import Iterable
from uuid import UUID

from ottla.protocol.messages.brokers import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)


def assignment(
    broker_id: int, broker_epoch: int, directory: UUID, replicas: Iterable[tuple[UUID, int]]
) -> AssignReplicasToDirsRequest:
    """Replicas, each by topic id and partition, are in this directory."""
    topics: dict[UUID, TopicData] = {}
    for topic_id, index in replicas:
        topics.setdefault(topic_id, TopicData(topic_id)).partitions.append(PartitionData(index))
    return AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        directories=[DirectoryData(directory, list(topics.values()))],
    )
