"""Leaders by request and by routine.

ElectLeaders, versions 0 to 2: the preferred replica, which is the first (KIP-183), or any that is there, at
the price of what only others hold (KIP-460); the request itself is the permission for that. A type of Ottla
alone elects the replica that the request names, at the same price. BalanceLeaders:
after failures leadership has moved away from preferred replicas; it goes back where a broker misses much.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import IntEnum
from typing import Any

from ottla.controller.commands import BalanceLeaders
from ottla.controller.config_sources import BrokerSettings
from ottla.controller.decision import Decision
from ottla.controller.image import ClusterImage, PartitionImage, TopicImage
from ottla.controller.partition_changes import PartitionChanges, elected
from ottla.errors import ErrorCode
from ottla.model import NO_LEADER
from ottla.protocol.messages.partitions import (
    DESIGNATED_ELECTION,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)


class ElectionType(IntEnum):
    """Kafka's numbers."""

    PREFERRED = 0
    UNCLEAN = 1
    DESIGNATED = DESIGNATED_ELECTION  # Ottla's


def elect_leaders(image: ClusterImage, request: ElectLeadersRequest, settings: BrokerSettings) -> Decision:
    """Hold the elections that a request asks for; of all partitions, if it names none, only those that need
    one.
    """
    is_designated = request.election_type == ElectionType.DESIGNATED
    if request.election_type not in tuple(ElectionType) or (is_designated and not request.topic_partitions):
        return Decision([], ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST))
    elections = _Elections(image, request, settings)
    if request.topic_partitions is None:
        everything = [
            TopicPartitions(name, list(range(len(topic.partitions))))
            for name, topic in sorted(image.topics_by_name.items())
        ]
        results = _needed(elections.results(everything))
    else:
        results = list(elections.results(request.topic_partitions))
    return elections.changes.decision([], ElectLeadersResponse(replica_election_results=results))


def _needed(results: Iterable[ReplicaElectionResult]) -> list[ReplicaElectionResult]:
    found = []
    for result in results:
        held = [each for each in result.partition_result if each.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        if held:
            found.append(ReplicaElectionResult(result.topic, held))
    return found


class _Elections:
    """The elections of one request."""

    def __init__(self, image: ClusterImage, request: ElectLeadersRequest, settings: BrokerSettings) -> None:
        self.changes = PartitionChanges(image, image.eligible_brokers, settings)
        self._image = image
        self._is_preferred = request.election_type == ElectionType.PREFERRED
        is_designated = request.election_type == ElectionType.DESIGNATED
        self._designated = request.ottla_leader if is_designated else None
        self._held: set[tuple[str, int]] = set()

    def results(self, wanted: Iterable[TopicPartitions]) -> Iterator[ReplicaElectionResult]:
        """Hold the elections of these partitions."""
        for item in wanted:
            topic = self._image.topics_by_name.get(item.topic)
            yield ReplicaElectionResult(
                item.topic, [self._result(item.topic, topic, index) for index in item.partitions]
            )

    def _result(self, name: str, topic: TopicImage | None, index: int) -> PartitionResult:
        partition = topic.partition(index) if topic is not None else None
        if topic is None or partition is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif (name, index) in self._held:
            error = ErrorCode.INVALID_REQUEST
        else:
            self._held.add((name, index))
            elect = self._elect_preferred if self._is_preferred else self._elect_uncleanly
            error = elect(topic, partition)
        return PartitionResult(index, error, error.message if error else None)

    def _elect_preferred(self, topic: TopicImage, partition: PartitionImage) -> ErrorCode:
        preferred = partition.replicas[0]
        if partition.leader == preferred and preferred in self.changes.eligible:
            return ErrorCode.ELECTION_NOT_NEEDED
        if not _can_lead(partition, preferred, self.changes):
            return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        self.changes.put(topic, partition, replace(partition, leader=preferred))
        return ErrorCode.NONE

    def _elect_uncleanly(self, topic: TopicImage, partition: PartitionImage) -> ErrorCode:
        leader = self._image.brokers.get(partition.leader)
        if leader is not None and not leader.is_fenced:
            return ErrorCode.ELECTION_NOT_NEEDED
        after = elected(partition, self.changes.eligible)
        if after.leader != NO_LEADER:
            self.changes.put(topic, partition, after)
        elif self.changes.elect_uncleanly(topic, partition, self._designated) is None:
            return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        return ErrorCode.NONE


def balance_leaders(image: ClusterImage, command: BalanceLeaders, settings: BrokerSettings) -> Decision:
    """Give leadership back where a broker leads too few of the partitions that prefer it."""
    changes = PartitionChanges(image, image.eligible_brokers, settings)
    deprived = _deprived(image, command.imbalance_percentage)
    live = {broker.node_id for broker in image.live_brokers}
    for topic, partition in image.partitions():
        preferred = partition.replicas[0]
        if partition.leader not in live:
            _elect_if_possible(changes, topic, partition)
        elif (
            preferred in deprived
            and preferred != partition.leader
            and _can_lead(partition, preferred, changes)
        ):
            changes.put(topic, partition, replace(partition, leader=preferred))
    return changes.decision([], None)


def _elect_if_possible(changes: PartitionChanges, topic: TopicImage, partition: PartitionImage) -> Any:
    """Elect a leader where a replica can lead; where none can, a broker that is fenced keeps its
    partitions.
    """
    complete = partition.isr + partition.elr
    candidates = partition.replicas if changes.allows_unclean(topic) else complete
    if not changes.eligible.isdisjoint(candidates):
        changes.elect(topic, partition)


def _deprived(image: ClusterImage, imbalance_percentage: int) -> set[int]:
    preferring: Counter[int] = Counter()
    missed: Counter[int] = Counter()
    for _, partition in image.partitions():
        preferred = partition.replicas[0]
        preferring[preferred] += 1
        if partition.leader != preferred:
            missed[preferred] += 1
    return {
        node_id
        for node_id, count in missed.items()
        if count * 100 > imbalance_percentage * preferring[node_id]
    }


def _can_lead(partition: PartitionImage, node_id: int, changes: PartitionChanges) -> bool:
    return node_id in partition.isr and node_id in changes.eligible
