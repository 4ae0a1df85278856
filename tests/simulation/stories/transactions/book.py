"""Transactions as their producers know them: what was sent in each, and how it ended as far as anybody was told."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.stories.ledger import Partition


class End(Enum):
    """How a transaction ended, as its producer was told."""

    UNTOLD = "the producer died, was fenced, or had no answer"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(slots=True)
class Transaction:
    """One transaction. Until `may_commit`, nobody has asked for the commit."""

    writer: str
    number: int
    identity: str  # the transactional id
    places: dict[str, Partition] = field(default_factory=dict)
    end: End = End.UNTOLD
    may_commit: bool = False

    @property
    def must_be_there(self) -> bool:
        return self.end is End.COMMITTED

    @property
    def may_be_there(self) -> bool:
        return self.end is End.COMMITTED or (self.end is End.UNTOLD and self.may_commit)

    def __str__(self) -> str:
        asked = "" if self.may_commit else ", before a commit was asked for"
        return f"transaction {self.number} of {self.writer} ({self.end.value}{asked})"


@dataclass(slots=True)
class Run:
    """The offsets that a reader of committed records was given of one partition, from an offset on."""

    partition: Partition
    begin: int
    end: int
    names: dict[int, str] = field(default_factory=dict)


class Book:
    """All transactions of a story, and what readers of committed records were given."""

    def __init__(self) -> None:
        self.transactions: list[Transaction] = []
        self.of_record: dict[str, Transaction] = {}
        self.runs: list[Run] = []
        self._numbers: dict[str, int] = defaultdict(int)

    def begin(self, writer: str, identity: str) -> Transaction:
        """A producer with this transactional id is about to begin a transaction."""
        transaction = Transaction(writer, len(self.transactions), identity)
        self.transactions.append(transaction)
        return transaction

    def send(self, transaction: Transaction, partition: Partition) -> str:
        """The name of a record that is about to be sent."""
        writer = transaction.writer
        self._numbers[writer] += 1
        name = f"{writer}/{self._numbers[writer]}"
        transaction.places[name] = partition
        self.of_record[name] = transaction
        return name
