"""The fetches that read an exact range of a partition's offsets, as steps of the client core.

Rules
- A failure that passes by itself (a leader that moved or died, a lost connection) is retried with fresh
  metadata and growing pauses, until no batch has come for `give_up_ms`; then the last failure is raised.
- Offsets that are deleted, or not yet written, raise `OffsetsLostError` with their range; `skip_to` continues
  after them. A new leader may for a moment know less than the old one: a missing end of the log, or an
  unknown topic, is waited for.
- Offsets that compaction or transactions removed from the range are not lost: reading continues after them.
- The fetch after a successful one is known before the caller asks for it (`ahead`), so that a driver can send
  it early.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from ottla.client.cluster.machine.conversation import NOW, Ask, Pause, Steps
from ottla.client.cluster.machine.known_cluster import KnownCluster, PartitionLeader
from ottla.client.cluster.machine.leaders import leader_of
from ottla.client.cluster.machine.topic_inquiries import list_offsets
from ottla.client.requests.offsets import OffsetSpec
from ottla.client.requests.outcomes import error_of, succeeded
from ottla.client.sync.range_batches import RangeBatches, placed_batches
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.codec import ZERO_UUID, first_version
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

_LAST_VERSION_BY_NAME: Final = first_version(FetchTopic, "topic_id") - 1
_ABSENT: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
# Not retriable according to Kafka, but fresh metadata or another look at the log may help.
_ASKED_AGAIN: Final = frozenset({ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.BROKER_NOT_AVAILABLE})


@dataclass(frozen=True, slots=True)
class RangeSettings:
    """How much to fetch at once, and how long to wait."""

    fetch_bytes: int = 4 << 20
    max_wait_ms: int = 500
    is_read_committed: bool = False
    give_up_ms: int = 60_000
    # A new leader needs less than this to learn the high watermark that the old one gave to readers.
    patience_ms: int = 5_000


class OffsetsLostError(Exception):
    """Offsets [first, end) cannot be read, for the reason `why`.

    `is_gone`: the topic or partition does not exist.
    """

    def __init__(self, first: int, end: int, why: str, *, is_gone: bool = False) -> None:
        super().__init__(why)
        self.first = first
        self.end = end
        self.why = why
        self.is_gone = is_gone


class RangeFetches:
    """The fetches of the offsets [start, end) of one partition.

    `position` is the first offset that was not returned. `backoff_ms(failures)` is the pause after that many
    failures in a row. `topic_id` is that of the topic which the range belongs to, if it is known.
    """

    def __init__(
        self,
        known: KnownCluster,
        partition: TopicPartition,
        offsets: tuple[int, int],
        settings: RangeSettings,
        backoff_ms: Callable[[int], int],
        topic_id: UUID | None = None,
    ) -> None:
        self.position, self._end = offsets
        self._known = known
        self._partition = partition
        self._settings = settings
        self._backoff_ms = backoff_ms
        self._topic_id = topic_id  # then that of the topic that answered
        self._ahead: Ask | None = None
        self._missing_since_ms: int | None = None

    def next_batches(self) -> Steps[RangeBatches | None]:
        """The next batches, from `position` on; `position` moves to their end. None at the end of the range.

        Raises OffsetsLostError, KafkaError, ConnectionError or TimeoutError.
        """
        deadline_ms, failures = (yield NOW) + self._settings.give_up_ms, 0
        while self.position < self._end:
            try:
                found = yield from self._fetched()
            except (ConnectionError, TimeoutError, KafkaError) as error:
                failures += 1
                yield from self._wait_or_raise(error, self._backoff_ms(failures), deadline_ms)
                continue
            if found is not None:
                self._missing_since_ms = None
                self._ahead = self._next_ask() if found.damage is None else None
                return found
            if (yield NOW) > deadline_ms:
                raise TimeoutError(f"{self._partition}: nothing came for {self._settings.give_up_ms} ms")
        return None

    @property
    def ahead(self) -> Ask | None:
        """The question with which the next `next_batches` begins, if it is known."""
        return self._ahead

    def skip_to(self, offset: int) -> None:
        """Continue at a later offset."""
        self.position = offset
        self._ahead = None
        self._missing_since_ms = None

    # ---- one fetch

    def _fetched(self) -> Steps[RangeBatches | None]:
        """The batches of one response; None if there are none."""
        ask, self._ahead = self._ahead, None
        if ask is None:
            ask = self._ask((yield from leader_of(self._known, self._partition)))
        data = self._partition_data((yield ask))
        self._topic_id = ask.request.topics[0].topic_id
        records, settings = data.records or memoryview(b""), self._settings
        found = placed_batches(records, self.position, self._end, data.aborted_transactions)
        if found.next_offset > self.position or found.damage is not None:
            self.position = found.next_offset
            return found
        upper = data.last_stable_offset if settings.is_read_committed else data.high_watermark
        if self.position >= upper:
            yield from self._end_is_missing(upper)
        return None

    def _partition_data(self, response: FetchResponse) -> PartitionData:
        if response.error_code != ErrorCode.NONE:
            raise error_of(response.error_code)
        for topic in response.responses:
            for data in topic.partitions:
                if data.error_code != ErrorCode.NONE:
                    raise error_of(data.error_code)
                return data
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker's answer left out the partition")

    def _next_ask(self) -> Ask | None:
        """The next fetch, if the range goes on and its leader is the one that answered."""
        leader = self._known.leader_of(self._partition)
        if leader is None or leader.topic_id != self._topic_id or self.position >= self._end:
            return None
        return self._ask(leader)

    def _ask(self, leader: PartitionLeader) -> Ask:
        # Before the first answer any id will do: the remembered leader may be that of a deleted topic.
        if self._topic_id is not None and leader.topic_id != self._topic_id:
            raise self._lost_to_the_end("the topic was deleted and created again", is_gone=True)
        settings = self._settings
        wanted = FetchPartition(
            partition=self._partition.partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=self.position,
            partition_max_bytes=settings.fetch_bytes,
        )
        topic = FetchTopic(topic=self._partition.topic, topic_id=leader.topic_id, partitions=[wanted])
        request = FetchRequest(
            max_wait_ms=settings.max_wait_ms,
            min_bytes=1,
            max_bytes=settings.fetch_bytes,
            isolation_level=int(settings.is_read_committed),
            topics=[topic],
        )
        has_id = leader.topic_id != ZERO_UUID
        return Ask(leader.node_id, request, at_most=None if has_id else _LAST_VERSION_BY_NAME)

    # ---- failures

    def _wait_or_raise(self, error: Exception, wait_ms: int, deadline_ms: int) -> Steps[None]:
        """Wait before the next attempt with fresh metadata; or raise a failure that will not pass."""
        code = error.code if isinstance(error, KafkaError) else None
        if code is not None and not code.retriable and code not in _ASKED_AGAIN:
            raise self._placed(error)
        if code in _ABSENT and (yield from self._has_waited_long()):
            raise self._lost_to_the_end("there is no such topic or partition any more", is_gone=True)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            yield from self._out_of_range()
        if (yield NOW) + wait_ms > deadline_ms:
            raise self._placed(error)
        self._known.forget_leader(self._partition)
        yield Pause(wait_ms)

    def _placed(self, error: Exception) -> Exception:
        """The error with partition and offset, if it is a broker's."""
        if not isinstance(error, KafkaError):
            return error
        return KafkaError(error.code, f"{self._partition} at offset {self.position}: {error.message}")

    def _out_of_range(self) -> Steps[None]:
        """Find out on which side of the log the position is. If that fails, the fetch is tried again."""
        try:
            log_start = yield from self._offset(OffsetSpec.EARLIEST)
            log_end = yield from self._offset(OffsetSpec.LATEST)
        except (ConnectionError, TimeoutError, KafkaError):
            return
        if self.position < log_start:
            why = f"the log begins at offset {log_start} now"
            raise OffsetsLostError(self.position, min(log_start, self._end), why)
        yield from self._end_is_missing(log_end)

    def _offset(self, spec: OffsetSpec) -> Steps[int]:
        """Where the log begins or ends for this reader; asked once."""
        wanted, settings = {self._partition: int(spec)}, self._settings
        inquiry = list_offsets(self._known, wanted, read_committed=settings.is_read_committed)
        outcomes = yield from inquiry.attempt(wanted, settings.give_up_ms)
        return succeeded(outcomes)[self._partition].offset

    def _end_is_missing(self, log_end: int) -> Steps[None]:
        if (yield from self._has_waited_long()):
            whose = " for readers of committed records" if self._settings.is_read_committed else ""
            raise self._lost_to_the_end(f"the log ends at offset {log_end}{whose}")

    def _has_waited_long(self) -> Steps[bool]:
        now_ms: int = yield NOW
        if self._missing_since_ms is None:
            self._missing_since_ms = now_ms
        return now_ms - self._missing_since_ms >= self._settings.patience_ms

    def _lost_to_the_end(self, why: str, *, is_gone: bool = False) -> OffsetsLostError:
        return OffsetsLostError(self.position, self._end, why, is_gone=is_gone)
