"""What was read from the object store: verified batches, and indexes, within `ottla.remote.cache.bytes`.

The least recently used goes first. Ten readers of the same old records cost one read of the store; a reader that
goes on finds what was read ahead for it.
"""

from bisect import insort
from collections import OrderedDict
from uuid import UUID

from ottla.log.tiers.batch_run import BatchRun, run_that_covers
from ottla.records.index_entries import AbortedEntry


class CachedRun:
    """A run of batches with the aborted transactions in it, as far as the store knew of them.

    `aborted_up_to`: markers below this offset were looked at; None if later ones cannot concern the run.
    """

    __slots__ = ("aborted", "aborted_up_to", "run")

    def __init__(self, run: BatchRun, aborted: list[AbortedEntry], aborted_up_to: int | None) -> None:
        self.run = run
        self.aborted = aborted
        self.aborted_up_to = aborted_up_to


class ReadCache:
    """Runs and indexes by segment; one limit for all of them."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._runs: dict[UUID, list[BatchRun]] = {}
        self._cached: OrderedDict[tuple[UUID, int], CachedRun] = OrderedDict()
        self._indexes: OrderedDict[tuple[UUID, str], bytes] = OrderedDict()
        self.size_bytes = 0

    def run(self, segment_id: UUID, offset: int) -> CachedRun | None:
        """The run of a segment that answers a read at `offset`."""
        found = run_that_covers(self._runs.get(segment_id, ()), offset)
        if found is None:
            return None
        key = segment_id, found.first_offset
        self._cached.move_to_end(key)
        return self._cached[key]

    def add_run(self, segment_id: UUID, cached: CachedRun) -> None:
        """Keep a run, in the place of one that begins at the same offset."""
        key = segment_id, cached.run.first_offset
        self._forget_run(key)
        insort(self._runs.setdefault(segment_id, []), cached.run, key=lambda run: run.first_offset)
        self._cached[key] = cached
        self.size_bytes += len(cached.run.data)
        self._shrink()

    def index(self, segment_id: UUID, kind: str) -> bytes | None:
        """The bytes of an index."""
        found = self._indexes.get((segment_id, kind))
        if found is not None:
            self._indexes.move_to_end((segment_id, kind))
        return found

    def add_index(self, segment_id: UUID, kind: str, data: bytes) -> None:
        """Keep the bytes of an index."""
        self.size_bytes += len(data) - len(self._indexes.pop((segment_id, kind), b""))
        self._indexes[segment_id, kind] = data
        self._shrink()

    def _shrink(self) -> None:
        """The newest run and the newest index always stay: somebody is about to use them."""
        while self.size_bytes > self._limit_bytes and len(self._cached) > 1:
            self._forget_run(next(iter(self._cached)))
        while self.size_bytes > self._limit_bytes and len(self._indexes) > 1:
            _, data = self._indexes.popitem(last=False)
            self.size_bytes -= len(data)

    def _forget_run(self, key: tuple[UUID, int]) -> None:
        cached = self._cached.pop(key, None)
        if cached is None:
            return
        self.size_bytes -= len(cached.run.data)
        runs = self._runs[key[0]]
        runs.remove(cached.run)
        if not runs:
            del self._runs[key[0]]
