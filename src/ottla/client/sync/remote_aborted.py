"""The aborted transactions among records in an object store, for readers of committed records.

The entry of an aborted transaction stands in the `.txnindex` of the segment with its marker, which may follow its
records by many segments, or lie in the leader's log still. So segments are asked for, and their entries read, as far
as an answer needs: the last stable offset in an entry says when no later one can concern a range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.client.requests.remote_segments import TXN_INDEX, RemoteSegments
from ottla.client.sync.segment_pieces import whole
from ottla.protocol.messages.fetch import AbortedTransaction
from ottla.records.corruption import CorruptRecord
from ottla.records.index_entries import AbortedEntry
from ottla.records.index_lookup import aborted_entries
from ottla.runtime.object_store import ObjectStore, StoreError

# Asks the leader which segments from an offset on tell of aborted transactions.
Ask = Callable[[int], RemoteSegments]


class RemoteAborted:
    """The aborted transactions from an offset on; ranges are asked for in rising order."""

    def __init__(self, store: ObjectStore, ask: Ask, offset: int) -> None:
        self._store = store
        self._coming = self._all(ask, offset)
        self._known: list[AbortedEntry] = []
        self._stable_offset = offset  # all that concerns records below is known

    def between(self, first_offset: int, next_offset: int) -> list[AbortedTransaction]:
        """Those with records in a range. StoreError; KafkaError, ConnectionError or TimeoutError of `ask`."""
        self._known = [each for each in self._known if each.last_offset >= first_offset]
        while self._stable_offset < next_offset and (entries := next(self._coming, None)) is not None:
            self._known += entries
            self._stable_offset = max([self._stable_offset, *(each.last_stable_offset for each in entries)])
        found = {
            (each.producer_id, each.first_offset)
            for each in self._known
            if each.last_offset >= first_offset and each.first_offset < next_offset
        }
        return [AbortedTransaction(*each) for each in sorted(found)]

    def _all(self, ask: Ask, offset: int) -> Iterator[list[AbortedEntry]]:
        """The entries of each segment, those in the leader's log last."""
        while True:
            listed = ask(offset)
            for segment in listed.segments:
                index = segment.objects[TXN_INDEX]
                data = whole(self._store, index.name, index.size_bytes, index.crc)
                try:
                    entries = aborted_entries(data)
                except CorruptRecord as problem:
                    raise StoreError(f"reading {index.name}: {problem}") from problem
                # Of a segment that was truncated, the objects tell of markers that are not in the log.
                yield [each for each in entries if each.last_offset < segment.next_offset]
                offset = segment.next_offset
            if listed.is_complete:
                break
        yield [AbortedEntry(*each, last_stable_offset=0) for each in listed.aborted]
