"""Clients that write: with all the settings that a producer has, in bursts, to several partitions at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.simulation.stories.clients import Client
from tests.simulation.stories.ledger import Promise
from tests.simulation.stories.settings import PRODUCER
from tests.simulation.world.edge import runtime_of

import ottla
from ottla.client.producer.machine.delivery_report import DeliveryError, DeliveryReport

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.stories.ledger import Ledger, Partition
    from tests.simulation.world.process import ProcessLoop
    from tests.simulation.world.scheduler import World

ACKS_OF: dict[Promise, tuple[dict[str, Any], ...]] = {
    Promise.ONCE: ({},),
    Promise.KEPT: ({"enable_idempotence": False},),
    Promise.NONE: ({"acks": 1}, {"acks": 1}, {"acks": 0}),
}


class Writer(Client):
    """Writes records with unique names to some partitions. Each life has other settings and another pace."""

    def __init__(
        self,
        world: World,
        name: str,
        servers: str,
        ledger: Ledger,
        partitions: Callable[[], list[Partition]],
        *,
        promise: Promise = Promise.ONCE,
        longest_pause_s: float = 1.5,
    ) -> None:
        self._partitions = partitions
        self._promise = promise
        self._longest_pause_s = longest_pause_s
        self._number = 0
        super().__init__(world, name, servers, ledger)

    def _producer(self, process: ProcessLoop) -> ottla.Producer:
        dice = self.world.dice
        settings = {
            **PRODUCER,
            **dice.choice(ACKS_OF[self._promise]),
            # Small batches: several requests of one partition are under way at once.
            "batch_size": dice.choice((300, 2_000, 16_384)),
            "linger_ms": dice.choice((5, 20)),
            "max_in_flight_requests_per_connection": dice.choice((1, 5, 5)),
            "compression": dice.choice(("none", "none", "gzip")),
            "compression_threshold": 100,
        }
        return ottla.Producer(
            self.servers, runtime=runtime_of(process, None, lambda: 1.0), **settings, **self.access
        )

    async def live(self, process: ProcessLoop, life: int) -> None:
        dice = self.world.dice
        async with self._producer(process) as producer:
            while not self.is_stopping:
                # Most bursts are small; some fill several batches.
                places = dice.sample(self._partitions(), dice.randrange(1, len(self._partitions()) + 1))
                for _ in range(int(1 + dice.random() ** 3 * 40)):
                    self._send(producer, life, dice.choice(places))
                await asyncio.sleep(0.005 + dice.random() ** 2 * self._longest_pause_s)
            # The cluster is healed by now: the same producer reaches every partition again.
            for partition in self._partitions():
                self._send(producer, life, partition)
        self.ledger.closed(f"{self.name}#{life}")

    def _send(self, producer: ottla.Producer, life: int, partition: Partition) -> None:
        self._number += 1
        ledger = self.ledger
        name, content = ledger.send(f"{self.name}#{life}", self._number, partition, self._promise)

        def told(report: DeliveryReport | DeliveryError) -> None:
            if isinstance(report, DeliveryError):
                ledger.fail(name)
            else:
                ledger.acknowledge(name, report.offset)

        try:
            producer.send_soon(
                partition[0],
                content.value,
                key=content.key,
                headers=content.headers,
                partition=partition[1],
                on_delivery=told,
            )
        except DeliveryError:
            ledger.fail(name)


class LastWriter(Writer):
    """Writes one record to each partition, and stops when all are acknowledged."""

    async def live(self, process: ProcessLoop, life: int) -> None:
        async with self._producer(process) as producer:
            for partition in self._partitions():
                self._send(producer, life, partition)
            await producer.flush()
        self.is_stopping = True
