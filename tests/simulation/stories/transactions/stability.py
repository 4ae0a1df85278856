"""Last stable offsets while brokers run: they do not go back, and do not pass a transaction that is open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.simulation.stories.ledger import Partition
    from tests.simulation.stories.story import Story
    from tests.simulation.stories.transactions.fates import Fates
    from tests.simulation.world.node import Node

    from ottla.server.partitions.hosted_partition import HostedPartition

_INTERVAL_S: Final = 0.03


class _Seen(NamedTuple):
    host: str
    log_end: int
    stable: int


class Stability:
    """Looks at the partitions of some topics on all nodes again and again."""

    def __init__(self, story: Story, topics: tuple[str, ...]) -> None:
        self._story = story
        self._topics = topics
        self._last: dict[HostedPartition, int] = {}
        self._seen: dict[Partition, dict[_Seen, None]] = {}

    def look(self) -> None:
        """Check everything now, and again later."""
        for node in self._story.nodes:
            if not node.is_ready or node.broker is None:
                continue
            for hosted in node.broker.partitions:
                if hosted.topic in self._topics and not hosted.is_closed:
                    self._check(node, hosted)
        self._story.world.later(_INTERVAL_S, self.look)

    def _check(self, node: Node, hosted: HostedPartition) -> None:
        host, stable, before = node.host, hosted.last_stable_offset, self._last.get(hosted, 0)
        if stable < before and not self._story.rot.is_fetched_again(node, hosted.name):
            self._story.ledger.broken.append(
                f"{hosted.name}: the last stable offset of {host} went from {before} back to {stable}"
            )
        self._last[hosted] = stable
        seen = self._seen.setdefault((hosted.topic, hosted.index), {})
        seen[_Seen(host, hosted.log.log_end_offset, stable)] = None

    def compare(self, logs: Mapping[Partition, Fates]) -> list[str]:
        """What was wrong, as the logs show: a log that ends before a marker has the transaction open."""
        return [
            f"{partition}: {stable} was the last stable offset of {host}, whose log ended at {log_end}; "
            f"a transaction from {ended.first_offset} on ended at {ended.marker_offset}"
            for partition, fates in logs.items()
            for host, log_end, stable in self._seen.get(partition, {})
            for ended in fates.ended
            if ended.first_offset < stable and log_end <= ended.marker_offset
        ]
