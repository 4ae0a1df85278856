"""Moving replicas: AlterPartitionReassignments, versions 0 to 1 (KIP-455, KIP-860). The listing is in
`describe`.

While a partition moves, its replicas are those of the target, in the target's order, and after them the ones
that will go. Added replicas fetch like any follower; `partition_changes.finished` ends the move once they are
in sync. A new target replaces the one under way, and no target cancels it: what was added goes, unless only
it is in sync.
"""

from collections.abc import Iterator
from dataclasses import replace

from ottla.controller.config_sources import BrokerSettings
from ottla.controller.decision import Decision, repeated
from ottla.controller.image import ClusterImage, PartitionImage
from ottla.controller.partition_changes import PartitionChanges, elected
from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_LEADER
from ottla.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)


def alter_partition_reassignments(
    image: ClusterImage, request: AlterPartitionReassignmentsRequest, settings: BrokerSettings
) -> Decision:
    """Begin, change or cancel moves; each partition is decided by itself."""
    reassignment = _Reassignment(image, request.allow_replication_factor_change, settings)
    topics_twice = repeated(topic.name for topic in request.topics)
    responses = [
        ReassignableTopicResponse(
            topic.name, list(reassignment.responses(topic, is_repeated=topic.name in topics_twice))
        )
        for topic in request.topics
    ]
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=responses,
    )
    return reassignment.changes.decision([], response)


class _Reassignment:
    """The moves of one request."""

    def __init__(self, image: ClusterImage, allows_other_factor: bool, settings: BrokerSettings) -> None:
        self.changes = PartitionChanges(image, image.eligible_brokers, settings)
        self._image = image
        self._allows_other_factor = allows_other_factor

    def responses(
        self, wanted: ReassignableTopic, *, is_repeated: bool
    ) -> Iterator[ReassignablePartitionResponse]:
        """Decide on the partitions of one topic."""
        twice = repeated(item.partition_index for item in wanted.partitions)
        for item in wanted.partitions:
            response = ReassignablePartitionResponse(item.partition_index, error_message=None)
            try:
                if is_repeated or item.partition_index in twice:
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST, "The partition stands more than once in the request."
                    )
                self._alter(wanted.name, item)
            except KafkaError as error:
                response.error_code, response.error_message = error.code, error.message
            yield response

    def _alter(self, name: str, item: ReassignablePartition) -> None:
        topic = self._image.topics_by_name.get(name)
        partition = topic.partition(item.partition_index) if topic is not None else None
        if topic is None or partition is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {name}-{item.partition_index}."
            )
        if item.replicas is None:
            if not partition.is_moving:
                raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
            target = _origin(partition)
        else:
            target = tuple(item.replicas)
            self._check_target(partition, target)
        min_isr = self.changes.config_of(topic).min_insync_replicas
        self.changes.put(topic, partition, self._aimed(partition, target, min_isr))

    def _aimed(self, partition: PartitionImage, target: tuple[int, ...], min_isr: int) -> PartitionImage:
        """The partition on its way to a target; replicas that an earlier move had begun to add may go at
        once, if enough others are in sync: they may hold committed records.
        """
        origin = _origin(partition)
        leaving = tuple(node_id for node_id in origin if node_id not in target)
        replicas = target + leaving
        isr = tuple(node_id for node_id in partition.isr if node_id in replicas)
        if not isr or len(isr) < min(len(partition.isr), min_isr, len(replicas)):
            raise _bad_assignment(
                f"Only the replicas {list(partition.isr)} are in sync, and this would remove some of them: "
                "let others catch up first."
                if partition.isr
                else "No replica is in sync: the partition can be moved when it has a leader again."
            )
        after = replace(
            partition,
            replicas=replicas,
            isr=isr,
            adding_replicas=tuple(node_id for node_id in target if node_id not in origin),
            removing_replicas=leaving,
        )
        has_lost_leader = partition.leader != NO_LEADER and partition.leader not in isr
        return elected(after, self.changes.eligible) if has_lost_leader else after

    def _check_target(self, partition: PartitionImage, target: tuple[int, ...]) -> None:
        unknown = [node_id for node_id in target if node_id not in self._image.brokers]
        if not target:
            raise _bad_assignment("A partition needs at least one replica.")
        if len(set(target)) != len(target):
            raise _bad_assignment(f"A broker stands twice in the assignment {list(target)}.")
        if unknown:
            raise _bad_assignment(f"No broker {unknown[0]} is registered.")
        factor = len(partition.target_replicas)
        if len(target) != factor and not self._allows_other_factor:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The partition has {factor} replicas and {list(target)} is {len(target)}; "
                "the request does not allow to change the number.",
            )


def _origin(partition: PartitionImage) -> tuple[int, ...]:
    """The replicas of the partition before the move under way began."""
    return tuple(node_id for node_id in partition.replicas if node_id not in partition.adding_replicas)


def _bad_assignment(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, sentence)
