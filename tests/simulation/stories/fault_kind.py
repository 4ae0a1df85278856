"""What all faults of a story need: nodes to choose from, waiting, saying, taking down and bringing up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.stories.losses import Losses
    from tests.simulation.stories.story import Story
    from tests.simulation.world.node import Node

FaultTable = dict[str, tuple[int, Callable[[], Awaitable[None]]]]


class Kind:
    """The faults of one kind."""

    def __init__(self, story: Story, losses: Losses) -> None:
        self._story = story
        self._losses = losses
        self._world = story.world
        self._dice = story.world.dice
        self._network = story.world.network

    def _some(self, count: int) -> list[Node]:
        return self._dice.sample(self._story.nodes, count)

    def _controllers(self) -> list[Node]:
        """The nodes, first the one that leads the quorum."""
        nodes = self._some(len(self._story.nodes))
        return sorted(nodes, key=lambda node: not node.is_controller)

    def _others(self, victim: str) -> list[str]:
        nodes = [node.host for node in self._story.nodes if node.host != victim]
        return nodes + [client.host for client in self._story.clients]

    async def _down(self, nodes: list[Node], *, loses_power: bool = False) -> None:
        for node in nodes:
            self._say(f"{'power of' if loses_power else 'kill'} {node.host}")
            node.kill(loses_power=loses_power)
            if self._dice.random() < 0.5:
                await self._sleep(0, 0.9)
        await self._sleep(0, 1.8)
        await self._up(self._dice.sample(nodes, len(nodes)))

    async def _up(self, nodes: list[Node]) -> None:
        for node in nodes:
            if not node.is_running:
                self._say(f"start {node.host}")
                node.start()
            if self._dice.random() < 0.5:
                await self._sleep(0, 1.2)

    async def _replace_if_broken(self, node: Node) -> None:
        """An operator restarts a broker whose disk failed: what it could not write it will never take for written."""
        await self._sleep(0.06, 1.2)
        has_ended = not node.is_running and node.has_halted
        if has_ended or (node.is_running and node.disk.has_failed):
            self._say(f"restart {node.host} after its disk failed")
            node.kill()
            await self._up([node])

    async def _cut_for(self, victim: str, others: list[str], way: str, seconds: float) -> None:
        cuts = [(victim, other) for other in others if way != "in"]
        cuts += [(other, victim) for other in others if way != "out"]
        for source, target in cuts:
            self._network.cut(source, target)
        await asyncio.sleep(seconds)
        for source, target in cuts:
            self._network.heal(source, target)

    async def _sleep(self, shortest_s: float, longest_s: float) -> None:
        await asyncio.sleep(self._dice.uniform(shortest_s, longest_s))

    def _say(self, what: str) -> None:
        self._story.say(what)
