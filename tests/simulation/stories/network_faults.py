"""Faults of the network: cuts, splits, slow links, broken connections, garbage."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.simulation.stories.fault_kind import FaultTable, Kind
from tests.simulation.stories.settings import HOSTS_PORT

if TYPE_CHECKING:
    from tests.simulation.world.process import ProcessLoop


class NetworkFaults(Kind):
    """What happens between nodes and clients."""

    def table(self) -> FaultTable:
        """Name → how often it is drawn, what it does."""
        return {
            "cut": (6, self.cut),
            "cut-pair": (4, self.cut_pair),
            "cut-leader": (3, self.cut_leader),
            "split": (3, self.split),
            "ring": (2, self.ring),
            "cut-clients": (2, self.cut_clients),
            "slow-link": (2, self.slow_link),
            "reset": (4, self.reset),
            "hold": (4, self.hold),
            "garbage": (1, self.garbage),
        }

    async def cut(self) -> None:
        """Cut one node off from everybody: both ways, or one."""
        victim = self._some(1)[0].host
        way = self._dice.choice(("both", "in", "out"))
        self._say(f"cut {victim} off ({way})")
        await self._cut_for(victim, self._others(victim), way, self._dice.uniform(0.2, 4.5))

    async def cut_leader(self) -> None:
        """The leader of a partition is cut off from the other nodes, while clients still reach it."""
        leader = self._story.leader_of(self._dice.choice(self._story.placed_partitions))
        victim = (leader or self._some(1)[0]).host
        nodes = [node.host for node in self._story.nodes if node.host != victim]
        self._say(f"cut {victim}, which leads, off from the other nodes")
        await self._cut_for(victim, nodes, "both", self._dice.uniform(0.3, 4.5))

    async def split(self) -> None:
        """Two groups of nodes, with a node or a client on either side, do not hear each other."""
        hosts = [node.host for node in self._story.nodes] + [client.host for client in self._story.clients]
        here = self._dice.sample(hosts, self._dice.randrange(1, len(hosts)))
        there = [host for host in hosts if host not in here]
        self._say(f"split {' '.join(here)} from {' '.join(there)}")
        for source in here:
            for target in there:
                self._network.cut(source, target)
                self._network.cut(target, source)
        await self._sleep(0.3, 4)
        for source in here:
            for target in there:
                self._network.heal(source, target)
                self._network.heal(target, source)

    async def cut_pair(self) -> None:
        """Two nodes do not hear each other, and both are heard by the rest."""
        one, other = (node.host for node in self._some(2))
        way = self._dice.choice(("both", "in", "out"))
        self._say(f"cut between {one} and {other} ({way})")
        await self._cut_for(one, [other], way, self._dice.uniform(0.2, 3))

    async def ring(self) -> None:
        """Each node hears only its neighbours: every node sees another majority."""
        hosts = [node.host for node in self._story.nodes]
        count = len(hosts)
        if count == 3:
            cuts = [(hosts[i], hosts[(i + 1) % 3]) for i in range(3)]
        else:
            cuts = [
                (hosts[i], hosts[j])
                for i in range(count)
                for j in range(count)
                if (i - j) % count not in (0, 1, count - 1)
            ]
        self._say("ring: each node hears only some others")
        for source, target in cuts:
            self._network.cut(source, target)
        await self._sleep(0.3, 3)
        for source, target in cuts:
            self._network.heal(source, target)

    async def cut_clients(self) -> None:
        """Clients do not reach some node, while nodes reach each other."""
        victim = self._some(1)[0].host
        clients = [client.host for client in self._story.clients]
        self._say(f"cut clients off from {victim}")
        await self._cut_for(victim, clients, "both", self._dice.uniform(0.3, 3))

    async def slow_link(self) -> None:
        victim = self._some(1)[0].host
        self._network.slow[victim] = self._dice.choice((20.0, 100.0))
        self._say(f"the link of {victim} is slow")
        await self._sleep(0.3, 2.4)
        self._network.slow.pop(victim, None)

    async def reset(self) -> None:
        """Break the connections of a node with everybody, or with one other."""
        victim = self._some(1)[0].host
        others = self._others(victim)
        if self._dice.random() < 0.5:
            others = [self._dice.choice(others)]
        self._say(f"reset connections of {victim} with {' '.join(others)}")
        for other in others:
            self._network.reset_between(victim, other)
        await self._sleep(0.06, 0.6)

    async def garbage(self) -> None:
        """Somebody connects to a node, sends random bytes or a part of a request, and stays."""
        node = self._some(1)[0]
        self._say(f"send garbage to {node.host}")
        stranger = self._world.start("stranger", "stranger")
        data = self._dice.randbytes(self._dice.randrange(1, 60))
        if self._dice.random() < 0.5:
            data = b"\0\0\0\x50" + data
        stranger.create_task(_send_and_stay(stranger, HOSTS_PORT + node.number, data))
        await self._sleep(0.1, 1)
        stranger.kill()
        self._network.killed(stranger)

    async def hold(self) -> None:
        """Single connections stand still for long, and go on: what arrives then was said two elections ago."""
        open_now = list(self._network.sockets.values())
        for socket in self._dice.sample(open_now, min(len(open_now), 3)):
            seconds = self._dice.uniform(0.3, 4)
            self._say(f"hold a connection of {socket.host} with {socket.peer.host} for {seconds:.1f} s")
            self._network.hold(socket, seconds)
        await self._sleep(0.6, 1.8)


async def _send_and_stay(process: ProcessLoop, port: int, data: bytes) -> None:
    with suppress(ConnectionError):
        transport, _ = await process.create_connection(_Deaf, "127.0.0.1", port)
        transport.write(data)


class _Deaf(asyncio.BufferedProtocol):
    """Takes what arrives, and does nothing with it."""

    def get_buffer(self, sizehint: int) -> bytearray:
        return bytearray(1024)
