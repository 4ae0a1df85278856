"""Readers of committed records: what each was given is compared at the end with the markers in the logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.stories.clients import Client
from tests.simulation.stories.ledger import name_of
from tests.simulation.stories.settings import CONSUMER, RACKS
from tests.simulation.stories.transactions.book import Run

import ottla

if TYPE_CHECKING:
    from tests.simulation.stories.ledger import Ledger, Partition
    from tests.simulation.stories.transactions.book import Book
    from tests.simulation.world.process import ProcessLoop
    from tests.simulation.world.scheduler import World


class CommittedReader(Client):
    """Reads committed records of all partitions; goes back at times."""

    def __init__(
        self, world: World, name: str, servers: str, ledger: Ledger, book: Book, places: list[Partition]
    ) -> None:
        self._book = book
        self._places = places
        self.positions: dict[Partition, int] = {}
        super().__init__(world, name, servers, ledger)

    async def live(self, process: ProcessLoop, life: int) -> None:
        dice = self.world.dice
        async with ottla.Consumer(
            self.servers,
            isolation_level="read_committed",
            max_partition_fetch_bytes=dice.choice((200, 2_000, 1 << 20)),
            client_rack=dice.choice(("", *RACKS)),
            **CONSUMER,
            **self.access,
        ) as consumer:
            consumer.assign([ottla.TopicPartition(*place) for place in self._places])
            runs = {place: self._run_from(place, 0) for place in self._places}
            while not self.is_stopping:
                for record in await consumer.poll(max_records=dice.randrange(1, 400), timeout_ms=500):
                    runs[record.topic, record.partition].names[record.offset] = name_of(record.value)
                    self.ledger.counts["read committed"] += 1
                for place, run in runs.items():
                    position = consumer.position(ottla.TopicPartition(*place))
                    run.end = self.positions[place] = position or run.end
                if dice.random() < 0.05:
                    place = dice.choice(self._places)
                    back = int(runs[place].end * dice.random())
                    runs[place] = self._run_from(place, back)
                    consumer.seek(ottla.TopicPartition(*place), back)

    def _run_from(self, place: Partition, offset: int) -> Run:
        run = Run(place, offset, offset)
        self._book.runs.append(run)
        return run
