"""Clients of a story: each is a process of its own with the shipped `Producer`, `Consumer` or `Admin` in it.

A client that fails for good (its time is over, its group threw it out) starts again, as an application would.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from tests.simulation.stories.settings import CONSUMER, MEMBER, PRODUCER
from tests.simulation.world.edge import runtime_of

import ottla
from ottla.client.producer.machine.delivery_report import DeliveryError, DeliveryReport
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.simulation.stories.ledger import Ledger, Partition
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
        self.broken: BaseException | None = None
        self.process: ProcessLoop = self._begin()

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
        except BaseException as error:
            self.broken = error
            raise
        finally:
            if self.process is process:
                self._end()

    @abstractmethod
    async def live(self, process: ProcessLoop, life: int) -> None:
        """What this client does."""


class Writer(Client):
    """Writes records with unique values to some partitions, in small rounds."""

    def __init__(
        self, world: World, name: str, servers: str, ledger: Ledger, partitions: Callable[[], list[Partition]]
    ) -> None:
        self._partitions = partitions
        self._number = 0
        super().__init__(world, name, servers, ledger)

    async def live(self, process: ProcessLoop, life: int) -> None:
        runtime = runtime_of(process, None, lambda: 1.0)
        async with ottla.Producer(self.servers, runtime=runtime, **PRODUCER) as producer:
            while not self.is_stopping:
                for _ in range(self.world.dice.randrange(1, 5)):
                    self._send(producer, life)
                await asyncio.sleep(0.01 + self.world.dice.random() ** 2 * 0.8)

    def _send(self, producer: ottla.Producer, life: int) -> None:
        topic, index = self.world.dice.choice(self._partitions())
        self._number += 1
        value = self.ledger.send(f"{self.name}#{life}", self._number, (topic, index))

        def told(report: DeliveryReport | DeliveryError) -> None:
            if isinstance(report, DeliveryError):
                self.ledger.fail(value)
            else:
                self.ledger.acknowledge(value, report.offset)

        try:
            producer.send_soon(topic, value, partition=index, on_delivery=told)
        except DeliveryError:
            self.ledger.fail(value)


class LastWriter(Writer):
    """Writes one record to each partition, and stops when all are acknowledged."""

    async def live(self, process: ProcessLoop, life: int) -> None:
        runtime = runtime_of(process, None, lambda: 1.0)
        async with ottla.Producer(self.servers, runtime=runtime, **PRODUCER) as producer:
            for partition in self._partitions():
                self._number += 1
                value = self.ledger.send(f"{self.name}#{life}", self._number, partition)
                report = await producer.send(partition[0], value, partition=partition[1])
                self.ledger.acknowledge(value, report.offset)
        self.is_stopping = True


class Reader(Client):
    """Reads all partitions from the beginning, without a group."""

    def __init__(
        self, world: World, name: str, servers: str, ledger: Ledger, partitions: Callable[[], list[Partition]]
    ) -> None:
        self._partitions = partitions
        super().__init__(world, name, servers, ledger)

    async def live(self, process: ProcessLoop, life: int) -> None:
        async with ottla.Consumer(self.servers, **CONSUMER) as consumer:
            consumer.assign([ottla.TopicPartition(*each) for each in self._partitions()])
            while not self.is_stopping:
                for record in await consumer.poll(timeout_ms=500):
                    self.ledger.read((record.topic, record.partition), record.offset, _text(record.value))


class Member(Client):
    """A member of a group: reads its share, and commits what it has read."""

    def __init__(
        self,
        world: World,
        name: str,
        servers: str,
        ledger: Ledger,
        *,
        group: str,
        topics: list[str],
        strategy: str,
    ) -> None:
        self._group = group
        self._topics = topics
        self._strategy = strategy
        super().__init__(world, name, servers, ledger)

    async def live(self, process: ProcessLoop, life: int) -> None:
        dice = self.world.dice
        async with ottla.Consumer(
            self.servers,
            group_id=self._group,
            partition_assignment_strategy=[self._strategy],
            client_id=self.name,
            **MEMBER,
        ) as consumer:
            uncommitted: dict[ottla.TopicPartition, int] = {}

            def revoked(partitions: frozenset[ottla.TopicPartition]) -> None:
                for partition in partitions:
                    uncommitted.pop(partition, None)

            consumer.subscribe(self._topics, on_revoked=revoked)
            while not self.is_stopping:
                for record in await consumer.poll(max_records=dice.randrange(1, 40), timeout_ms=400):
                    place = record.topic, record.partition
                    self.ledger.process(self._group, place, record.offset, _text(record.value))
                    uncommitted[ottla.TopicPartition(*place)] = record.offset + 1
                await self._commit(consumer, uncommitted)

    async def _commit(self, consumer: ottla.Consumer, uncommitted: dict[ottla.TopicPartition, int]) -> None:
        """Commit, and try again later what is refused, as long as the partitions are this member's."""
        if not uncommitted:
            return
        try:
            await consumer.commit(uncommitted)
        except KafkaError:
            self.ledger.counts["refused commits"] += 1
            return
        for partition, offset in uncommitted.items():
            self.ledger.commit(self._group, (partition.topic, partition.partition), offset)
        uncommitted.clear()


class Administrator(Client):
    """Does one thing at a time with an `Admin`, as long as it takes."""

    def __init__(self, world: World, name: str, servers: str, ledger: Ledger) -> None:
        self._orders: list[Callable[[ottla.Admin], Awaitable[object]]] = []
        super().__init__(world, name, servers, ledger)

    def order(self, work: Callable[[ottla.Admin], Awaitable[object]]) -> None:
        """Have something done once; what fails is not tried again."""
        self._orders.append(work)

    @property
    def is_idle(self) -> bool:
        return not self._orders

    async def live(self, process: ProcessLoop, life: int) -> None:
        async with ottla.Admin(self.servers, timeout_ms=3_000) as admin:
            while not self.is_stopping:
                if not self._orders:
                    await asyncio.sleep(0.1)
                    continue
                work = self._orders[0]
                try:
                    await work(admin)
                finally:
                    self._orders.remove(work)


def _text(value: object) -> str:
    assert isinstance(value, bytes)
    return value.decode()
