"""Nodes of one cluster inside the test's process, each a real `Broker` with a port, a directory and real
connections.

`kill` does to a node what SIGKILL does to a process: its connections die, nothing is written any more,
nothing is marked.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.integration.processor_waits import Stopwatch
from tests.integration.troubled_disk import TroubledDisk

from ottla.config import BrokerConfig
from ottla.localcluster.ports import HOST, free_port
from ottla.runtime.runtime import Runtime
from ottla.server.broker import Broker
from ottla.wire.connection import Connection

DEADLINE_S = 20.0

# Failures are noticed by connections that die, not by these; short, so that a test that waits for them is
# short.
QUICK = {
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.fetch.timeout.ms": "600",
    "broker.session.timeout.ms": "1500",
    "log.cleaner.enable": "false",
}


class Nodes:
    """The nodes of a cluster by their ids; `voters` of them vote, others are brokers only."""

    def __init__(self, root: Path, voters: int = 3, **settings: str) -> None:
        self._root = root
        self._settings = QUICK | {name.replace("_", "."): value for name, value in settings.items()}
        self.ports = {node_id: free_port() for node_id in range(1, voters + 1)}
        self._voters = ",".join(f"{node_id}@{HOST}:{port}" for node_id, port in self.ports.items())
        self._voter_ids = set(self.ports)
        self.disks = {node_id: TroubledDisk() for node_id in self.ports}
        self.running: dict[int, Broker] = {}

    def directory(self, node_id: int) -> Path:
        return self._root / f"node-{node_id}"

    def config(self, node_id: int, **settings: str) -> BrokerConfig:
        port = self.ports.setdefault(node_id, free_port())
        properties = {
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://{HOST}:{port}",
            "log.dirs": str(self.directory(node_id)),
            "controller.quorum.voters": self._voters,
            **({} if node_id in self._voter_ids else {"process.roles": "broker"}),
            **self._settings,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        return BrokerConfig.from_properties(properties)

    async def start(self, *node_ids: int, **settings: str) -> None:
        """Start nodes together, and return when all of them are ready."""
        brokers = {
            node_id: Broker(self.config(node_id, **settings), self._runtime(node_id)) for node_id in node_ids
        }
        self.running |= brokers
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.gather(*(broker.start() for broker in brokers.values()))

    def _runtime(self, node_id: int) -> Runtime:
        disk = self.disks.get(node_id)
        return Runtime() if disk is None else Runtime(disk=disk)

    async def stop(self, node_id: int) -> None:
        """Stop a node as SIGTERM does."""
        await self.running.pop(node_id).stop()

    async def kill(self, node_id: int) -> None:
        """End a node without a word."""
        await self.running.pop(node_id).abort()

    @property
    def controller_id(self) -> int | None:
        """Whom the nodes that run agree on as their controller, if it decides."""
        known = {broker.quorum.controller_id for broker in self.running.values()}
        (agreed,) = known if len(known) == 1 else (None,)
        broker = self.running.get(agreed or -1)
        return agreed if broker is not None and broker.quorum.is_controller else None

    async def controller(self) -> int:
        """The controller, once there is one that all agree on."""
        await eventually(lambda: self.controller_id is not None, "there is a controller")
        assert self.controller_id is not None
        return self.controller_id

    def others(self, node_id: int) -> list[int]:
        return [each for each in self.running if each != node_id]

    async def ask(self, node_id: int, request: Any, version: int | None = None) -> Any:
        """Ask a node as a client does."""
        async with await Connection.open(HOST, self.ports[node_id], timeout_ms=10_000) as connection:
            return await connection.ask(request, version)


async def eventually(condition: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Wait for a condition. The deadline is one of work: waits for a processor do not count, all nodes are in
    this process.
    """
    watch = Stopwatch()
    while not condition():
        assert watch.seconds < deadline_s, f"not within {deadline_s} s: {what}"
        await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def nodes(root: Path, voters: int = 3, **settings: str) -> AsyncIterator[Nodes]:
    """A cluster for the length of a block; whatever runs at its end is ended."""
    cluster = Nodes(root, voters, **settings)
    try:
        yield cluster
    finally:
        await asyncio.gather(*(broker.abort() for broker in cluster.running.values()))


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await test()

    asyncio.run(main())
