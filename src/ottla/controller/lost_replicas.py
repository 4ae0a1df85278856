"""AssignReplicasToDirs, version 0 (KIP-858): a broker says in which of its log directories replicas are.

A broker of Ottla has one directory, which its registration names. So an assignment says something new only about
a replica that is not whole:

    directory    the replica                                       what follows
    LOST         lacks records that it held; told before the       it leaves ISR and ELR, even as the last member, and
                 broker is let in                                  rejoins by fetching
    DAMAGED      has records that cannot be read; told by a        it leaves ISR and ELR if another member can lead,
                 broker that runs                                  and is not in sync before it is repaired;
                                                                   INELIGIBLE_REPLICA if none can
    its own      is repaired                                       it may be in sync again

A LOST replica is not trusted any more (`replica_trust`): what it lacks was perhaps acknowledged, and nobody may write
other records in its place. A DAMAGED replica still knows what it lacks: as the only one that is left it leads on, and
readers get an error for the damaged records and no others. The only replica of a partition stays in either case: no
other has its records.
"""

from uuid import UUID

from ottla.controller.config_sources import BrokerSettings
from ottla.controller.decision import Decision
from ottla.controller.image import (
    DAMAGED_DIRECTORY,
    LOST_DIRECTORY,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from ottla.controller.partition_changes import PartitionChanges, elected
from ottla.errors import ErrorCode
from ottla.model import NO_LEADER
from ottla.protocol.messages.brokers import (
    AssignedDirectoryData,
    AssignedPartitionData,
    AssignedTopicData,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)


def assign_replicas_to_dirs(
    image: ClusterImage, request: AssignReplicasToDirsRequest, settings: BrokerSettings
) -> Decision:
    """Trust a broker no more with the replicas that it names as lost or damaged, and again with repaired ones."""
    error = image.broker_epoch_error(request.broker_id, request.broker_epoch)
    if error:
        return Decision([], AssignReplicasToDirsResponse(error_code=error))
    answers, changes = [], []
    for directory in request.directories:
        assignment = _Assignment(image, request.broker_id, directory.id, settings)
        topics = [
            AssignedTopicData(
                named.topic_id,
                [
                    AssignedPartitionData(
                        each.partition_index, assignment.assign(named.topic_id, each.partition_index)
                    )
                    for each in named.partitions
                ],
            )
            for named in directory.topics
        ]
        answers.append(AssignedDirectoryData(directory.id, topics))
        changes.append(assignment.changes)
    return Decision(
        [record for each in changes for record in each.records],
        AssignReplicasToDirsResponse(directories=answers),
        unclean_elections=tuple(name for each in changes for name in each.unclean_elections),
        waiting=tuple(name for each in changes for name in each.waiting),
    )


class _Assignment:
    """The replicas of one broker that are in one directory."""

    def __init__(self, image: ClusterImage, node_id: int, directory: UUID, settings: BrokerSettings) -> None:
        self._image = image
        self._node_id = node_id
        self._directory = directory
        # A lost replica stays assigned to the directory in which it is fetched again.
        directories = {} if directory == LOST_DIRECTORY else {node_id: directory}
        self.changes = PartitionChanges(image, image.eligible_brokers, settings, directories)

    def assign(self, topic_id: UUID, index: int) -> ErrorCode:
        """Put one replica into the directory."""
        topic = self._image.topics_by_id.get(topic_id)
        partition = topic.partition(index) if topic is not None else None
        if topic is None or partition is None or self._node_id not in partition.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self._directory == LOST_DIRECTORY:
            if len(partition.replicas) > 1 and self._is_trusted(partition):
                self.changes.distrust(topic, partition, self._node_id)
            return ErrorCode.NONE
        if self._directory == DAMAGED_DIRECTORY:
            return self._damaged(topic, partition)
        if partition.is_damaged_on(self._node_id) and self._directory in self._own_directories:
            self.changes.put(topic, partition, partition)
        return ErrorCode.NONE

    def _damaged(self, topic: TopicImage, partition: PartitionImage) -> ErrorCode:
        if not self._is_trusted(partition):
            self.changes.put(topic, partition, partition)
            return ErrorCode.NONE
        if elected(partition, self.changes.eligible - {self._node_id}).leader == NO_LEADER:
            return ErrorCode.INELIGIBLE_REPLICA
        self.changes.distrust(topic, partition, self._node_id)
        return ErrorCode.NONE

    def _is_trusted(self, partition: PartitionImage) -> bool:
        return self._node_id in partition.isr or self._node_id in partition.elr

    @property
    def _own_directories(self) -> tuple[UUID, ...]:
        return self._image.brokers[self._node_id].log_dirs
