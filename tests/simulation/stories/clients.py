"""Clients of a story: each is a process of its own with the shipped `Producer`, `Consumer` or `Admin` in it.

A client that fails for good (its time is over, its group threw it out) starts again, as an application would.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import ottla
from ottla.client.producer.machine.delivery_report import DeliveryError
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.simulation.stories.ledger import Ledger
    from tests.simulation.world.process import ProcessLoop
    from tests.simulation.world.scheduler import World

TROUBLE = (KafkaError, ConnectionError, TimeoutError, DeliveryError)


class Client(ABC):
    """A process that runs one thing again and again until it is told to stop."""

    def __init__(self, world: World, name: str, servers: str, ledger: Ledger) -> None:
        self.world = world
        self.name = name
        self.servers = servers
        self.ledger = ledger
        self.lives = 0
        self.is_stopping = False
        self.process: ProcessLoop = self._begin()

    @property
    def access(self) -> dict[str, Any]:
        """How this client reaches the cluster now."""
        return self.world.access(self.name)

    @property
    def host(self) -> str:
        return self.name

    @property
    def is_done(self) -> bool:
        return self.process.is_dead

    def stop(self) -> None:
        """End when what is under way is finished."""
        self.is_stopping = True

    def crash(self) -> None:
        """Be killed, and start again in another process."""
        if not self.process.is_dead and not self.is_stopping:
            self._end()
            self.process = self._begin()

    def _end(self) -> None:
        self.process.kill()
        self.world.network.killed(self.process)

    def _begin(self) -> ProcessLoop:
        self.lives += 1
        process = self.world.start(f"{self.name}#{self.lives}", self.name)
        process.create_task(self._run(process, self.lives))
        return process

    async def _run(self, process: ProcessLoop, life: int) -> None:
        try:
            while not self.is_stopping:
                try:
                    await self.live(process, life)
                except TROUBLE:
                    self.ledger.counts["client failures"] += 1
                    await asyncio.sleep(0.2)
        except Exception as error:
            self.ledger.broken.append(f"{self.name} cannot go on: {error!r}")
            raise
        finally:
            if self.process is process:
                self._end()

    @abstractmethod
    async def live(self, process: ProcessLoop, life: int) -> None:
        """What this client does."""


class Administrator(Client):
    """Does one thing at a time with an `Admin`, as long as it takes; asks for committed offsets in between."""

    def __init__(self, world: World, name: str, servers: str, ledger: Ledger, *, group: str) -> None:
        self._group = group
        self._orders: list[Callable[[ottla.Admin], Awaitable[object]]] = []
        super().__init__(world, name, servers, ledger)

    def order(self, work: Callable[[ottla.Admin], Awaitable[object]]) -> None:
        """Have something done once; what fails is not tried again."""
        self._orders.append(work)

    @property
    def is_idle(self) -> bool:
        return not self._orders

    async def live(self, process: ProcessLoop, life: int) -> None:
        async with ottla.Admin(self.servers, timeout_ms=3_000, **self.access) as admin:
            while not self.is_stopping:
                if not self._orders:
                    await self._ask_offsets(admin)
                    await asyncio.sleep(0.2)
                    continue
                work = self._orders[0]
                try:
                    await work(admin)
                finally:
                    self._orders.remove(work)

    async def _ask_offsets(self, admin: ottla.Admin) -> None:
        ledger = self.ledger
        promised = {
            place: ledger.committed.get((group, place), 0)
            for group, place in [*ledger.processed]
            if group == self._group
        }
        if not promised or self.world.dice.random() < 0.5:
            return
        wanted = [ottla.TopicPartition(*place) for place in promised]
        told = await admin.list_group_offsets(self._group, wanted)
        for place, offset in promised.items():
            committed = told.get(ottla.TopicPartition(*place))
            if not isinstance(committed, KafkaError):
                said = committed.offset if isinstance(committed, CommittedOffset) else 0
                ledger.told_committed(self._group, place, offset, said)
