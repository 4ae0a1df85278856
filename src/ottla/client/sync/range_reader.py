"""Reads an exact range of a partition's offsets as raw record batches, for Spark, which decodes them itself.

    start            position                          end
      |=================|--------------------------------|
          returned          one fetch is under way

Rules
- While the caller works on a response, the next fetch is under way: the broker reads, the kernel receives. No
  thread is needed, and no more than one response is held in memory.
- A failure that passes by itself (a leader that moved or died, a lost connection) is retried with fresh
  metadata and growing pauses, until no batch has come for `give_up_ms`; then the last failure is raised.
- Offsets that are deleted, or not yet written, raise `OffsetsLostError` with their range; `skip_to` continues
  after them. A new leader may for a moment know less than the old one: a missing end of the log, or an
  unknown topic, is waited for.
- Offsets that compaction or transactions removed from the range are not lost: reading continues after them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from ottla.client.cluster.backoff import waits_ms
from ottla.client.cluster.machine.known_cluster import PartitionLeader
from ottla.client.cluster.machine.leaders import leader_of
from ottla.client.cluster.machine.topic_inquiries import list_offsets
from ottla.client.requests.offsets import OffsetSpec
from ottla.client.requests.outcomes import error_of, succeeded
from ottla.client.sync.blocking_brokers import BlockingBrokers
from ottla.client.sync.blocking_connection import BlockingConnection
from ottla.client.sync.range_batches import RangeBatches, placed_batches
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

_LAST_VERSION_BY_NAME: Final = 12
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


class RangeReader:
    """Reads the offsets [start, end) of one partition. `read` returns None at the end of the range."""

    def __init__(
        self,
        brokers: BlockingBrokers,
        partition: TopicPartition,
        start: int,
        end: int,
        settings: RangeSettings,
    ) -> None:
        self._brokers = brokers
        self._partition = partition
        self._settings = settings
        self._end = end
        self._topic_id: UUID | None = None
        self._has_answered = False
        self._under_way: BlockingConnection | None = None
        self._missing_since: float | None = None
        self.position = start

    def read(self) -> RangeBatches | None:
        """The next batches, from `position` on; `position` moves to their end.

        They are valid until the next call.

        Raises OffsetsLostError, KafkaError, ConnectionError or TimeoutError.
        """
        waits, deadline = waits_ms(), time.monotonic() + self._settings.give_up_ms / 1000
        while self.position < self._end:
            try:
                found = self._fetched(self._answer())
            except (ConnectionError, TimeoutError, KafkaError) as error:
                self._retry_or_raise(error, waits, deadline)
                continue
            if found is not None:
                self._missing_since = None
                if self.position < self._end and found.damage is None:
                    self._ask_ahead()
                return found
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._partition}: nothing came for {self._settings.give_up_ms} ms")
        return None

    def skip_to(self, offset: int) -> None:
        """Continue at a later offset."""
        self.close()
        self.position = offset
        self._missing_since = None

    def close(self) -> None:
        """Fetch no more.

        A connection with a response under way is closed: receiving the response costs more than a new one.
        """
        if self._under_way is not None:
            self._under_way.close()
            self._under_way = None

    # ---- one fetch

    def _answer(self) -> PartitionData:
        connection, self._under_way = self._under_way, None
        if connection is None:
            connection = self._asked()
        response: FetchResponse = connection.finish()
        if response.error_code != ErrorCode.NONE:
            raise error_of(response.error_code)
        for topic in response.responses:
            for data in topic.partitions:
                if data.error_code != ErrorCode.NONE:
                    raise error_of(data.error_code)
                self._has_answered = True
                return data
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker's answer left out the partition")

    def _ask_ahead(self) -> None:
        """Send the next fetch. If sending fails, the next `read` sends it again."""
        try:
            self._under_way = self._asked()
        except (ConnectionError, TimeoutError, KafkaError):
            self._under_way = None

    def _asked(self) -> BlockingConnection:
        leader = self._leader()
        if not self._has_answered:
            self._topic_id = leader.topic_id  # the remembered leader may be that of a deleted topic
        elif leader.topic_id != self._topic_id:
            raise self._lost(self.position, self._end, "the topic was deleted and made again", is_gone=True)
        connection = self._brokers.connection_to(leader.node_id)
        has_id = leader.topic_id != ZERO_UUID
        at_most = None if has_id else _LAST_VERSION_BY_NAME
        connection.begin(self._request(leader), connection.common_version(ApiKey.FETCH, at_most=at_most))
        return connection

    def _leader(self) -> PartitionLeader:
        known = self._brokers.known
        remembered = known.leader_of(self._partition)
        return remembered or self._brokers.converse(leader_of(known, self._partition))

    def _request(self, leader: PartitionLeader) -> FetchRequest:
        settings = self._settings
        wanted = FetchPartition(
            partition=self._partition.partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=self.position,
            partition_max_bytes=settings.fetch_bytes,
        )
        topic = FetchTopic(topic=self._partition.topic, topic_id=leader.topic_id, partitions=[wanted])
        return FetchRequest(
            max_wait_ms=settings.max_wait_ms,
            min_bytes=1,
            max_bytes=settings.fetch_bytes,
            isolation_level=int(settings.is_read_committed),
            topics=[topic],
        )

    def _fetched(self, data: PartitionData) -> RangeBatches | None:
        """The batches of a response; None if there are none."""
        found = placed_batches(
            data.records or memoryview(b""), self.position, self._end, data.aborted_transactions
        )
        if found.next_offset > self.position or found.damage is not None:
            self.position = found.next_offset
            return found
        upper = data.last_stable_offset if self._settings.is_read_committed else data.high_watermark
        if self.position >= upper:
            self._end_is_missing(upper)
        return None

    # ---- failures

    def _retry_or_raise(self, error: Exception, waits: Iterator[float], deadline: float) -> None:
        code = error.code if isinstance(error, KafkaError) else None
        if code is not None and not code.retriable and code not in _ASKED_AGAIN:
            raise self._placed(error)
        if code in _ABSENT:
            self._topic_is_missing()
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range()
        wait_s = next(waits) / 1000
        if time.monotonic() + wait_s > deadline:
            raise self._placed(error)
        self._brokers.known.forget_leader(self._partition)
        time.sleep(wait_s)

    def _placed(self, error: Exception) -> Exception:
        """The error with partition and offset, if it is a broker's."""
        if not isinstance(error, KafkaError):
            return error
        return KafkaError(error.code, f"{self._partition} at offset {self.position}: {error.message}")

    def _out_of_range(self) -> None:
        try:
            log_start, log_end = self._offset(OffsetSpec.EARLIEST), self._offset(OffsetSpec.LATEST)
        except (ConnectionError, TimeoutError, KafkaError):
            return  # asked again
        if self.position < log_start:
            lost_end = min(log_start, self._end)
            raise self._lost(self.position, lost_end, f"the log begins at offset {log_start} now")
        self._end_is_missing(log_end)

    def _offset(self, spec: OffsetSpec) -> int:
        """Where the log begins or ends for this reader; asked once."""
        wanted, settings = {self._partition: int(spec)}, self._settings
        inquiry = list_offsets(self._brokers.known, wanted, read_committed=settings.is_read_committed)
        outcomes = self._brokers.converse(inquiry.attempt(wanted, settings.give_up_ms))
        return succeeded(outcomes)[self._partition].offset

    def _end_is_missing(self, log_end: int) -> None:
        if self._has_waited_long():
            whose = " for readers of committed records" if self._settings.is_read_committed else ""
            raise self._lost(self.position, self._end, f"the log ends at offset {log_end}{whose}")

    def _topic_is_missing(self) -> None:
        if self._has_waited_long():
            raise self._lost(
                self.position, self._end, "there is no such topic or partition any more", is_gone=True
            )

    def _has_waited_long(self) -> bool:
        now = time.monotonic()
        if self._missing_since is None:
            self._missing_since = now
        return now - self._missing_since >= self._settings.patience_ms / 1000

    def _lost(self, first: int, end: int, why: str, *, is_gone: bool = False) -> OffsetsLostError:
        return OffsetsLostError(first, end, why, is_gone=is_gone)
