"""Fetch, as followers send it: with their broker id and epoch (KIP-903), up to the log's end, in sessions of
their own.

A fetch proves what its follower holds (KIP-595): the leader compares the epoch of the follower's last record
with its own log. Where they agree, the offset counts towards the high watermark; where they diverge, the
answer says where. Then the partitions that have news are read, and if there is none the fetch waits for an
append.

A round trip costs the same for little and for much, so one busy partition may fill the answer; where several
have news, each gets its share of it, and at least replica.fetch.max.bytes.
"""

import asyncio
from typing import Final
from uuid import UUID

from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_BROKER_EPOCH
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import first_version
from ottla.protocol.messages.fetch import FetchRequest, FetchTopic
from ottla.replication.divergence import judge_fetch
from ottla.server.answers.deferred import Deferred
from ottla.server.answers.send_queue import Part
from ottla.server.apis.fetch_response import PartitionResult, fetch_refusal, fetch_response_parts
from ottla.server.gate.handlers import RequestContext
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.replicas.follower_sessions import Cursor, FollowerSession, PartitionKey

_TOPIC_IDS_SINCE: Final = first_version(FetchTopic, "topic_id")
# How long a fetch waits at most whose partitions are being moved and have used up their rate.
_THROTTLED_WAIT_MS = 100


class _Reading:
    """One pass over the partitions with news."""

    __slots__ = ("is_throttled", "is_urgent", "size_bytes", "told")

    def __init__(self) -> None:
        self.told: list[tuple[Cursor, PartitionResult]] = []
        self.size_bytes = 0
        # Something that must not wait: an error, logs that part, a commit that the follower's readers wait for.
        self.is_urgent = False
        self.is_throttled = False


class FollowerFetch:
    """One fetch of a follower, from its session to its answer."""

    __slots__ = (
        "_context",
        "_deferred",
        "_is_over",
        "_is_resuming",
        "_missing_bytes",
        "_now_ms",
        "_request",
        "_services",
        "_session",
    )

    def __init__(self, context: RequestContext, request: FetchRequest, session: FollowerSession) -> None:
        self._context = context
        self._services = context.services
        self._request = request
        self._session = session
        self._now_ms = session.last_fetch_ms
        # Woken for another reason than records: the deadline, another leader, a broker that stops.
        self._is_over = False
        self._is_resuming = False
        self._missing_bytes = 0

    def answer(self) -> list[Part] | Deferred:
        """Answer at once where there is something, else wait."""
        reading = self._read()
        if self._is_enough(reading) or self._request.max_wait_ms <= 0:
            return self._parts(reading)
        return self._wait(reading)

    def _is_enough(self, reading: _Reading) -> bool:
        session = self._session
        return (
            reading.is_urgent
            or not session.cursors
            or reading.size_bytes >= max(self._request.min_bytes, 1)
            or self._request.min_bytes <= 0
        )

    # Waiting

    def on_append(self, size_bytes: int) -> None:
        """There is more to fetch. All that comes in one turn of the loop goes out together."""
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0:
            self._resume_soon()

    def wake(self) -> None:
        """Do not wait any longer."""
        self._is_over = True
        self._resume_soon()

    def _wait(self, reading: _Reading) -> Deferred:
        session = self._session
        wait_ms = session.wait_ms(self._request.max_wait_ms)
        if reading.is_throttled:
            wait_ms = min(wait_ms, _THROTTLED_WAIT_MS)
        self._missing_bytes = self._request.min_bytes - reading.size_bytes
        session.wait(self)
        self._services.follower_sessions.wake_later(self, wait_ms)
        self._deferred = Deferred(self._abandoned)
        return self._deferred

    def _resume_soon(self) -> None:
        if not self._is_resuming:
            self._is_resuming = True
            asyncio.get_running_loop().call_soon(self._resume)

    def _resume(self) -> None:
        try:
            reading = self._read()
            if self._is_enough(reading) or self._is_over:
                self._end_waiting()
                self._deferred.settle(self._parts(reading))
            else:
                self._missing_bytes = self._request.min_bytes - reading.size_bytes
                self._is_resuming = False
        except Exception as problem:
            self._end_waiting()
            self._deferred.settle(problem)

    def _abandoned(self) -> None:
        self._end_waiting()
        self._session.lost()

    def _end_waiting(self) -> None:
        self._services.follower_sessions.forget(self)
        # Nothing wakes it any more.
        self._is_resuming = True
        self._session.end_wait(self)

    # Reading

    def _read(self) -> _Reading:
        reading, session = _Reading(), self._session
        max_bytes = min(self._request.max_bytes, self._services.config.fetches.max_bytes)
        least_bytes = self._services.config.replication.fetch_max_bytes
        for others, cursor in zip(range(len(session.news), 0, -1), tuple(session.news), strict=True):
            left_bytes = max_bytes - reading.size_bytes
            share_bytes = min(left_bytes, max(least_bytes, left_bytes // others))
            try:
                result = self._read_partition(cursor, share_bytes, reading)
            except KafkaError as error:
                result = _result(cursor, error.code)
                self._services.requests.of(ApiKey.FETCH).failed(error.code)
            if result is None:
                continue
            reading.told.append((cursor, result))
            reading.size_bytes += result.size_bytes
            reading.is_urgent |= result.error_code != ErrorCode.NONE or result.diverging_epoch >= 0
        return reading

    def _read_partition(self, cursor: Cursor, share_bytes: int, reading: _Reading) -> PartitionResult | None:
        """The answer for a partition; None if there is no news. KafkaError if it cannot be fetched here."""
        partition, want = cursor.host(self._find), cursor.want
        replica = partition.replica
        error = replica.fetch_error(want.current_leader_epoch) or replica.follower_error(
            cursor.replica_id, self._session.broker_epoch
        )
        if error:
            raise KafkaError(error)
        if cursor.progress.is_named:
            refusal = self._prove(cursor, partition)
            if refusal is not None:
                return refusal
        result = _result_of(cursor, partition)
        log = partition.log
        if want.fetch_offset < log.log_end_offset:
            limit = min(share_bytes, want.partition_max_bytes)
            if self._may_read(cursor, partition, share_bytes, reading):
                at_least_one = not reading.size_bytes
                # Committed or not: a follower has what the leader has.
                result.records = log.read(
                    want.fetch_offset, limit, upper_offset=log.log_end_offset, at_least_one=at_least_one
                )
                self._count(cursor, partition, result)
        elif cursor.was_told(result):
            del self._session.news[cursor]
        elif partition.waiters.hurries_commits:
            reading.is_urgent |= result.high_watermark > cursor.told_high_watermark
        return None if result.records is None and cursor.was_told(result) else result

    def _prove(self, cursor: Cursor, partition: HostedPartition) -> PartitionResult | None:
        """Take the follower's offset for what it holds, unless its log is not a beginning of ours."""
        want = cursor.want
        epoch = partition.replica.leader_epoch
        verdict = judge_fetch(partition.log, epoch, want.fetch_offset, want.last_fetched_epoch)
        if verdict is ErrorCode.NONE:
            partition.step(cursor.progress.prove(self._now_ms), self._now_ms)
            return None
        result = _result_of(cursor, partition)
        if isinstance(verdict, ErrorCode):
            result.error_code = verdict
        else:
            result.diverging_epoch, result.diverging_end_offset = verdict
        return result

    def _may_read(
        self, cursor: Cursor, partition: HostedPartition, share_bytes: int, reading: _Reading
    ) -> bool:
        if share_bytes <= 0 and reading.size_bytes:
            return False
        throttle = self._services.follower_sessions.throttle
        if cursor.replica_id in partition.adding_replicas and throttle.left_bytes() <= 0:
            reading.is_throttled = True
            return False
        return True

    def _count(self, cursor: Cursor, partition: HostedPartition, result: PartitionResult) -> None:
        partition.counts.replicated_out(result.size_bytes)
        if cursor.replica_id in partition.adding_replicas:
            self._services.follower_sessions.throttle.take(result.size_bytes)

    def _find(self, key: PartitionKey) -> HostedPartition:
        name, index = key
        partitions = self._services.partitions
        return (
            partitions.by_id(name, index) if isinstance(name, UUID) else partitions.by_name(str(name), index)
        )

    def _parts(self, reading: _Reading) -> list[Part]:
        session, context = self._session, self._context
        for cursor, result in reading.told:
            session.told(cursor, result)
        results = [result for _, result in reading.told]
        session_id = session.session_id
        if not session_id:
            session.close()
        return fetch_response_parts(
            context.version, context.header.correlation_id, session_id, False, results
        )


def follower_fetch(
    context: RequestContext, request: FetchRequest, replica_id: int, broker_epoch: int
) -> list[Part] | Deferred:
    """Answer a follower's fetch."""
    services = context.services
    known = services.quorum.image.brokers.get(replica_id)
    if known is not None and NO_BROKER_EPOCH < broker_epoch < known.epoch:
        # The broker was started again: this is its former self.
        return [fetch_refusal(context.version, context.header.correlation_id, ErrorCode.STALE_BROKER_EPOCH)]
    uses_topic_ids = context.version >= _TOPIC_IDS_SINCE
    session = services.follower_sessions.resolve(request, replica_id, broker_epoch, uses_topic_ids)
    if isinstance(session, ErrorCode):
        return [fetch_refusal(context.version, context.header.correlation_id, session)]
    return FollowerFetch(context, request, session).answer()


def _result(cursor: Cursor, error: ErrorCode) -> PartitionResult:
    name, index = cursor.key
    topic_id, topic = (name, "") if isinstance(name, UUID) else (UUID(int=0), str(name))
    return PartitionResult(topic, topic_id, index, error)


def _result_of(cursor: Cursor, partition: HostedPartition) -> PartitionResult:
    """With the high watermark and the log start: followers need them with every answer, errors too."""
    result = _result(cursor, ErrorCode.NONE)
    result.high_watermark = partition.replica.high_watermark
    result.last_stable_offset = partition.last_stable_offset
    result.log_start_offset = partition.log.log_start_offset
    return result
