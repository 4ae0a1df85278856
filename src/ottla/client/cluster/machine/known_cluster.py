"""A client's knowledge of a cluster: brokers, and perhaps the leaders and coordinators in use.

The bootstrap addresses are only the way in. Once a broker has answered Metadata, the cluster's own list of
brokers counts; the bootstrap addresses are the way back in when no broker of that list can be reached.

A broker that is cut off from the others still answers, with metadata of the past. So where an answer did not
help, the next question that any broker may answer goes to another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from ottla.client.requests.coordinators import CoordinatorType
from ottla.client.requests.metadata import BrokerInfo, ClusterMetadata, TopicInfo
from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_NODE, Address, TopicPartition
from ottla.wire.versions import FinalizedFeatures

# One of several addresses that drops our packets should not use up the time that there is for the others.
CONNECT_TIMEOUT_MS: Final = 10_000

# For people who start a client by hand; programs that say more about their settings leave it out.
ADVICE: Final = "Is the broker running? Start one with: ottla serve"

# The order in which addresses are tried where any broker will do.
_CONNECTED, _UNTRIED, _SILENT = range(3)


@dataclass(frozen=True, slots=True)
class PartitionLeader:
    """The leader of a partition. A topic that was deleted and created again has another id."""

    node_id: int
    epoch: int
    topic_id: UUID


class KnownCluster:
    """The knowledge of one client, or of several that share it.

    A client that asks the same partitions or groups again and again remembers leaders and coordinators until
    they fail; one that asks rarely looks them up for each question. `advice` is appended to the message that
    no broker can be reached.
    """

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        remembers_leaders: bool = False,
        remembers_coordinators: bool = False,
        advice: str = ADVICE,
    ) -> None:
        self._bootstrap = tuple(bootstrap)
        self._remembers_leaders = remembers_leaders
        self._remembers_coordinators = remembers_coordinators
        self._advice = advice
        self._brokers: dict[int, BrokerInfo] = {}
        self._standings: dict[Address, int] = {}
        self._latest: Address | None = None  # answered last where any broker would do
        self._unhelpful: dict[Address, int] = {}  # the later an answer did not help, the higher
        self._leaders: dict[TopicPartition, PartitionLeader] = {}
        self._coordinators: dict[tuple[CoordinatorType, str], int] = {}
        self._features = FinalizedFeatures()
        self.has_answered = False

    # ---- brokers

    def address_of(self, node_id: int) -> Address | None:
        broker = self._brokers.get(node_id)
        return None if broker is None else broker.address

    def node_of(self, address: Address) -> int:
        """The node id of the broker at an address; `NO_NODE` if the cluster has none there."""
        found = (broker.node_id for broker in self._brokers.values() if broker.address == address)
        return next(found, NO_NODE)

    def learn_brokers(self, brokers: Iterable[BrokerInfo]) -> None:
        """All brokers of the cluster, as Metadata names them."""
        self._brokers = {broker.node_id: broker for broker in brokers}

    def learn_broker(self, broker: BrokerInfo) -> None:
        """One broker that another one named (KIP-951)."""
        self._brokers[broker.node_id] = broker

    def learn_features(self, features: FinalizedFeatures) -> None:
        """The feature levels that a broker named; those of the newest epoch count."""
        if features.epoch > self._features.epoch:
            self._features = features

    def feature_level(self, name: str) -> int:
        """The level of a feature; 0 if no broker has named one."""
        return self._features.levels.get(name, 0)

    # ---- addresses

    def preferred_addresses(self) -> list[Address]:
        """Every address, those with a connection first; after those that did not help, and last those that
        did not answer.
        """
        addresses = dict.fromkeys((*(each.address for each in self._brokers.values()), *self._bootstrap))
        return sorted(addresses, key=self._preference)

    def _preference(self, address: Address) -> tuple[bool, int, int]:
        standing = self._standings.get(address, _UNTRIED)
        return standing == _SILENT, self._unhelpful.get(address, 0), standing

    def answered_for_all(self, address: Address) -> None:
        """A question that any broker may answer was answered from an address."""
        self._latest = address

    def ask_another(self) -> None:
        """The latest answer that any broker could have given did not help: others are asked before it."""
        if self._latest is not None and len(self._brokers) > 1:
            self._unhelpful[self._latest] = max(self._unhelpful.values(), default=0) + 1

    def answered(self, address: Address) -> None:
        self.has_answered = True
        self._standings[address] = _CONNECTED

    def disconnected(self, address: Address) -> None:
        """The connection to an address ended; another one may be opened."""
        self._standings.pop(address, None)

    def did_not_answer(self, address: Address) -> None:
        """The address could not be connected to, or a request was not answered in time."""
        self._standings[address] = _SILENT

    def unreachable(self, failures: Iterable[str]) -> str:
        """The sentence that says why no broker can be asked."""
        reasons = "; ".join(failures)
        return f"{reasons}. {self._advice}" if self._advice else reasons

    # ---- leaders

    def leader_of(self, partition: TopicPartition) -> PartitionLeader | None:
        return self._leaders.get(partition)

    def learn_leader(self, partition: TopicPartition, leader: PartitionLeader) -> None:
        if self._remembers_leaders:
            self._leaders[partition] = leader

    def learn_leaders(self, metadata: ClusterMetadata) -> None:
        """The leaders of all partitions in `metadata`; a partition without a leader has none from now on."""
        found = leaders_in(metadata)
        for name, topic in metadata.topics.items():
            for each in topic.partitions if isinstance(topic, TopicInfo) else ():
                self._leaders.pop(TopicPartition(name, each.index), None)
        for partition, leader in found.items():
            self.learn_leader(partition, leader)

    def forget_leader(self, partition: TopicPartition) -> None:
        """The leader refused or did not answer: metadata is asked for before the next question."""
        self._leaders.pop(partition, None)
        self.ask_another()

    # ---- coordinators

    def coordinator_of(self, key: str, kind: CoordinatorType = CoordinatorType.GROUP) -> int | None:
        return self._coordinators.get((kind, key))

    def learn_coordinator(
        self, key: str, node_id: int, kind: CoordinatorType = CoordinatorType.GROUP
    ) -> None:
        if self._remembers_coordinators:
            self._coordinators[kind, key] = node_id

    def forget_coordinator(self, key: str, kind: CoordinatorType = CoordinatorType.GROUP) -> None:
        """The coordinator did not answer, or is not the key's: it is looked up before the next question."""
        self._coordinators.pop((kind, key), None)
        self.ask_another()


def leaders_in(metadata: ClusterMetadata) -> dict[TopicPartition, PartitionLeader]:
    """The leaders of all partitions in `metadata` that have one."""
    return {
        TopicPartition(topic.name, each.index): PartitionLeader(
            each.leader, each.leader_epoch, topic.topic_id
        )
        for topic in metadata.topics.values()
        if isinstance(topic, TopicInfo)
        for each in topic.partitions
        if each.leader is not None
    }


def why_leaderless(metadata: ClusterMetadata, partition: TopicPartition) -> KafkaError:
    """Why `metadata` names no leader of a partition."""
    topic = metadata.topics.get(partition.topic)
    if isinstance(topic, KafkaError):
        return topic
    if topic is None or all(each.index != partition.partition for each in topic.partitions):
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition}")
    return KafkaError(
        ErrorCode.LEADER_NOT_AVAILABLE, f"the partition {partition} has no leader at the moment"
    )
