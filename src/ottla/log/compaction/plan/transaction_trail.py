"""Transactions as compaction sees them (RET-7): which were aborted, and which markers still have batches.

Data of an aborted transaction is dropped in the first pass over it, so only the dirty part can have such
data. The abort marker follows the data: a walk over the headers from the first dirty offset on finds all
aborted transactions. The information comes from the log, not from the .txnindex, which may be lost. The walk
is made only if there is a transactional batch.

A marker must stay while the log has a batch of its transaction, even an empty one. A pass covers the log from
its start, so it sees all batches of a transaction before their marker.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from ottla.records.batch import CONTROL, TRANSACTIONAL, BatchHeader, BatchView
from ottla.records.control import marker_of
from ottla.records.index_entries import TXN_INDEX_ENTRY


class SegmentHeaders(Protocol):
    """One segment to be searched for markers."""

    def headers(self) -> Iterator[tuple[int, BatchHeader]]:
        """The position and header of every batch, in offset order."""
        ...

    def batch_at(self, position: int) -> BatchView:
        """The whole batch at a position that `headers` returned."""
        ...


class AbortedTransaction(NamedTuple):
    """The batches of a producer from `first_offset` to the marker at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int


class TransactionTrail:
    """Follows the transactional batches of one pass, in offset order."""

    __slots__ = ("_aborted", "_find_aborted", "_seen", "aborts_with_batches")

    def __init__(self, find_aborted: Callable[[], Iterable[AbortedTransaction]]) -> None:
        self._find_aborted = find_aborted
        self._aborted: dict[int, list[AbortedTransaction]] | None = None
        self._seen: set[int] = set()
        # The offsets of ABORT markers whose transaction still has a batch in the log.
        self.aborts_with_batches: set[int] = set()

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a data batch belongs to an aborted transaction."""
        if not header.attributes & TRANSACTIONAL:
            return False
        if self._aborted is None:
            self._aborted = {}
            for found in self._find_aborted():
                self._aborted.setdefault(found.producer_id, []).append(found)
        ended = self._aborted.get(header.producer_id, ())
        number = bisect_right(ended, header.base_offset, key=lambda found: found.first_offset) - 1
        return number >= 0 and header.base_offset <= ended[number].last_offset

    def see_data(self, header: BatchHeader) -> None:
        """Note that the log has this data batch."""
        if header.attributes & TRANSACTIONAL:
            self._seen.add(header.producer_id)

    def see_marker(self, header: BatchHeader, *, is_commit: bool) -> bool:
        """Whether the marker's transaction has a batch in the log."""
        if header.producer_id not in self._seen:
            return False
        self._seen.discard(header.producer_id)
        if not is_commit:
            self.aborts_with_batches.add(header.base_offset)
        return True


def find_aborted(segments: Iterable[SegmentHeaders], from_offset: int) -> Iterator[AbortedTransaction]:
    """The aborted transactions with data at or after `from_offset`."""
    begun: dict[int, int] = {}
    for segment in segments:
        for position, header in segment.headers():
            if header.last_offset < from_offset or not header.attributes & TRANSACTIONAL:
                continue
            if not header.attributes & CONTROL:
                begun.setdefault(header.producer_id, header.base_offset)
                continue
            marker = marker_of(segment.batch_at(position)) if header.records_count else None
            first_offset = begun.pop(header.producer_id, None)
            if first_offset is not None and marker is not None and not marker.is_commit:
                yield AbortedTransaction(header.producer_id, first_offset, header.base_offset)


def kept_entries(txn_index: bytes, trail: TransactionTrail, end_offset: int) -> bytes:
    """The .txnindex entries after the pass's end, and those of transactions that still have a batch."""
    entry_bytes = TXN_INDEX_ENTRY.size
    kept = bytearray()
    for start in range(0, len(txn_index) - entry_bytes + 1, entry_bytes):
        last_offset = TXN_INDEX_ENTRY.unpack_from(txn_index, start)[3]
        if last_offset >= end_offset or last_offset in trail.aborts_with_batches:
            kept += txn_index[start : start + entry_bytes]
    return bytes(kept)
