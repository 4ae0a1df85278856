"""The replicas that leaders named for reading, in the consumer's own rack (KIP-392)."""

from __future__ import annotations

from typing import NamedTuple

from ottla.client.cluster.topology import Topology
from ottla.client.requests.metadata import Leader
from ottla.model import TopicPartition
from ottla.runtime.clock import monotonic_ms


class _Nearby(NamedTuple):
    node_id: int
    leader_epoch: int
    until_ms: int


class NearbyReplicas:
    """Which broker to read each partition from.

    A replica that was named is asked until its time is over, its answer is an error, it cannot be reached, or
    there is another leader; then the leader is asked again, and may name a replica again.
    """

    def __init__(self, topology: Topology, lasting_ms: int) -> None:
        self._topology = topology
        self._lasting_ms = lasting_ms
        self._named: dict[TopicPartition, _Nearby] = {}

    def source_of(self, partition: TopicPartition) -> Leader | None:
        """The broker to fetch from, with the epoch of the partition's leader; None if there is no leader."""
        leader = self._topology.leader_of(partition)
        nearby = self._named.get(partition) if self._named else None
        if nearby is None or leader is None:
            return leader
        if nearby.leader_epoch != leader.epoch or nearby.until_ms <= monotonic_ms():
            del self._named[partition]
            return leader
        return Leader(nearby.node_id, leader.epoch)

    def name(self, partition: TopicPartition, node_id: int) -> None:
        """The leader named a replica to read from."""
        leader = self._topology.leader_of(partition)
        if leader is not None and leader.node_id != node_id:
            until_ms = monotonic_ms() + self._lasting_ms
            self._named[partition] = _Nearby(node_id, leader.epoch, until_ms)

    def is_named(self, partition: TopicPartition) -> bool:
        """Whether the partition is read from another replica than its leader."""
        return partition in self._named

    def forget(self, partition: TopicPartition) -> None:
        """Ask the leader next."""
        self._named.pop(partition, None)

    def forget_broker(self, node_id: int) -> None:
        """The broker cannot be reached: ask leaders instead."""
        self._named = {key: nearby for key, nearby in self._named.items() if nearby.node_id != node_id}
