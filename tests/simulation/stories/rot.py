"""Disks that forget bits, in one story of nine: a closed segment of one replica has damaged records.

What is damaged counts as lost until it is repaired (`losses.py`): the others hold the records. Before the story ends
every damage must have been found, set aside and fetched again, and no reader may have been handed it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tests.simulation.stories.settings import FLEETING

from ottla.log.files.file_names import LOG, offset_of
from ottla.records.batch import iter_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.stories.losses import Losses
    from tests.simulation.stories.story import Story
    from tests.simulation.world.node import Node

# Not in every story, so that what the seeds of planted bugs find stays as it is.
ROT_EVERY: Final = 9
# What lies before it in a batch is not under the checksum, or says how long the batch is.
_FIRST_CHECKED_BYTE: Final = 21


class Rot:
    """The damage of one story so far."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._damaged: list[tuple[Node, str]] = []

    @property
    def is_due(self) -> bool:
        """Whether records rot in this story."""
        return self._story.seed % ROT_EVERY == ROT_EVERY - 1

    def node_settings(self) -> dict[str, str]:
        """What a node's settings have beside those of other stories: many closed segments."""
        return {"log.segment.bytes": "3000"} if self.is_due else {}

    async def run(self, until_s: float, losses: Losses) -> None:
        """Damage closed segments, of nodes that may lose what they have."""
        dice, world = self._story.world.dice, self._story.world
        while True:
            await asyncio.sleep(dice.uniform(0.1, 1.5))
            if world.now >= until_s:
                return
            for node in dice.sample(self._story.nodes, len(self._story.nodes)):
                segments = sorted(self._closed_segments(node)) if node.is_ready else []
                if segments and losses.may_lose_disk(node):
                    self._damage(node, dice.choice(segments))
                    break

    def is_repaired(self) -> bool:
        """Whether no replica has damaged records any more."""
        return not any(_is_damaged(node, path) for node, path in self._damaged)

    def is_fetched_again(self, node: Node, name: str) -> bool:
        """Whether a replica had damaged records: it leaves the ISR, and its log is truncated before them."""
        directory = f"/data/{node.number}/{name}/"
        return any(who is node and path.startswith(directory) for who, path in self._damaged)

    def _damage(self, node: Node, path: str) -> None:
        dice = self._story.world.dice
        batch = dice.choice(list(iter_batches(bytes(node.disk.content(path)))))
        offset = dice.randrange(_FIRST_CHECKED_BYTE, batch.size_bytes)
        self._story.say(f"{path} of {node.host} rots at offset {batch.base_offset}")
        self._story.ledger.counts["rotten"] += 1
        node.disk.rot(path, batch.position + offset)
        self._damaged.append((node, path))

    def _closed_segments(self, node: Node) -> Iterator[str]:
        """The paths of whole closed segments; of each replica one rots, because a second repair waits for minutes."""
        assert node.broker is not None
        damaged = {path.rpartition("/")[0] for who, path in self._damaged if who is node}
        for partition in node.broker.partitions:
            directory = f"/data/{node.number}/{partition.name}"
            if partition.topic == FLEETING or directory in damaged or partition.is_closed:
                continue
            for path in _segments(node, directory)[:-1]:
                if node.disk.content(path) and not _is_damaged(node, path):
                    yield path


def _segments(node: Node, directory: str) -> list[str]:
    paths = node.disk.paths(directory)
    return [path for path in paths if offset_of(path.rpartition("/")[2], LOG) is not None]


def _is_damaged(node: Node, path: str) -> bool:
    if not node.disk.exists(path):
        return False
    data = bytes(node.disk.content(path))
    return not all(batch.crc_is_valid() for batch in iter_batches(data, allow_partial_end=True))
