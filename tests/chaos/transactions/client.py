"""What the clients of this test have in common: a thread, a place in the book, an order to stop."""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.chaos.workload import Worker
from tests.simulation.stories.ledger import Partition
from tests.simulation.stories.transactions.book import Book, End, Run, Transaction

SOURCE: Final = "chaos"
TARGET: Final = "chaos-out"
TRANSACTION_TIMEOUT_MS: Final = 20_000
WRITER_ABORTS: Final = 0.2  # share of the transactions
PROCESSOR_ABORTS: Final = 0.04  # fewer: a processor joins its group again afterwards
ABANDONED_SHARE: Final = 0.02  # transactions that are left open, as if the program had died
RETURNED_SHARE: Final = 0.1  # processed records that are also written back to where they were read
BETWEEN_TRANSACTIONS_S: Final = 0.03


class ChangedMindError(Exception):
    """The application does not want its transaction any more."""


class AbandonedError(Exception):
    """The application leaves its transaction open, and begins a new life with the same transactional id."""


class Records(NamedTuple):
    """Records that a consumer returned, of one isolation level."""

    place: Partition
    offset: int
    value: bytes


class SharedBook(Book):
    """The book of transactions, for several threads. Each writer has one thread."""

    def __init__(self) -> None:
        super().__init__()
        self.uncommitted_runs: list[Run] = []
        self.failures: Counter[str] = Counter()  # errors that clients got over
        self._lock = threading.Lock()

    def begin(self, writer: str, identity: str) -> Transaction:
        with self._lock:
            return super().begin(writer, identity)


class Places(NamedTuple):
    """The cluster's address, and the partitions of both topics."""

    bootstrap: str
    partitions: int

    def of(self, topic: str) -> list[Partition]:
        return [(topic, index) for index in range(self.partitions)]


class TransactionalClient(ABC):
    """A client on a thread of its own; a subclass lives one life after the other until it is told to stop."""

    def __init__(self, name: str, places: Places, book: SharedBook, directory: Path) -> None:
        self.name = name
        self.places = places
        self.book = book
        self.dice = random.Random(name)
        self.life = 0
        self.worker = Worker(name, directory, self._live_on)

    def start(self) -> None:
        self.worker.start()

    @property
    def goes_on(self) -> bool:
        return self.worker.goes_on

    def stop(self, deadline_s: float) -> None:
        self.worker.stop(deadline_s)
        self.worker.journal.close()

    def abandon(self) -> None:
        self.worker.stopping.set()

    @abstractmethod
    def live(self) -> None:
        """One life of the client: with one producer, or one consumer."""

    def _live_on(self) -> None:
        while self.goes_on:
            self.life += 1
            self.live()

    def note(self, error: BaseException) -> None:
        """An error that ends a life, and is no failure by itself."""
        self.book.failures[f"{self.name}: {type(error).__name__}"] += 1
        self.worker.journal.write("error", self.life, repr(error))

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """A transaction in the book. The block commits; what it raises says how the transaction ended."""
        transaction = self.book.begin(f"{self.name}#{self.life}", self.name)
        try:
            yield transaction
        except ChangedMindError:
            transaction.end = End.ABORTED
        else:
            transaction.end = End.COMMITTED
        finally:
            sent = len(transaction.places)
            self.worker.journal.write(transaction.end.name, transaction.number, self.life, sent)

    def records_to_send(self) -> list[Partition]:
        """The partitions of the records of a writer's next transaction."""
        places = self.places.of(SOURCE)
        chosen = self.dice.sample(places, self.dice.randrange(1, len(places) + 1))
        return [self.dice.choice(chosen) for _ in range(self.dice.randrange(1, 12))]

    def outputs_of(self, records: Sequence[Records]) -> Iterator[tuple[Partition, str]]:
        """What a processor writes for records that it read: partition, and which record it is made of."""
        for (_, partition), offset, value in records:
            name, _, more = value.decode().partition("~")
            origin = f"{name}@{partition}:{offset}"
            yield self.dice.choice(self.places.of(TARGET)), origin
            if "@" not in more and self.dice.random() < RETURNED_SHARE:
                yield self.dice.choice(self.places.of(SOURCE)), origin

    def change_mind(self, aborted_share: float) -> None:
        """Raise, now and then, what a program raises that does not want, or cannot finish, its transaction."""
        drawn = self.dice.random()
        if drawn < ABANDONED_SHARE:
            raise AbandonedError
        if drawn < ABANDONED_SHARE + aborted_share:
            raise ChangedMindError


class Readings:
    """What one reader was given, from the first offset of each partition on."""

    def __init__(self, places: Sequence[Partition], runs: list[Run]) -> None:
        self.runs = {place: Run(place, 0, 0) for place in places}
        runs.extend(self.runs.values())

    def take(self, record: Records, name: str) -> None:
        run = self.runs[record.place]
        if record.offset < run.end:
            raise AssertionError(f"{record.place}: was given {record.offset} after {run.end - 1}")
        run.names[record.offset] = name
        run.end = record.offset + 1

    def has_read(self, ends: dict[Partition, int]) -> bool:
        return all(run.end >= ends.get(place, 0) for place, run in self.runs.items())
