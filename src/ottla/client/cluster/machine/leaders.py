"""One question to the leader of each partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, TypeVar

from ottla.client.cluster.machine.conversation import Steps, refreshed
from ottla.client.cluster.machine.known_cluster import (
    KnownCluster,
    PartitionLeader,
    leaders_in,
    why_leaderless,
)
from ottla.client.cluster.machine.retries import Attempt
from ottla.errors import KafkaError
from ottla.model import TopicPartition

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

# Asks one broker about a part of the items: node id, items, milliseconds left.
AskNode: TypeAlias = Callable[[int, Mapping[K, V], int], Steps[Mapping[K, T | KafkaError]]]


def by_leader(known: KnownCluster, ask: AskNode[TopicPartition, V, T]) -> Attempt[TopicPartition, V, T]:
    """Ask each partition's leader: the remembered one, else the one that fresh metadata names.

    A remembered leader that refuses or does not answer is forgotten.
    """

    def attempt(
        pending: Mapping[TopicPartition, V], left_ms: int
    ) -> Steps[Mapping[TopicPartition, T | KafkaError]]:
        leaders = yield from _leaders(known, pending, left_ms)
        outcomes: dict[TopicPartition, T | KafkaError] = {}
        parts: dict[int, dict[TopicPartition, V]] = {}
        for partition, item in pending.items():
            leader = leaders[partition]
            if isinstance(leader, KafkaError):
                outcomes[partition] = leader
            else:
                parts.setdefault(leader.node_id, {})[partition] = item
        for node_id, part in parts.items():
            answers: Mapping[TopicPartition, T | KafkaError] = {}
            try:
                answers = yield from ask(node_id, part, left_ms)
            finally:
                for partition in part:
                    if partition not in answers or isinstance(answers[partition], KafkaError):
                        known.forget_leader(partition)
            outcomes.update(answers)
        return outcomes

    return attempt


def leader_of(known: KnownCluster, partition: TopicPartition) -> Steps[PartitionLeader]:
    """The leader of one partition, which is remembered. Raises KafkaError if there is none at the moment.

    Other partitions of the topic are not remembered: they may be read much later, when the topic is another
    one of the same name.
    """
    leader = known.leader_of(partition)
    if leader is None:
        metadata = yield from refreshed(known, [partition.topic])
        leader = leaders_in(metadata).get(partition)
        if leader is None:
            raise why_leaderless(metadata, partition)
        known.learn_leader(partition, leader)
    return leader


def _leaders(
    known: KnownCluster, partitions: Iterable[TopicPartition], left_ms: int
) -> Steps[dict[TopicPartition, PartitionLeader | KafkaError]]:
    remembered = {each: known.leader_of(each) for each in partitions}
    found: dict[TopicPartition, PartitionLeader | KafkaError] = {
        each: leader for each, leader in remembered.items() if leader is not None
    }
    unknown = [each for each, leader in remembered.items() if leader is None]
    if unknown:
        metadata = yield from refreshed(known, list(dict.fromkeys(topic for topic, _ in unknown)), left_ms)
        known.learn_leaders(metadata)
        named = leaders_in(metadata)
        found |= {each: named.get(each) or why_leaderless(metadata, each) for each in unknown}
    return found
