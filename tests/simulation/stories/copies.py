"""On how many disks a record is when its producer hears that it is committed.

A loss shows only when the right nodes die afterwards. That a record lies on too few disks when it is acknowledged can
be seen at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.simulation.stories.ledger import Partition
    from tests.simulation.stories.story import Story
    from tests.simulation.world.node import Node

# `min.insync.replicas` of all topics, as long as no fault lowers it.
_COPIES: Final = 2


class Copies:
    """Looks into the logs of all nodes of a story when a record is acknowledged."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._is_enough_alone = False

    def one_is_enough(self) -> None:
        """A topic asks for one replica in sync: from now on nothing is known about copies."""
        self._is_enough_alone = True

    def lives(self) -> tuple[int, ...]:
        """The incarnation of each node: a node that died since may have lost what it had."""
        return tuple(node.incarnation for node in self._story.nodes)

    def problem(self, partition: Partition, offset: int, name: str, lives: tuple[int, ...]) -> str | None:
        """What is wrong with the copies of a record that was sent when nodes had these incarnations."""
        nodes = self._story.nodes
        if self._is_enough_alone or lives != self.lives() or not all(node.is_ready for node in nodes):
            return None
        holders = [node for node in nodes if _end(node, partition) > offset]
        if len(holders) < _COPIES:
            hosts = " ".join(node.host for node in holders) or "no node"
            return f"{partition}: {name} is acknowledged at {offset}, and only {hosts} has it"
        if self._story.flushes:
            return self._unflushed(holders, partition, offset, name)
        return None

    def _unflushed(self, holders: list[Node], partition: Partition, offset: int, name: str) -> str | None:
        """A record that is not compressed can be looked for in what a loss of power would leave."""
        found = [_is_durable(node, partition, f"{name}~".encode()) for node in holders]
        written, durable = sum(each is not None for each in found), sum(each is True for each in found)
        if written < _COPIES or durable >= _COPIES:
            return None
        return f"{partition}: {name} is acknowledged at {offset}, and flushed on {durable} of {written} disks"


def _end(node: Node, partition: Partition) -> int:
    assert node.broker is not None
    hosted = node.broker.partitions.find(*partition)
    return 0 if hosted is None or hosted.is_closed else hosted.log.log_end_offset


def _is_durable(node: Node, partition: Partition, piece: bytes) -> bool | None:
    """Whether a loss of power leaves these bytes in a log; None if the log does not have them as they are."""
    disk, directory = node.disk, f"/data/{node.number}/{partition[0]}-{partition[1]}"
    for path in reversed(disk.paths(directory)):
        if path.endswith(".log") and piece in disk.content(path):
            return piece in (disk.durable(path) or b"")
    return None
