"""Random walks of producers, markers, failovers and failing disks over one transactional id (EOS-1).

The model knows each transaction that a producer began and what the producer was told. A walk ends with all
markers written; then every transaction has one outcome, in all its partitions, and it is the outcome that its
producer was told.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from tests.unit.transaction.shell import ID, Shell

from ottla.config import TransactionConfig
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.transaction.commands import ProducerAnswer, TransactionKept
from ottla.transaction.coordinator import TransactionCoordinator
from ottla.transaction.decision import Markers
from ottla.transaction.metadata import LAST_EPOCH
from ottla.transaction.records import TransactionLogValue, transaction_record

PARTITIONS = [TopicPartition("t", number) for number in range(4)]
SEEDS = 80
STEPS = 120


@dataclass
class Open:
    """A transaction as its producer sees it."""

    identity: tuple[int, int]
    partitions: set[TopicPartition] = field(default_factory=set)
    told: bool | None = None
    ended_by: tuple[int, int] | None = None


class Client:
    """A producer: it has an identity, and perhaps a transaction."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.identity: tuple[int, int] | None = None
        self.open: Open | None = None
        self.last_end: tuple[tuple[int, int], bool] | None = None


class Walk:
    """One walk: what happened, and what must be true of it."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.shell = Shell(
            self.rng.choice([0, 1, 2, 2]), TransactionConfig(two_phase_commit_enable=self.rng.random() < 0.5)
        )
        versions = [2, 1] if self.shell.finalized_version == 2 else [1]
        self.clients = [Client(self.rng.choice(versions)) for _ in range(3)]
        self.transactions: list[Open] = []
        self.marked: list[tuple[Markers, TopicPartition]] = []
        self.given: set[tuple[int, int]] = set()
        if self.rng.random() < 0.3:
            # The epochs of the id are nearly used up.
            epoch = LAST_EPOCH - self.rng.randint(1, 4)
            value = TransactionLogValue(
                producer_id=7, producer_epoch=epoch, transaction_timeout_ms=60_000, transaction_status=0
            )
            self.shell.log.append(transaction_record(ID, value, min(self.shell.finalized_version, 1)))
            self.shell.fail_over()

    def run(self) -> None:
        steps = [self.init, self.keep, self.add, self.add, self.end, self.end, self.end_again]
        steps += [self.mark, self.mark, self.mark_some, self.fail_over, self.time_out, self.lose_a_write]
        for _ in range(STEPS):
            self.rng.choice(steps)()
        self.shell.is_writable = True
        self.mark()
        self.check_outcomes()

    # Steps

    def init(self) -> None:
        client = self.rng.choice(self.clients)
        knows = client.identity is not None and self.rng.random() < 0.3
        answer = self.shell.init(ID, *(client.identity or ())) if knows else self.shell.init()
        client.open = None
        if answer.error == ErrorCode.NONE:
            identity = answer.producer_id, answer.producer_epoch
            if not knows:
                assert identity not in self.given, "an identity was given to two producers"
            self.given.add(identity)
            client.identity = identity
        elif answer.error == ErrorCode.PRODUCER_FENCED:
            client.identity = None

    def keep(self) -> None:
        """A producer with, or without, two-phase commit takes the id over, and the open transaction with it."""
        client = self.rng.choice(self.clients)
        if client.version != 2:
            return
        answer = self.shell.keep(is_two_phase=self.rng.random() < 0.5)
        client.open = None
        if answer.error != ErrorCode.NONE:
            return
        client.identity = answer.producer_id, answer.producer_epoch
        assert client.identity not in self.given, "an identity was given to two producers"
        self.given.add(client.identity)
        if isinstance(answer, TransactionKept):
            written_by = answer.ongoing_producer_id, answer.ongoing_producer_epoch
            kept = [one for one in self.transactions if one.identity == written_by and one.told is None]
            client.open = kept[-1] if kept else None

    def add(self) -> None:
        client = self.rng.choice(self.clients)
        if client.identity is None:
            return
        partition = self.rng.choice(PARTITIONS)
        error = self.shell.add(client.identity, partition, version=2 if client.version == 2 else 0)
        if error == ErrorCode.NONE:
            if client.open is None:
                client.open = Open(client.identity)
                self.transactions.append(client.open)
            client.open.partitions.add(partition)
        elif error != ErrorCode.CONCURRENT_TRANSACTIONS:
            client.identity = client.open = None

    def end(self) -> None:
        client = self.rng.choice(self.clients)
        if client.identity is None or client.open is None:
            return
        commit = self.rng.random() < 0.6
        identity = client.identity
        answer = self.shell.end(identity, commit=commit, version=client.version)
        client.last_end = identity, commit
        if answer.error == ErrorCode.NONE:
            client.open.told, client.open.ended_by = commit, identity
            client.open = None
            self.take(client, answer)
        elif answer.error != ErrorCode.CONCURRENT_TRANSACTIONS:
            client.identity = client.open = None

    def take(self, client: Client, answer: ProducerAnswer) -> None:
        if client.version == 2:
            client.identity = answer.producer_id, answer.producer_epoch
            self.given.add(client.identity)

    def end_again(self) -> None:
        """The network repeats an EndTxn. Under version 1 such a request may end a later transaction of the same
        epoch, so there only a producer without an open transaction is repeated.
        """
        client = self.rng.choice(self.clients)
        if client.last_end is None or (client.version == 1 and client.open is not None):
            return
        before = len(self.shell.log)
        identity, commit = client.last_end
        if client.identity == identity and client.version == 2:
            return
        self.shell.end(identity, commit=commit, version=client.version)
        assert len(self.shell.log) == before, "a repeated end changed something"

    def mark(self) -> None:
        self.note(self.shell.write_markers())

    def mark_some(self) -> None:
        for markers in self.shell.unsent:
            some = frozenset(one for one in markers.partitions if self.rng.random() < 0.5)
            self.shell.mark(markers, some)
            self.note([markers._replace(partitions=some)])

    def note(self, sent: list[Markers]) -> None:
        self.marked += [(markers, partition) for markers in sent for partition in markers.partitions]

    def fail_over(self) -> None:
        self.check_replay()
        self.shell.fail_over()

    def time_out(self) -> None:
        self.shell.pass_time(self.rng.choice([1_000, 61_000]))

    def lose_a_write(self) -> None:
        self.shell.is_writable = False
        client = self.rng.choice(self.clients)
        if client.identity is not None and client.open is not None:
            self.shell.end(client.identity, commit=True, version=client.version)
        self.shell.is_writable = True

    # What must be true

    def check_replay(self) -> None:
        """The next coordinator would know the same."""
        machine = TransactionCoordinator(self.shell._settings)
        for record in self.shell.log:
            machine.replay(*record)
        assert machine.transactions == self.shell.machine.transactions

    def check_outcomes(self) -> None:
        for transaction in self.transactions:
            if transaction.ended_by is None:
                continue
            producer_id, epoch = transaction.identity
            if transaction.ended_by[0] == producer_id:
                epoch = transaction.ended_by[1]
            for partition in transaction.partitions:
                outcomes = {
                    markers.is_commit
                    for markers, marked in self.marked
                    if marked == partition
                    and markers.producer_id == producer_id
                    and markers.producer_epoch == epoch + (markers.transaction_version == 2)
                }
                assert transaction.told in outcomes, (transaction, partition)
                if self.shell.finalized_version == 2 and all(one.version == 2 for one in self.clients):
                    assert outcomes == {transaction.told}, "one transaction has two outcomes"


@pytest.mark.parametrize("part", range(3))
def test_every_walk_ends_as_its_producers_were_told(part: int) -> None:
    for seed in range(part * SEEDS, (part + 1) * SEEDS):
        try:
            Walk(seed).run()
        except Exception as problem:
            raise AssertionError(f"seed {seed}: {problem}") from problem
