"""Follows: fetches the partitions that other brokers lead and that this broker has a replica of.

One task for each leader and lane. There are three lanes, each with its own connection, so that none waits for
another:

    fetch            all other partitions
    fetch-flushed    partitions whose records must be durable before they count (ottla.flush.on.acks.all): the records
                     of a round are flushed before the next fetch announces their offset
    fetch-moving     partitions that are moved to this broker: within follower.replication.throttled.rate

The local replica knows the leader (hosted_partition.py); `apply` comes after Hosting has carried the image
out.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ottla.controller.config_sources import BrokerSettings
from ottla.controller.image import ClusterImage, TopicImage, topic_changes
from ottla.model import NO_LEADER
from ottla.replication.events import FollowerLost
from ottla.runtime.clock import monotonic_ms
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.partition_table import Partitions
from ottla.server.replicas.fetcher_lane import FetcherLane, FetcherServices
from ottla.server.replicas.follower_sessions import FollowerSessions
from ottla.server.replicas.throttle import UNLIMITED, Throttle

logger = logging.getLogger(__name__)

FETCH: Final = "fetch"
FETCH_FLUSHED: Final = "fetch-flushed"
FETCH_MOVING: Final = "fetch-moving"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a partition is fetched: from which broker, in which lane."""

    leader: int
    lane: str


class Fetchers:
    """All that this broker follows."""

    def __init__(
        self, services: FetcherServices, partitions: Partitions, follower_sessions: FollowerSessions
    ) -> None:
        self._config = services.config
        self._quorum = services.quorum
        self._partitions = partitions
        self._sessions = follower_sessions
        self._throttle = Throttle(UNLIMITED, monotonic_ms)
        self._services = services
        self._lanes: dict[_Place, FetcherLane] = {}
        self._places: dict[HostedPartition, _Place] = {}
        self._is_running = False
        services.hosting.when_opened(self._follow_all)

    def start(self) -> None:
        """Follow everything from now on."""
        self._is_running = True
        self._limit_rates(self._quorum.image)
        self._follow_all()

    async def stop(self) -> None:
        """Stop all fetching; what was received is in the logs."""
        self._is_running = False
        for lane in self._lanes.values():
            await lane.stop()
        self._lanes.clear()
        self._places.clear()

    def apply(self, before: ClusterImage, after: ClusterImage) -> None:
        """Follow the leaders of the new image, and expect the followers that it gives this broker."""
        changes = topic_changes(before, after)
        self._expect_followers(before, changes.changed)
        self._lose_followers(before, after)
        if not self._is_running:
            return
        if before.configs is not after.configs:
            self._limit_rates(after)
            self._follow_all()
        elif changes.changed or changes.removed or before.brokers is not after.brokers:
            self._follow(self._touched(before, after, changes.changed))

    def restart(self, partition: HostedPartition) -> None:
        """The log lost records outside of a fetch: look at it as before the first fetch from its leader."""
        place = self._places.pop(partition, None)
        if place is not None:
            self._lanes[place].unfollow(partition)
        if self._is_running:
            self._follow([partition])

    def _touched(
        self, before: ClusterImage, after: ClusterImage, changed: Iterable[TopicImage]
    ) -> Iterable[HostedPartition]:
        """The partitions that may have another leader now. The first image after the start assigns
        everything.
        """
        node_id = self._config.node.id
        if before.brokers.get(node_id) is not after.brokers.get(node_id):
            return [*self._partitions, *self._places]
        gone = [partition for partition in self._places if partition.is_closed]
        hosted = (
            self._partitions.find(topic.name, placed.index)
            for topic in changed
            for placed in topic.partitions
        )
        return [*gone, *(partition for partition in hosted if partition is not None)]

    def _follow_all(self) -> None:
        if self._is_running:
            self._follow([*self._partitions, *self._places])

    def _follow(self, partitions: Iterable[HostedPartition]) -> None:
        for partition in partitions:
            place = self._place_of(partition)
            former = self._places.get(partition)
            if former is not None and former != place:
                del self._places[partition]
                self._lanes[former].unfollow(partition)
            if place is not None:
                self._places[partition] = place
                self._lane(place).follow(partition)

    def _place_of(self, partition: HostedPartition) -> _Place | None:
        replica = partition.replica
        if partition.is_closed or replica.leader in (NO_LEADER, self._config.node.id):
            return None
        if self._throttle.is_limited and self._config.node.id in partition.adding_replicas:
            return _Place(replica.leader, FETCH_MOVING)
        is_flushed = partition.flush_policy.must_flush(acks_all=True)
        return _Place(replica.leader, FETCH_FLUSHED if is_flushed else FETCH)

    def _lane(self, place: _Place) -> FetcherLane:
        lane = self._lanes.get(place)
        if lane is None:
            throttle = self._throttle if place.lane == FETCH_MOVING else None
            flushes = place.lane == FETCH_FLUSHED
            lane = FetcherLane(self._services, place.leader, place.lane, flushes=flushes, throttle=throttle)
            self._lanes[place] = lane
        return lane

    def _limit_rates(self, image: ClusterImage) -> None:
        settings = BrokerSettings(image, self._config.node.id, self._config).in_force
        self._throttle.limit(settings.replication.follower_throttled_rate)
        self._sessions.throttle.limit(settings.replication.leader_throttled_rate)

    def _expect_followers(self, before: ClusterImage, changed: Iterable[TopicImage]) -> None:
        """A follower that is about to fetch from this broker should not have to wait for its last fetch to
        end.
        """
        expected: set[int] = set()
        for topic in changed:
            former = before.topics_by_id.get(topic.topic_id)
            for placed in topic.partitions:
                known = None if former is None else former.partition(placed.index)
                is_new = known is None or (known.leader_epoch, known.replicas) != (
                    placed.leader_epoch,
                    placed.replicas,
                )
                if placed.leader == self._config.node.id and is_new:
                    expected.update(placed.replicas)
        if expected:
            self._sessions.expect(expected)

    def _lose_followers(self, before: ClusterImage, after: ClusterImage) -> None:
        """A broker that was fenced is not about to join any ISR."""
        if before.brokers is after.brokers:
            return
        fenced = [
            node_id
            for node_id, broker in after.brokers.items()
            if broker.is_fenced and broker is not before.brokers.get(node_id)
        ]
        for partition in self._partitions if fenced else ():
            for node_id in fenced:
                if node_id in partition.replica.followers:
                    partition.step(FollowerLost(node_id), monotonic_ms())
