"""Reads an exact range of a partition's offsets: what lies in the object store from there, the rest from the brokers.

    start                     the end of the last copied segment            end
      |====== objects of the store ======|======= fetches of a leader ========|

The leader of the partition says where records lie (ListRemoteSegments), and is asked again when what it said is not
true any more. Rules
- Records of the store are those of segments that the leader named: committed, and agreed upon with its log. What it
  does not name is fetched: offsets that are gone are for `RangeReader` to report.
- An object that is missing, and not named any more, is read where its records are now. One that is still named is an
  error: another store is seen here than by the brokers.
- A store that fails is tried again until nothing has come for `give_up_ms`; one that refuses is not.
- The part from the brokers is of the same topic as the part from the store, by its id.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final
from uuid import UUID

from ottla.client.cluster.backoff import backoff_ms
from ottla.client.cluster.machine.remote_inquiries import NOT_TOLD, list_remote_segments
from ottla.client.requests.outcomes import succeeded
from ottla.client.requests.remote_segments import ReadableSegment, RemoteSegments
from ottla.client.sync.blocking_brokers import BlockingBrokers
from ottla.client.sync.machine.range_fetches import OffsetsLostError, RangeSettings
from ottla.client.sync.range_batches import RangeBatches
from ottla.client.sync.range_reader import RangeReader
from ottla.client.sync.remote_aborted import RemoteAborted
from ottla.client.sync.segment_pieces import SegmentPieces, Source
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.codec import ZERO_UUID
from ottla.runtime.object_store import ObjectMissingError, StoreError, StoreForbiddenError
from ottla.runtime.runtime import Runtime

# The piece ahead, and that of the next segment.
_THREADS: Final = 2
# A store takes longer to answer than a broker: it is asked for this much more at a time.
_FETCHES_PER_PIECE: Final = 2


class TieredReader:
    """Reads the offsets [start, end) of one partition, as `RangeReader` does."""

    def __init__(
        self,
        brokers: BlockingBrokers,
        partition: TopicPartition,
        offsets: tuple[int, int],
        settings: RangeSettings,
        runtime: Runtime | None = None,
    ) -> None:
        self._brokers = brokers
        self._partition = partition
        self._position, self._end = offsets
        self._settings = settings
        self._runtime = runtime or Runtime()
        self._listed: RemoteSegments | None = None
        self._topic_id: UUID | None = None
        self._store: _OpenStore | None = None
        self._rest: RangeReader | None = None

    def read(self) -> RangeBatches | None:
        """The next batches, valid until the next call; None at the end of the range.

        Raises OffsetsLostError, KafkaError, ConnectionError or TimeoutError.
        """
        begun_s, failures = time.monotonic(), 0
        while self._rest is None and self._position < self._end:
            segment = self._segment()
            if segment is None:
                self._rest = self._from_brokers()
                break
            try:
                found = self._opened(self._listed).read(segment, self._position, self._end)
            except StoreForbiddenError as refused:
                raise self._failed(refused) from refused
            except StoreError as problem:
                failures += 1
                self._wait_or_raise(segment, problem, backoff_ms(failures) / 1000, begun_s)
                continue
            self._position = found.next_offset
            return found
        return None if self._rest is None else self._rest.read()

    def skip_to(self, offset: int) -> None:
        """Continue at a later offset."""
        self.close()
        self._position = offset

    def close(self) -> None:
        """Read no more."""
        if self._rest is not None:
            self._rest.close()
        if self._store is not None:
            self._store.close()
        self._listed = self._store = self._rest = None

    # ---- where records lie

    def _segment(self) -> ReadableSegment | None:
        """The segment in the store that has the position; None if the brokers are to be asked for it."""
        listed = self._listed
        if listed is None or not (listed.is_complete or _holds(listed, self._position)):
            listed = self._listed = self._asked(self._position)
        if self._position < listed.log_start_offset:
            return None
        return next(
            (each for each in listed.segments if each.base_offset <= self._position < each.next_offset), None
        )

    def _asked(self, offset: int) -> RemoteSegments:
        """What the leader says of the range from an offset on."""
        try:
            return self._answer(offset, is_about_aborted=False)
        except KafkaError as refused:
            if refused.code in NOT_TOLD:
                return RemoteSegments()
            raise

    def _asked_about_aborted(self, offset: int) -> RemoteSegments:
        """The segments that tell of aborted transactions. ObjectMissingError if the records are deleted by now."""
        listed = self._answer(offset, is_about_aborted=True)
        if listed.log_start_offset > self._position:
            # The markers may be deleted, too: nobody can say which records were aborted.
            raise ObjectMissingError(f"the log begins at offset {listed.log_start_offset} now")
        return listed

    def _answer(self, offset: int, *, is_about_aborted: bool) -> RemoteSegments:
        wanted = {self._partition: (offset, self._end)}
        inquiry = list_remote_segments(self._brokers.known, wanted, is_about_aborted=is_about_aborted)
        answers = self._brokers.settle(inquiry)
        listed = succeeded(answers)[self._partition]
        if self._topic_id not in (None, listed.topic_id):
            why = "the topic was deleted and created again"
            raise OffsetsLostError(self._position, self._end, why, is_gone=True)
        self._topic_id = listed.topic_id
        return listed

    def _from_brokers(self) -> RangeReader:
        offsets = self._position, self._end
        if self._topic_id in (None, ZERO_UUID):
            return RangeReader(self._brokers, self._partition, *offsets, self._settings)
        # What was remembered may be the leader of a topic of the same name that is gone.
        self._brokers.known.forget_leader(self._partition)
        return RangeReader(self._brokers, self._partition, *offsets, self._settings, self._topic_id)

    # ---- the store

    def _opened(self, listed: RemoteSegments | None) -> _OpenStore:
        assert listed is not None, "a segment was named"
        if self._store is None:
            try:
                store = self._runtime.stores.open(listed.store_url, is_read_only=True)
            except StoreError as problem:
                raise self._failed(problem, listed.store_url) from problem
            pool = self._runtime.threads.pool(_THREADS, "ottla-tier")
            source = Source(store, pool, _FETCHES_PER_PIECE * self._settings.fetch_bytes)
            aborted = None
            if self._settings.is_read_committed:
                aborted = RemoteAborted(store, self._asked_about_aborted, self._position)
            self._store = _OpenStore(source, aborted)
        self._store.learn(listed)
        return self._store

    def _wait_or_raise(
        self, segment: ReadableSegment, problem: StoreError, wait_s: float, begun_s: float
    ) -> None:
        """Wait before the next attempt, with what the leader says now; or raise a failure that does not pass."""
        url = "" if self._listed is None else self._listed.store_url
        limit_ms = self._settings.give_up_ms
        self.close()
        if isinstance(problem, ObjectMissingError):
            limit_ms = min(limit_ms, self._settings.patience_ms)
            self._listed = self._asked(self._position)
            if all(each.name != segment.name for each in self._listed.segments):
                return
        if time.monotonic() + wait_s > begun_s + limit_ms / 1000:
            raise self._failed(problem, url) from problem
        time.sleep(wait_s)

    def _failed(self, problem: StoreError, url: str | None = None) -> KafkaError:
        where = url or ("" if self._listed is None else self._listed.store_url)
        why = str(problem)
        if isinstance(problem, ObjectMissingError):
            why += "; the brokers have it. Is this the store that they use?"
        return KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"{self._partition} at offset {self._position}, in {where}: {why}"
        )


class _OpenStore:
    """A store while a range is read from it: the segment that is open, and the one after it."""

    def __init__(self, source: Source, aborted: RemoteAborted | None) -> None:
        self._source = source
        self._aborted = aborted
        self._pieces: SegmentPieces | None = None
        self._segments: tuple[ReadableSegment, ...] = ()

    def learn(self, listed: RemoteSegments) -> None:
        """The segments that follow each other."""
        self._segments = listed.segments

    def read(self, segment: ReadableSegment, offset: int, end: int) -> RangeBatches:
        """The next batches of a segment. StoreError."""
        if self._pieces is None or self._pieces.segment.name != segment.name:
            self._pieces = SegmentPieces(self._source, segment, offset)
        found = self._pieces.read(end)
        if self._aborted is not None and found.batches:
            first = found.batches[0].header.base_offset
            found = replace(found, aborted=self._aborted.between(first, found.next_offset))
        if self._pieces.is_read:
            self._pieces = self._following(segment, end)
        return found

    def _following(self, segment: ReadableSegment, end: int) -> SegmentPieces | None:
        """The next segment, whose first piece is read ahead."""
        following = next(
            (each for each in self._segments if each.base_offset <= segment.next_offset < each.next_offset),
            None,
        )
        if following is None or segment.next_offset >= end:
            return None
        pieces = SegmentPieces(self._source, following, segment.next_offset)
        pieces.begin()
        return pieces

    def close(self) -> None:
        """Read no more; what is under way is forgotten."""
        self._source.pool.shutdown(wait=False, cancel_futures=True)


def _holds(listed: RemoteSegments, offset: int) -> bool:
    return bool(listed.segments) and offset < listed.segments[-1].next_offset
