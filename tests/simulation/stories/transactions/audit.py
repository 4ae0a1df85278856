"""What must be true of transactions when everything is healed: all or nothing, once, in order, offsets with output."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tests.simulation.stories.ledger import name_of
from tests.simulation.stories.transactions.cycles import cycle_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.simulation.stories.ledger import Partition
    from tests.simulation.stories.transactions.book import Book, Run, Transaction
    from tests.simulation.stories.transactions.fates import Fates


class TransactionAudit:
    """Compares what producers and readers were told with the markers in the logs."""

    def __init__(self, book: Book, logs: Mapping[Partition, Fates]) -> None:
        self._book = book
        self._logs = logs
        self.broken: list[str] = []

    def check(self) -> None:
        """Everything that is true of each topic by itself."""
        places: dict[str, Partition] = {}
        for partition, fates in self._logs.items():
            for values in fates.open.values():
                self._note(partition, f"a transaction from {min(values)} on is open for ever")
            for name, offsets in fates.offsets_of.items():
                transaction = self._book.of_record.get(name)
                if transaction is None or transaction.places[name] != partition:
                    self._note(partition, f"{name} at {offsets} was never sent there")
                elif len(offsets) > 1:
                    self._note(partition, f"{name} is there more than once: {offsets}")
            self._check_markers(partition, fates)
            self._check_order(partition, fates)
            places |= dict.fromkeys(map(name_of, fates.committed.values()), partition)
        for transaction in self._book.transactions:
            self._check_whole(transaction, places)
        for run in self._book.runs:
            self._check_run(run, self._logs[run.partition].committed, "committed")
        if cycle := cycle_in(self._book, self._logs):
            self.broken.append(f"transactions come before themselves: {cycle}")

    def check_uncommitted(self, run: Run) -> None:
        """A reader of uncommitted records was given every record between two positions."""
        self._check_run(run, self._logs[run.partition].everything, "in the log")

    def _check_markers(self, partition: Partition, fates: Fates) -> None:
        """One marker ends one transaction."""
        for ended in fates.ended:
            numbers = {
                self._book.of_record[name].number
                for name in map(name_of, ended.values.values())
                if name in self._book.of_record
            }
            if len(numbers) > 1:
                self._note(partition, f"the marker at {ended.marker_offset} ended transactions {numbers}")

    def _check_order(self, partition: Partition, fates: Fates) -> None:
        """The records of one producer stand in the order in which they were sent."""
        last: dict[str, int] = defaultdict(int)
        for offset, value in fates.committed.items():
            writer, _, number = name_of(value).rpartition("/")
            if int(number) < last[writer]:
                self._note(partition, f"{writer}/{number} at {offset} stands after {writer}/{last[writer]}")
            last[writer] = int(number)

    def _check_whole(self, transaction: Transaction, places: Mapping[str, Partition]) -> None:
        there = [name for name in transaction.places if name in places]
        missing = [name for name in transaction.places if name not in places]
        if there and missing:
            self.broken.append(f"{transaction} is torn: {there} can be read, and {missing} cannot")
        elif there and not transaction.may_be_there:
            self.broken.append(f"{transaction} can be read: {there}")
        elif missing and transaction.must_be_there:
            self.broken.append(f"{transaction} is lost: {missing}")

    def _check_run(self, run: Run, readable: Mapping[int, bytes], level: str) -> None:
        """A reader was given each of these records between two positions, and no other."""
        due = {offset: name_of(value) for offset, value in readable.items() if run.begin <= offset < run.end}
        if list(due.items()) == list(run.names.items()):
            return
        wrong = {offset: name for offset, name in run.names.items() if due.get(offset) != name}
        left_out = {offset: name for offset, name in due.items() if run.names.get(offset) != name}
        self._note(
            run.partition,
            f"a reader from {run.begin} to {run.end} was given {wrong}, which is not {level}, and not {left_out}, "
            "which is; or in another order",
        )

    def check_outputs(self, source: str, target: str, offsets: Mapping[int, int]) -> None:
        """Every record below the committed offsets has one record that was made of it, and no other has."""
        made: dict[str, list[str]] = defaultdict(list)
        for (topic, _), fates in self._logs.items():
            if topic == target:
                for value in fates.committed.values():
                    name, _, origin = value.decode().partition("~")
                    if "@" in origin:
                        made[origin].append(name)
        due: set[str] = set()
        for (topic, index), fates in self._logs.items():
            if topic == source:
                due |= {
                    f"{name_of(value)}@{index}:{offset}"
                    for offset, value in fates.committed.items()
                    if offset < offsets.get(index, 0)
                }
        for origin in sorted(due - made.keys()):
            self.broken.append(f"{origin} of {source} is committed by the group, and nothing was made of it")
        for origin, names in made.items():
            if origin not in due:
                self.broken.append(f"{names} were made of {origin}, whose offset is not committed: {offsets}")
            elif len(names) > 1:
                self.broken.append(f"{names} were made of {origin}: more than one")

    def _note(self, partition: Partition, what: str) -> None:
        self.broken.append(f"{partition}: {what}")
