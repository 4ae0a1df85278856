"""The batches of aborted transactions, which a reader of committed records skips.

A broker answers a read_committed fetch with all batches up to the last stable offset, and with a list of the
aborted transactions that overlap them: a producer, and the offset where its transaction began. The
transaction ends with the producer's next abort marker. Rules
- A batch is skipped if it is transactional and its producer has an aborted transaction open at that place.
- A batch that is not transactional is never skipped. Markers themselves are no records for the application.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop
from typing import Protocol

from ottla.records.batch import BatchView
from ottla.records.control import marker_of


class Aborted(Protocol):
    """A transaction of an answer's list."""

    @property
    def producer_id(self) -> int: ...

    @property
    def first_offset(self) -> int: ...


class AbortedTransactions:
    """The list of one answer. Ask `hides(batch)` for each of its batches, in order."""

    __slots__ = ("_coming", "_open")

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        self._coming = [(each.first_offset, each.producer_id) for each in aborted]
        self._open: set[int] = set()
        heapify(self._coming)

    def hides(self, batch: BatchView) -> bool:
        """Whether the batch belongs to an aborted transaction.

        Raises CorruptRecord if a marker is invalid.
        """
        if not batch.is_transactional:
            return False
        while self._coming and self._coming[0][0] <= batch.last_offset:
            self._open.add(heappop(self._coming)[1])
        if batch.producer_id not in self._open:
            return False
        if batch.is_control:
            marker = marker_of(batch)
            if marker is not None and not marker.is_commit:
                self._open.discard(batch.producer_id)
        return True
