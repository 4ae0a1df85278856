"""Fetches from one leader: asks, appends the records of the answer, asks again.

One fetch is under way at a time. The records of an answer are appended partition by partition, with a pause
for other requests after a few megabytes. Then the next fetch goes out, and after it flushes that are due.
Another image may come between an answer and its append, so the local replica's leader is compared before each
log is touched.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from ottla.config import BrokerConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.log.segments.truncation_job import TruncationJob
from ottla.protocol.messages.fetch import FetchResponse
from ottla.replication.follower import (
    Append,
    AppendFailed,
    BackOff,
    BeginAt,
    Effect,
    Failed,
    HighWatermarkMoved,
    LogStartMoved,
)
from ottla.replication.log_holes import AcceptHole, HoleFound, TruncateTo
from ottla.runtime.clock import monotonic_ms
from ottla.server.partitions.flushing import Flusher
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.partitions.hosting import Hosting
from ottla.server.quorum.peers import Peers
from ottla.server.quorum.quorum import Quorum
from ottla.server.replicas.fetcher_session import FetcherSession, Followed
from ottla.server.replicas.throttle import Throttle

logger = logging.getLogger(__name__)

FETCH_VERSION: Final = 18
# This much is appended in one turn of the loop: some milliseconds.
_BYTES_PER_TURN: Final = 4 << 20
# The time that a fetch may take beyond its wait, at least and at most: the answer may be large, and the
# leader busy; but a connection that leads nowhere must be given up before replica.lag.time.max.ms is over.
# After a timeout less is asked for at once.
_SHORTEST_TIMEOUT_MS: Final = 2_000
_LONGEST_TIMEOUT_MS: Final = 10_000
_LEAST_BYTES: Final = 64 << 10
_NOT_FOLLOWING_S: Final = 3600.0
_THROTTLED_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class FetcherServices:
    """The parts of the broker that every lane works with."""

    config: BrokerConfig
    quorum: Quorum
    hosting: Hosting
    peers: Peers
    flusher: Flusher
    now_ms: Callable[[], int]


class FetcherLane:
    """One task that fetches from one leader over one connection."""

    def __init__(
        self,
        services: FetcherServices,
        leader: int,
        name: str,
        *,
        flushes: bool = False,
        throttle: Throttle | None = None,
    ) -> None:
        self._services = services
        self._leader = leader
        self._name = name
        self._flushes = flushes
        self._throttle = throttle
        self._session = FetcherSession(services.config)
        self._changed = asyncio.Event()
        self._failures = 0
        self._limit_bytes = services.config.replication.fetch_response_max_bytes
        lag_ms = services.config.replication.lag_time_max_ms
        self._timeout_ms = min(max(lag_ms // 2, _SHORTEST_TIMEOUT_MS), _LONGEST_TIMEOUT_MS)
        self._cut_jobs: list[TruncationJob] = []
        self._task: asyncio.Task[None] | None = None

    def follow(self, partition: HostedPartition) -> None:
        """Fetch a partition from now on, or under another leader epoch."""
        if self._session.follow(partition):
            self._changed.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def unfollow(self, partition: HostedPartition) -> None:
        """Do not fetch it any more."""
        self._session.unfollow(partition)

    async def stop(self) -> None:
        """Stop where it stands; an answer under way is dropped."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await self._round()
            except Exception:
                logger.exception("fetching from broker %d failed", self._leader)
                self._session.reset()
                await asyncio.sleep(self._services.config.replication.fetch_backoff_ms / 1000)

    async def _round(self) -> None:
        """One fetch, if there is something to ask for now."""
        self._changed.clear()
        services = self._services
        if self._throttle is not None and (pause_ms := self._throttle.wait_ms()):
            # Another rate may be allowed meanwhile.
            await self._pause(min(pause_ms / 1000, _THROTTLED_S))
            return
        await self._prepare(self._session.changed())
        request = self._session.request(services.quorum.broker_epoch, self._max_bytes(), monotonic_ms())
        if request is None:
            await self._pause(self._session.pause_s(monotonic_ms(), _NOT_FOLLOWING_S))
            return
        try:
            timeout_ms = request.max_wait_ms + self._timeout_ms
            response = await services.peers.ask(
                self._leader,
                request,
                purpose=self._name,
                timeout_ms=timeout_ms,
                version=FETCH_VERSION,
                reuses_memory=True,
            )
            _check(response)
        except (OSError, KafkaError) as problem:
            await self._unreachable(problem)
            return
        self._reachable()
        await self._take(response)

    def _max_bytes(self) -> int:
        limit = self._limit_bytes
        return limit if self._throttle is None else max(1, min(limit, self._throttle.left_bytes()))

    async def _pause(self, pause_s: float) -> None:
        """Wait; shorter if there is something new to follow."""
        try:
            async with asyncio.timeout(pause_s):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _unreachable(self, problem: Exception) -> None:
        self._session.reset()
        self._failures += 1
        if isinstance(problem, TimeoutError):
            self._limit_bytes = max(self._limit_bytes // 2, _LEAST_BYTES)
        if self._failures == 1:
            logger.warning("broker %d cannot be fetched from (%s): %s", self._leader, self._name, problem)
        await self._pause(self._services.config.replication.fetch_backoff_ms / 1000)

    def _reachable(self) -> None:
        if self._failures:
            logger.info("broker %d is fetched from again (%s)", self._leader, self._name)
        self._failures = 0
        most_bytes = self._services.config.replication.fetch_response_max_bytes
        if self._limit_bytes < most_bytes:
            self._limit_bytes = min(2 * self._limit_bytes, most_bytes)

    # Answers

    async def _take(self, response: FetchResponse) -> None:
        """Carry out what an answer says."""
        appended, size_bytes = [], 0
        cuts: dict[Followed, list[Effect]] = {}
        for followed, answer in self._session.answers(response):
            if not self._may_touch(followed):
                continue
            partition = followed.partition
            effects = followed.machine.step(
                answer, partition.log, monotonic_ms(), partition.replica.high_watermark
            )
            if any(isinstance(effect, TruncateTo | BeginAt) for effect in effects):
                cuts[followed] = effects
                continue
            self._carry_out(followed, effects)
            if answer.records:
                appended.append(followed.partition)
                size_bytes += len(answer.records)
            if size_bytes >= _BYTES_PER_TURN:
                self._count(size_bytes)
                size_bytes = 0
                await asyncio.sleep(0)
        self._count(size_bytes)
        if cuts:
            await self._cut(cuts)
        # After the next fetch went out.
        asyncio.get_running_loop().call_soon(self._flush_due, appended)

    def _may_touch(self, followed: Followed) -> bool:
        """Whether the partition still follows this leader here, in the epoch that was asked about."""
        replica = followed.partition.replica
        return (
            self._session.is_followed(followed)
            and not followed.partition.is_closed
            and replica.leader == self._leader
            and replica.leader_epoch == followed.machine.leader_epoch
        )

    def _carry_out(self, followed: Followed, effects: Iterable[Effect]) -> None:
        partition, now_ms = followed.partition, self._services.now_ms()
        self._session.moved(followed)
        for effect in effects:
            match effect:
                case Append(records):
                    if not self._append(followed, memoryview(records), now_ms):
                        return
                case HighWatermarkMoved(high_watermark):
                    followed.copy.leader_high_watermark(high_watermark, monotonic_ms())
                case LogStartMoved(log_start_offset):
                    partition.log.advance_log_start_offset(log_start_offset)
                case BackOff(_, error):
                    self._backed_off(followed, error)
                case Failed(reason):
                    logger.error("%s is not fetched any more: %s", partition.name, reason)
                    self._session.suspend(followed)
                case TruncateTo(offset):
                    logger.warning("%s is truncated from %d to %d: its leader has other records there",
                                   partition.name, partition.log.log_end_offset, offset)  # fmt: skip
                    job = followed.copy.truncate(offset, monotonic_ms())
                    if job is not None:
                        self._cut_jobs.append(job)
                case AcceptHole():
                    partition.log.accept_loss()
                case BeginAt(offset):
                    logger.warning(
                        "%s restarts at offset %d: its leader has no older records", partition.name, offset
                    )
                    followed.copy.begin_at(offset, monotonic_ms())

    def _append(self, followed: Followed, records: memoryview, now_ms: int) -> bool:
        partition = followed.partition
        try:
            followed.copy.append(records, now_ms)
        except KafkaError as error:
            if followed.append_failed():
                logger.error(
                    "what broker %d sent for %s cannot be appended: %s", self._leader, partition.name, error
                )
            self._failed(followed, error.code)
            return False
        followed.appended()
        return True

    def _failed(self, followed: Followed, error: ErrorCode) -> None:
        """The log did not take what it should: try again later, or never if it takes nothing any more."""
        log = followed.partition.log
        failed = AppendFailed(error, is_lasting=log.status.refusal is not None)
        self._carry_out(followed, followed.machine.step(failed, log, monotonic_ms()))

    def _backed_off(self, followed: Followed, error: ErrorCode) -> None:
        """Leave the partition out until it may be asked for again."""
        logger.debug("%s: broker %d answered %s", followed.partition.name, self._leader, error.name)
        self._session.suspend(followed)

    def _count(self, size_bytes: int) -> None:
        if self._throttle is not None:
            self._throttle.take(size_bytes)

    # Before a fetch

    async def _prepare(self, changed: Iterable[Followed]) -> None:
        """See that logs are what the next fetch says they are."""
        holes = {followed: effects for followed in changed if (effects := self._settle_hole(followed))}
        if holes:
            await self._cut(holes)
        if self._flushes:
            await self._flush(changed)

    def _settle_hole(self, followed: Followed) -> list[Effect]:
        """The effects for records that a crash took from the middle of the follower's log."""
        partition = followed.partition
        lost = partition.log.extent.first_lost_offset
        if lost is None:
            return []
        hole = HoleFound(lost, partition.replica.leader, partition.replica.replicas)
        return followed.machine.step(hole, partition.log, monotonic_ms())

    async def _flush(self, changed: Iterable[Followed]) -> None:
        """A fetch from an offset says that all before it is durable.

        Records that cannot be flushed are not announced.
        """
        unflushed = [
            f for f in changed if f.partition.log.durability.flushed_offset < f.partition.log.log_end_offset
        ]
        flusher = self._services.flusher
        results = await asyncio.gather(
            *(flusher.flushed(f.partition, f.partition.log.log_end_offset) for f in unflushed),
            return_exceptions=True,
        )
        for followed, result in zip(unflushed, results, strict=True):
            if isinstance(result, Exception):
                self._failed(followed, ErrorCode.KAFKA_STORAGE_ERROR)

    def _flush_due(self, appended: Iterable[HostedPartition]) -> None:
        for partition in appended:
            if not partition.is_closed and partition.flush_policy.is_due:
                self._services.flusher.flush(partition)

    # Cuts

    async def _cut(self, cuts: dict[Followed, list[Effect]]) -> None:
        """Cut logs, the checkpoints before them; those that cannot be cut now are asked about again.

        After each cut requests have their turn; to make them durable takes a thread and as long as it takes.
        (A failure there makes the log refuse its next append.)
        """
        offsets = {
            followed.partition: effect.offset
            for followed, effects in cuts.items()
            for effect in effects
            if isinstance(effect, TruncateTo | BeginAt)
        }
        for followed, effects in cuts.items():
            try:
                if offsets:
                    self._services.hosting.prepare_cuts(offsets)
                    offsets = {}
                if self._may_touch(followed):
                    self._carry_out(followed, effects)
            except OSError as problem:
                logger.error("%s could not be truncated: %s", followed.partition.name, problem)
                self._failed(followed, ErrorCode.KAFKA_STORAGE_ERROR)
            await asyncio.sleep(0)
        jobs, self._cut_jobs = self._cut_jobs, []
        await asyncio.to_thread(_run, jobs)


def _check(response: FetchResponse) -> None:
    """Raise the error that answers a whole fetch.

    A session that the leader has forgotten restarts like any other.
    """
    if response.error_code:
        raise KafkaError(ErrorCode(response.error_code))


def _run(jobs: list[TruncationJob]) -> None:
    for job in jobs:
        # The log runs it again before its next append, and hears what is wrong.
        with suppress(OSError):
            job.run()
