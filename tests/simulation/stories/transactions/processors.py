"""Members of a group that read, write and commit their offsets in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.simulation.stories.ledger import name_of
from tests.simulation.stories.settings import MEMBER
from tests.simulation.stories.transactions.writers import ChangedMindError, TransactionalClient

import ottla

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.simulation.stories.ledger import Ledger, Partition
    from tests.simulation.stories.transactions.book import Book
    from tests.simulation.world.process import ProcessLoop
    from tests.simulation.world.scheduler import World

    from ottla.client.fetching.plan.record_batch import ConsumerRecord


_RETURNED: Final = 0.1


class Processor(TransactionalClient):
    """Writes one record for each record that it reads. After any failure it begins at the committed offsets.

    A few records it also writes back to where it reads, so that information could flow in a circle.
    """

    def __init__(
        self,
        world: World,
        name: str,
        servers: str,
        ledger: Ledger,
        book: Book,
        *,
        group: str,
        source: str,
        places: list[Partition],
        sources: list[Partition],
    ) -> None:
        self._group = group
        self._source = source
        self._sources = sources
        self._places = places
        super().__init__(world, name, servers, ledger, book, transactional_id=name)

    async def live(self, process: ProcessLoop, life: int) -> None:
        dice = self.world.dice
        async with (
            ottla.Consumer(
                self.servers,
                group_id=self._group,
                isolation_level="read_committed",
                enable_auto_commit=False,
                **MEMBER,
                **self.access,
            ) as consumer,
            self.producer(process) as producer,
        ):
            consumer.subscribe([self._source])
            while not self.is_stopping:
                records = await consumer.poll(max_records=dice.randrange(1, 60), timeout_ms=700)
                if records:
                    try:
                        await self._process(consumer, producer, life, records)
                    except ChangedMindError:
                        return  # positions are past the offsets that count

    async def _process(
        self,
        consumer: ottla.Consumer,
        producer: ottla.Producer,
        life: int,
        records: Iterable[ConsumerRecord],
    ) -> None:
        dice = self.world.dice
        async with self.transaction(producer, life) as transaction:
            for record in records:
                origin = f"{name_of(record.value)}@{record.partition}:{record.offset}"
                self.send(producer, transaction, dice.choice(self._places), origin)
                if b"@" not in (record.value or b"") and dice.random() < _RETURNED:
                    self.send(producer, transaction, dice.choice(self._sources), origin)
            await producer.send_offsets(consumer)
            if dice.random() < 0.1:
                raise ChangedMindError
