"""Who reaches whom, and how long it takes.

A connection is two ways, each of which delivers in order, as TCP does. What can go wrong on a way: pieces are split,
travel long, stand still while the way is cut (TCP sends again until the cut heals), or the connection is reset and what
was under way is lost. A host that lost power answers nothing; a host that is up resets connections it does not know.
"""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.world.sockets import Door, Socket, Transport

if TYPE_CHECKING:
    from tests.simulation.world.process import ProcessLoop
    from tests.simulation.world.scheduler import World

# TCP tries again so soon after a loss; the real one doubles its pauses, which only makes the same wait longer.
RETRANSMIT_S: Final = 0.2
_SYN_AGAIN_S: Final = 1.0


class Network:
    """All hosts, doors and connections."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.cuts: dict[tuple[str, str], int] = {}
        self.slow: dict[str, float] = {}
        self.without_power: dict[str, None] = {}
        self.doors: dict[int, Door] = {}
        self.sockets: dict[int, Socket] = {}
        self.resets = 0
        self.late_share = 0.02  # of what is sent: it takes up to a tenth of a second
        self._next_descriptor = 1_000

    # ---- faults

    def cut(self, source: str, target: str) -> None:
        """Nothing arrives any more that `source` sends to `target`. Cuts of several faults add up."""
        self.cuts[source, target] = self.cuts.get((source, target), 0) + 1

    def heal(self, source: str, target: str) -> None:
        """Take one cut back."""
        left = self.cuts.get((source, target), 0) - 1
        if left > 0:
            self.cuts[source, target] = left
        else:
            self.cuts.pop((source, target), None)

    def heal_all(self) -> None:
        """Nothing is cut or slow any more."""
        self.cuts.clear()
        self.slow.clear()

    def reset_between(self, one: str, other: str) -> None:
        """Break every connection between two hosts; what was under way is lost."""
        for socket in list(self.sockets.values()):
            if {socket.host, socket.peer.host} == {one, other}:
                socket.reset()
                self.resets += 1

    def hold(self, socket: Socket, seconds: float) -> None:
        """Nothing moves on one connection for a while, whatever happens on others between the same hosts."""
        until = self.world.now + seconds
        socket.held_until = socket.peer.held_until = until

    # ---- what sockets ask

    def descriptor(self) -> int:
        self._next_descriptor += 1
        return self._next_descriptor

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self.cuts or target in self.without_power or source in self.without_power

    def latency_s(self, source: str, target: str) -> float:
        draw, prompt = self.world.dice.random(), 1 - self.late_share
        usual = 0.0001 + draw * 0.001 if draw < prompt else 0.01 + (draw - prompt) * 5
        return usual * self.slow.get(source, 1.0) * self.slow.get(target, 1.0)

    async def connect(self, process: ProcessLoop, factory: Any, port: int) -> tuple[Transport, Any]:
        """As `loop.create_connection`."""
        here = process.host
        while True:
            await asyncio.sleep(self.latency_s(here, here))
            there = host_of(port)
            if not (self.is_cut(here, there) or self.is_cut(there, here)):
                break
            await asyncio.sleep(_SYN_AGAIN_S)
        door = self.doors.get(port)
        if door is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        ours, theirs = Socket(self, process), Socket(self, door.process)
        ours.peer, theirs.peer = theirs, ours
        door.arrived(theirs)
        protocol = factory()
        transport = Transport(ours, protocol, process)
        protocol.connection_made(transport)
        return transport, protocol

    def killed(self, process: ProcessLoop) -> None:
        """The kernel of a process that was killed closes its sockets: what was sent still arrives, then the end."""
        for port in [port for port, door in self.doors.items() if door.process is process]:
            del self.doors[port]
        for socket in list(self.sockets.values()):
            if socket.process is process:
                socket.abandon()

    def power_lost(self, host: str) -> None:
        """A host is gone without a word."""
        self.without_power[host] = None
        for port in [port for port, door in self.doors.items() if door.process.host == host]:
            del self.doors[port]
        for socket in list(self.sockets.values()):
            if socket.host == host:
                socket.vanish()

    def power_back(self, host: str) -> None:
        """A host is up again, and knows none of its connections."""
        self.without_power.pop(host, None)


def host_of(port: int) -> str:
    """The host that a port belongs to: each node has one port, or two, whose last digits are the node's number."""
    return f"n{port % 100}"
