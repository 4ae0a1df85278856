"""Cycles among committed transactions, as Jepsen looks for them over append-only lists.

One transaction comes before another if

- the other wrote a record that was made of a record of the one (information flowed from one to the other),
- both have the same transactional id, and the other's record follows the one's in a partition,
- the same producer began the other after the one.

In each case the one was decided before the other could be: a cycle is a broken promise. Transactions of different
producers that only write may stand in any order in different partitions, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.stories.ledger import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.simulation.stories.ledger import Partition
    from tests.simulation.stories.transactions.book import Book, Transaction
    from tests.simulation.stories.transactions.fates import Fates

Edges = dict[int, dict[int, str]]  # transaction → those after it, and why


def cycle_in(book: Book, logs: Mapping[Partition, Fates]) -> str | None:
    """A cycle in words, if there is one."""
    edges: Edges = {}
    for before, after, why in _orders(book, logs):
        if before.number != after.number:
            edges.setdefault(before.number, {})[after.number] = why
    cycle = _find(edges)
    if cycle is None:
        return None
    steps = zip(cycle, [*cycle[1:], cycle[0]], strict=True)
    return "; ".join(f"{edges[one][other]}, from {one} to {other}" for one, other in steps)


def _orders(book: Book, logs: Mapping[Partition, Fates]) -> Iterator[tuple[Transaction, Transaction, str]]:
    committed: dict[int, Transaction] = {}
    for partition, fates in logs.items():
        last: dict[str, Transaction] = {}  # by transactional id
        for value in fates.committed.values():
            transaction = book.of_record.get(name_of(value))
            if transaction is None:
                continue
            committed[transaction.number] = transaction
            before = last.get(transaction.identity)
            if before is not None:
                yield before, transaction, f"written one after the other to {partition}"
            last[transaction.identity] = transaction
            source = book.of_record.get(_origin_of(value))
            if source is not None:
                yield source, transaction, "read by the next"
    previous: dict[str, Transaction] = {}  # by the producer
    for number in sorted(committed):
        transaction = committed[number]
        before = previous.get(transaction.writer)
        if before is not None:
            yield before, transaction, "begun one after the other"
        previous[transaction.writer] = transaction


def _origin_of(value: bytes) -> str:
    """The name of the record that this one was made of; of the others, no name."""
    more = value.decode().partition("~")[2]
    return more.partition("@")[0] if "@" in more else ""


def _find(edges: Edges) -> list[int] | None:
    """What is left when all are taken away that nothing comes before is, and leads to, cycles."""
    waiting = {after for afters in edges.values() for after in afters}
    left = dict(edges)
    while free := [one for one in left if one not in waiting]:
        for one in free:
            del left[one]
        waiting = {after for afters in left.values() for after in afters}
    if not left:
        return None
    # Each of those left has one before it that is left as well: going back ends where it was before.
    before = {after: one for one, afters in left.items() for after in afters}
    path = [next(iter(left))]
    while (one := before[path[-1]]) not in path:
        path.append(one)
    return path[path.index(one) :][::-1]
