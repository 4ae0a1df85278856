"""Which node may lose what is on its disk: what a cluster promises to survive, and no more.

Every committed record is on two disks, as long as topics ask for two replicas in sync. So one node may lose its disk,
or what it had not flushed, again and again; another one only after all replicas are complete again, and every voter
remembers its votes again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.image import ResourceType

if TYPE_CHECKING:
    from tests.simulation.stories.story import Story
    from tests.simulation.world.node import Node

    from ottla.server.broker import Broker


class Losses:
    """The losses of one story so far."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._unreliable: Node | None = None
        self._commits_alone = False
        self._counts_on_flushes = story.flushes

    def may_lose_disk(self, node: Node) -> bool:
        """Whether a node may lose its disk now; if so, it is the one whose disk is not relied upon."""
        is_first = not self._commits_alone and self._unreliable in (None, node)
        if not is_first and not self._is_made_good():
            return False
        self._unreliable = node
        return True

    def may_lose_power(self, node: Node) -> bool:
        """Whether a node may lose what it has not flushed."""
        return not self._counts_on_flushes and self.may_lose_disk(node)

    def may_commit_alone(self) -> bool:
        """Whether a topic may ask for one replica in sync only; if so, no disk may be lost meanwhile."""
        if self._unreliable is not None and not self._is_made_good():
            return False
        self._commits_alone = True
        return True

    def flushes_from_now_on(self, *, is_at_once: bool) -> None:
        """A topic flushes what is written from now on; nothing is promised about what was written before."""
        self._counts_on_flushes = self._counts_on_flushes or is_at_once

    def _is_made_good(self) -> bool:
        """Whether all that was lost is there again, and every topic asks for two replicas in sync."""
        story = self._story
        brokers = [node.broker for node in story.nodes if node.is_ready and node.broker is not None]
        if len(brokers) < len(story.nodes) or not story.administrator.is_idle or not story.rot.is_repaired():
            return False
        if any(each.quorum.member.is_voter and not each.quorum.member.replica.can_vote for each in brokers):
            return False  # a voter whose disk was lost has not caught up: a majority must remember its votes
        if not all(self._is_complete(broker, brokers) for broker in brokers):
            return False
        self._unreliable, self._commits_alone = None, False
        return True

    def _is_complete(self, broker: Broker, brokers: list[Broker]) -> bool:
        """Whether all replicas are in sync in one broker's opinion, and hold all that is committed."""
        image = broker.quorum.image
        for topic, partition in image.partitions():
            if image.config_of(ResourceType.TOPIC, topic.name).get("min.insync.replicas") == "1":
                return False
            held = [brokers[n - 1].partitions.find(topic.name, partition.index) for n in partition.replicas]
            replicas = [each for each in held if each is not None]
            if set(partition.isr) != set(partition.replicas) or len(replicas) < len(held):
                return False
            committed = max(each.high_watermark.value for each in replicas)
            if any(each.log.log_end_offset < committed for each in replicas):
                return False
        return True
