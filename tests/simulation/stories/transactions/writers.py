"""Producers with a transactional id: each transaction writes to several partitions, and commits or changes its mind.

A writer that dies comes back with its transactional id. Two writers with the same id fence each other.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from tests.simulation.stories.clients import Client
from tests.simulation.stories.settings import FLEETING, PRODUCER
from tests.simulation.stories.transactions.book import End
from tests.simulation.world.edge import runtime_of

import ottla

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.simulation.stories.ledger import Ledger, Partition
    from tests.simulation.stories.transactions.book import Book, Transaction
    from tests.simulation.world.process import ProcessLoop
    from tests.simulation.world.scheduler import World

_TIMEOUTS_MS: Final = (1_000, 3_000, 6_000)
_PADDINGS: Final = (0, 3, 40, 400)


class ChangedMindError(Exception):
    """The application does not want its transaction any more."""


class TransactionalClient(Client):
    """A client that has a producer with a transactional id."""

    def __init__(
        self, world: World, name: str, servers: str, ledger: Ledger, book: Book, *, transactional_id: str
    ) -> None:
        self.book = book
        self._transactional_id = transactional_id
        super().__init__(world, name, servers, ledger)

    def producer(self, process: ProcessLoop) -> ottla.Producer:
        """A producer that fences those before it."""
        dice = self.world.dice
        settings = {
            **PRODUCER,
            "batch_size": dice.choice((300, 2_000, 16_384)),
            "max_in_flight_requests_per_connection": dice.choice((1, 5)),
            "transactional_id": self._transactional_id,
            "transaction_timeout_ms": dice.choice(_TIMEOUTS_MS),
        }
        return ottla.Producer(
            self.servers, runtime=runtime_of(process, None, lambda: 1.0), **settings, **self.access
        )

    @asynccontextmanager
    async def transaction(self, producer: ottla.Producer, life: int) -> AsyncIterator[Transaction]:
        """A transaction that is written down in the book. Raises what the producer raises."""
        transaction = self.book.begin(f"{self.name}#{life}", self._transactional_id)
        try:
            async with producer.transaction():
                yield transaction
                transaction.may_commit = True
        except (ChangedMindError, ottla.TransactionAbortedError):
            transaction.end = End.ABORTED
            self.ledger.counts["aborted"] += 1
            raise
        transaction.end = End.COMMITTED
        self.ledger.counts["committed"] += 1

    def send(
        self, producer: ottla.Producer, transaction: Transaction, place: Partition, more: str = ""
    ) -> None:
        """Send a record to a partition; its value is its name and `more`."""
        name = self.book.send(transaction, place)
        producer.send_soon(place[0], f"{name}~{more}".encode(), partition=place[1])


class TransactionalWriter(TransactionalClient):
    """Writes transactions to some partitions until it is told to stop."""

    def __init__(
        self,
        world: World,
        name: str,
        servers: str,
        ledger: Ledger,
        book: Book,
        *,
        transactional_id: str,
        places: list[Partition],
        reaches_fleeting: bool = False,
    ) -> None:
        self._places = places
        self._reaches_fleeting = reaches_fleeting
        super().__init__(world, name, servers, ledger, book, transactional_id=transactional_id)

    async def live(self, process: ProcessLoop, life: int) -> None:
        dice = self.world.dice
        async with self.producer(process) as producer:
            while not self.is_stopping:
                try:
                    await self._transact(producer, life)
                except ChangedMindError:
                    pass
                except (ottla.TransactionAbortedError, ottla.TransactionUncertainError):
                    await asyncio.sleep(0.1)
                await asyncio.sleep(dice.random() ** 3 * 1.2)

    async def _transact(self, producer: ottla.Producer, life: int) -> None:
        dice = self.world.dice
        places = dice.sample(self._places, dice.randrange(1, len(self._places) + 1))
        async with self.transaction(producer, life) as transaction:
            for _ in range(dice.randrange(1, 4)):
                for _ in range(int(1 + dice.random() ** 2 * 8)):
                    self.send(producer, transaction, dice.choice(places), "x" * dice.choice(_PADDINGS))
                if self._reaches_fleeting and dice.random() < 0.3:
                    # Of this topic nothing is promised, but it must hold no transaction up for ever.
                    producer.send_soon(FLEETING, b"fleeting", partition=dice.randrange(2))
                    self.ledger.counts["fleeting"] += 1
                # Mostly short; now and then longer than the coordinator waits.
                await asyncio.sleep(dice.random() ** 12 * 5)
            if dice.random() < 0.25:
                raise ChangedMindError


class LastTransaction(TransactionalWriter):
    """One transaction with a record for each partition, again and again until it is committed."""

    async def live(self, process: ProcessLoop, life: int) -> None:
        async with (
            self.producer(process) as producer,
            self.transaction(producer, life) as transaction,
        ):
            for place in self._places:
                self.send(producer, transaction, place)
        self.is_stopping = True
