"""What is true of running brokers at every moment: looked at every few simulated milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.simulation.stories.metadata_review import MetadataReview
from tests.simulation.stories.vote_review import VoteReview

if TYPE_CHECKING:
    from uuid import UUID

    from tests.simulation.stories.story import Story
    from tests.simulation.world.node import Node

    from ottla.controller.image import ClusterImage
    from ottla.server.partitions.hosted_partition import HostedPartition

INTERVAL_S: Final = 0.02

# Of a topic's id and the partition's number: the hash of a string is computed once.
_Key = str


class Watcher:
    """Looks at all nodes of a story again and again; what it finds is noted in the ledger."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._controllers: dict[int, int] = {}
        self._leaders: dict[tuple[_Key, int], int] = {}
        # By the hosted replica: one that was moved away and came back begins again.
        self._watermarks: dict[HostedPartition, int] = {}
        self._keys: dict[HostedPartition, _Key] = {}
        self._places: dict[_Key, tuple[UUID, int]] = {}
        # Of the newest image, as far as they were asked for.
        self._isrs: dict[_Key, tuple[int, ...]] = {}
        self._isrs_of: ClusterImage | None = None
        self._committed: dict[_Key, int] = {}
        self._metadata = MetadataReview(self._broken)
        self.votes = VoteReview(story.nodes, self._broken)
        self.looks = 0

    def look(self) -> None:
        """Check everything now, and again later."""
        self.looks += 1
        self.votes.look()
        hosted: dict[_Key, dict[int, HostedPartition]] = {}
        for node in self._story.nodes:
            if node.is_ready:
                assert node.broker is not None
                self._check_controller(node)
                self._metadata.look(node.host, node.broker.quorum.image)
                for partition in self._partitions_of(node):
                    key = self._keys.get(partition) or self._key_of(partition)
                    hosted.setdefault(key, {})[node.number] = partition
                    self._check_replica(node, key, partition)
        for key, replicas in hosted.items():
            members = self._newest_isr(key)
            self._check_leader(members, replicas)
            self._check_members(key, members, replicas)
        self._story.world.later(INTERVAL_S, self.look)

    def _check_controller(self, node: Node) -> None:
        """The metadata quorum has one leader per epoch."""
        assert node.broker is not None
        replica = node.broker.quorum.member.replica
        if replica.is_leader:
            leader = self._controllers.setdefault(replica.epoch, node.number)
            if leader != node.number:
                self._broken(f"n{leader} and {node.host} both led the quorum in epoch {replica.epoch}")

    def _partitions_of(self, node: Node) -> list[HostedPartition]:
        assert node.broker is not None
        return [partition for partition in node.broker.partitions if not partition.is_closed]

    def _check_replica(self, node: Node, key: _Key, partition: HostedPartition) -> None:
        replica, watermark = partition.replica, partition.high_watermark.value
        if replica.is_leader:
            leader = self._leaders.setdefault((key, replica.leader_epoch), node.number)
            self._committed[key] = max(self._committed.get(key, 0), watermark)
            if leader != node.number:
                self._broken(
                    f"{partition.name}: n{leader} and {node.host} both led epoch {replica.leader_epoch}"
                )
        before = self._watermarks.get(partition, 0)
        if watermark < before and not self._story.rot.is_fetched_again(node, partition.name):
            self._broken(
                f"{partition.name}: the high watermark of {node.host} went from {before} back to {watermark}"
            )
        if watermark != before:
            self._watermarks[partition] = watermark
        if watermark > partition.log.log_end_offset:
            self._broken(
                f"{partition.name}: the high watermark of {node.host} is {watermark}, "
                f"its log ends at {partition.log.log_end_offset}"
            )

    def _key_of(self, partition: HostedPartition) -> _Key:
        key = self._keys[partition] = f"{partition.topic_id}-{partition.index}"
        self._places[key] = partition.topic_id, partition.index
        return key

    def _newest_isr(self, key: _Key) -> tuple[int, ...]:
        newest = self._metadata.newest
        if newest is not self._isrs_of:
            self._isrs_of, self._isrs = newest, {}
        isr = self._isrs.get(key)
        if isr is None:
            topic_id, index = self._places[key]
            topic = newest.topics_by_id.get(topic_id)
            placed = topic.partition(index) if topic is not None else None
            isr = self._isrs[key] = tuple(placed.isr) if placed is not None else ()
        return isr

    def _check_leader(self, members: tuple[int, ...], replicas: dict[int, HostedPartition]) -> None:
        """What a leader calls committed is in the log of every in-sync replica that follows it.

        A leader that is cut off may still count on a replica that lost records: the controller knows better.
        """
        for number, leading in replicas.items():
            leader = leading.replica
            if not leader.is_leader or not leader.high_watermark_is_known:
                continue
            for member in leader.isr:
                following = replicas.get(member)
                if following is None or member == number or member not in members:
                    continue
                if (
                    following.replica.leader_epoch != leader.leader_epoch
                    or following.replica.leader != number
                    # It came back without its disk, and its leader has not heard yet that it is out of sync.
                    or member not in following.replica.isr
                ):
                    continue
                end = following.log.log_end_offset
                if end < leading.high_watermark.value:
                    self._broken(
                        f"{leading.name}: n{number} leads with high watermark {leading.high_watermark.value}, "
                        f"and n{member} of its ISR ends at {end}"
                    )

    def _check_members(
        self, key: _Key, members: tuple[int, ...], replicas: dict[int, HostedPartition]
    ) -> None:
        """Every member of the newest ISR holds all that any leader has called committed."""
        committed = self._committed.get(key, 0)
        for member in members:
            hosted = replicas.get(member)
            if hosted is not None and hosted.log.log_end_offset < committed:
                self._broken(
                    f"{hosted.name}: {committed} records are committed, and n{member} of the ISR "
                    f"ends at {hosted.log.log_end_offset}"
                )

    def _broken(self, what: str) -> None:
        self._story.ledger.broken.append(what)
