"""The audit of transactions, of stories and of `make chaos`: each anomaly, planted in a history, is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from tests.simulation.stories.ledger import Partition, name_of
from tests.simulation.stories.transactions.audit import TransactionAudit
from tests.simulation.stories.transactions.book import Book, End, Run, Transaction
from tests.simulation.stories.transactions.fates import Ended, Fates

IN0, IN1, OUT0 = ("in", 0), ("in", 1), ("out", 0)


@dataclass
class Told:
    """A history in which everything is well; a test changes it."""

    book: Book = field(default_factory=Book)
    logs: dict[Partition, Fates] = field(default_factory=lambda: {IN0: Fates(), IN1: Fates(), OUT0: Fates()})
    offsets: dict[int, int] = field(default_factory=dict)
    uncommitted: list[Run] = field(default_factory=list)

    def transact(
        self,
        writer: str,
        *sends: tuple[Partition, str],
        is_commit: bool = True,
        end: End | None = None,
        identity: str | None = None,
    ) -> Transaction:
        """A transaction that is sent, and ended by a marker in each of its partitions."""
        transaction = self.book.begin(writer, identity or writer)
        transaction.may_commit = is_commit
        transaction.end = end or (End.COMMITTED if is_commit else End.ABORTED)
        values: dict[Partition, list[bytes]] = {}
        for place, more in sends:
            values.setdefault(place, []).append(f"{self.book.send(transaction, place)}~{more}".encode())
        for place, written in values.items():
            self.append(place, written, is_commit=is_commit)
        return transaction

    def append(self, place: Partition, values: list[bytes], *, is_commit: bool) -> Ended:
        fates = self.logs[place]
        begin = max((each.marker_offset for each in fates.ended), default=-1) + 1
        ended = Ended(is_commit, begin + len(values), {begin + n: each for n, each in enumerate(values)})
        fates.ended.append(ended)
        for offset, value in ended.values.items():
            fates.offsets_of.setdefault(name_of(value), []).append(offset)
        return ended

    def read(self, place: Partition, *, committed: bool = True) -> Run:
        """A reader that is given what it must be given."""
        fates = self.logs[place]
        found = fates.committed if committed else fates.everything
        run = Run(place, 0, 1_000, {offset: name_of(value) for offset, value in found.items()})
        (self.book.runs if committed else self.uncommitted).append(run)
        return run

    def broken(self) -> list[str]:
        audit = TransactionAudit(self.book, self.logs)
        audit.check()
        audit.check_outputs("in", "out", self.offsets)
        for run in self.uncommitted:
            audit.check_uncommitted(run)
        return audit.broken


def told() -> Told:
    """Two writers, of whom one aborts once; a processor of the first partition; readers of both levels."""
    history = Told()
    history.transact("a#1", (IN0, ""), (IN1, ""), (IN0, ""))
    history.transact("b#1", (IN0, ""), (IN1, ""), is_commit=False)
    history.transact("b#1", (IN1, ""))
    made = [f"a#1/1@0:{0}", f"a#1/3@0:{1}"]
    history.transact("p#1", (OUT0, made[0]), (OUT0, made[1]))
    history.offsets = {0: 2, 1: 0}
    for place in history.logs:
        history.read(place)
        history.read(place, committed=False)
    return history


def test_a_history_without_anomaly_is_not_accused() -> None:
    assert told().broken() == []


def test_a_transaction_whose_end_nobody_heard_of_may_be_there_or_not() -> None:
    for is_commit in (True, False):
        history = Told()
        transaction = history.transact("a#1", (IN0, ""), is_commit=is_commit, end=End.UNTOLD)
        transaction.may_commit = True
        history.offsets, history.logs[OUT0] = {0: 0}, Fates()
        assert history.broken() == []


def torn(history: Told) -> None:
    history.logs[IN1].ended[0].is_commit = False


def lost(history: Told) -> None:
    history.logs[IN1].ended[2].is_commit = False


def aborted_read(history: Told) -> None:
    for place in (IN0, IN1):
        history.logs[place].ended[1].is_commit = True


def committed_before_anybody_asked(history: Told) -> None:
    transaction = history.transact("b#2", (IN1, ""), end=End.UNTOLD)
    transaction.may_commit = False


def written_twice(history: Told) -> None:
    history.append(IN1, [b"a#1/2~"], is_commit=True)


def invented(history: Told) -> None:
    history.append(IN1, [b"nobody/7~"], is_commit=True)


def in_another_partition(history: Told) -> None:
    transaction = history.book.begin("c#1", "c")
    transaction.end, transaction.may_commit = End.COMMITTED, True
    name = history.book.send(transaction, IN0)
    history.append(IN1, [f"{name}~".encode()], is_commit=True)


def out_of_order(history: Told) -> None:
    ended = history.logs[IN0].ended[0]
    ended.values = {0: ended.values[1], 1: ended.values[0]}


def one_marker_for_two(history: Told) -> None:
    first, last = history.logs[IN1].ended[0], history.logs[IN1].ended[2]
    last.values = {**first.values, **last.values}
    history.logs[IN1].ended.remove(first)


def open_for_ever(history: Told) -> None:
    history.logs[IN1].open[7] = history.logs[IN1].ended.pop().values


def reader_given_an_aborted_record(history: Told) -> None:
    run = history.book.runs[0]
    (aborted,) = (each for each in history.logs[IN0].ended if not each.is_commit)
    run.names |= {offset: name_of(value) for offset, value in aborted.values.items()}


def reader_not_given_a_record(history: Told) -> None:
    del history.book.runs[0].names[1]


def uncommitted_reader_not_given_a_record(history: Told) -> None:
    del history.uncommitted[0].names[0]


def uncommitted_reader_given_a_lost_record(history: Told) -> None:
    history.uncommitted[0].names[99] = "a#1/9"


def offset_without_output(history: Told) -> None:
    history.offsets[1] = 1


def output_without_offset(history: Told) -> None:
    history.offsets[0] = 1


def output_twice(history: Told) -> None:
    history.transact("p#2", (OUT0, "a#1/1@0:0"))


def writes_of_one_id_in_a_circle(history: Told) -> None:
    """Two lives of a writer: each is first in one partition."""
    one = history.book.begin("d#1", "d")
    other = history.book.begin("d#2", "d")
    for first, second, place in ((one, other, IN0), (other, one, IN1)):
        for transaction in (first, second):
            transaction.end, transaction.may_commit = End.COMMITTED, True
            name = history.book.send(transaction, place)
            history.append(place, [f"{name}~".encode()], is_commit=True)


def information_in_a_circle(history: Told) -> None:
    """Two processors: each read what the other wrote."""
    one = history.book.begin("q#1", "q")
    other = history.book.begin("r#1", "r")
    for transaction in (one, other):
        transaction.end, transaction.may_commit = End.COMMITTED, True
    names = [history.book.send(transaction, IN1) for transaction in (one, other)]
    for name, origin in zip(names, reversed(names), strict=True):
        history.append(IN1, [f"{name}~{origin}@1:9".encode()], is_commit=True)


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (torn, "is torn"),
        (lost, "is lost"),
        (aborted_read, "can be read"),
        (committed_before_anybody_asked, "can be read"),
        (written_twice, "more than once"),
        (invented, "was never sent there"),
        (in_another_partition, "was never sent there"),
        (out_of_order, "stands after"),
        (one_marker_for_two, "ended transactions"),
        (open_for_ever, "is open for ever"),
        (reader_given_an_aborted_record, "which is not committed"),
        (reader_not_given_a_record, "and not {1: 'a#1/3'}"),
        (uncommitted_reader_not_given_a_record, "and not {0: 'a#1/1'}"),
        (uncommitted_reader_given_a_lost_record, "which is not in the log"),
        (offset_without_output, "nothing was made of it"),
        (output_without_offset, "whose offset is not committed"),
        (output_twice, "more than one"),
        (writes_of_one_id_in_a_circle, "come before themselves: written one after the other"),
        (information_in_a_circle, "come before themselves: read by the next"),
    ],
)
def test_each_anomaly_is_found(plant: Callable[[Told], None], words: str) -> None:
    history = told()
    plant(history)
    assert any(words in each for each in history.broken()), history.broken()
