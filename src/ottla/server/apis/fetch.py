"""Fetch, versions 4 to 18.

KIP-74 response limits, KIP-98 aborted transactions for readers of committed records, KIP-227 sessions, KIP-320
leader epochs, KIP-516 topic ids from 13, KIP-595 diverging epochs, KIP-392 reads from followers.

A fetch reads every partition it names, in order, up to its limits. When that is less than it asked for, it
waits for appends to those partitions until its deadline. Records leave as ranges of files: they are never
read here. Followers fetch in another way (follower_fetch.py). Records that only the object store holds (KIP-405)
are answered from memory when they were read from there; a fetch that finds none of them waits for the read.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Final

from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_LEADER, NO_NODE, EpochEnd
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import first_version
from ottla.protocol.messages.fetch import (
    FetchRequest,
    FetchResponse,
    FetchTopic,
    NodeEndpoint,
    PartitionData,
)
from ottla.replication.divergence import judge_read
from ottla.replication.fetch_session import FetchContext, FetchPartitionData
from ottla.replication.nearest_replica import nearest_replica
from ottla.replication.partition import READ_COMMITTED
from ottla.security.acl.checks import CHECKS
from ottla.server.answers.send_queue import Part
from ottla.server.apis.fetch_response import (
    PartitionResult,
    fetch_refusal,
    fetch_response_parts,
    throttled_fetch,
)
from ottla.server.apis.fetch_wait import FetchWait
from ottla.server.apis.follower_fetch import follower_fetch
from ottla.server.apis.leader_hints import MISDIRECTED, addresses, current_leader
from ottla.server.gate.handlers import ApiFamily, RequestContext
from ottla.server.gate.rights import Rights
from ottla.server.partitions.hosted_partition import HostedPartition

api = ApiFamily()

_TOPIC_IDS_SINCE: Final = first_version(FetchTopic, "topic_id")
_REPLICA_STATE_SINCE: Final = first_version(FetchRequest, "replica_state")
_PREFERRED_REPLICA_SINCE: Final = first_version(PartitionData, "preferred_read_replica")
_LEADER_HINTS_SINCE: Final = first_version(FetchResponse, "node_endpoints")
_OF_CONSUMER: Final = CHECKS[ApiKey.FETCH][0]


class _Reading:
    """One pass over the partitions of a fetch."""

    __slots__ = ("is_complete", "loads", "results", "size_bytes")

    def __init__(self) -> None:
        self.results: list[PartitionResult] = []
        self.size_bytes = 0
        # Reads of the object store that this fetch may wait for.
        self.loads: list[asyncio.Task[None]] = []
        # Something that must not wait: an error, a diverging epoch, or more data after the data that was
        # read.
        self.is_complete = False


@api.handles(FetchRequest)
def fetch(context: RequestContext, request: FetchRequest) -> list[Part] | Awaitable[list[Part]]:
    """Answer at once where there is enough, else wait."""
    services = context.services
    if services.quorum.is_metadata_fetch(request):
        context.session.speaks_for_node(True)
        return services.quorum.answer(context, request)
    state = request.replica_state
    replica_id = state.replica_id if context.version >= _REPLICA_STATE_SINCE else request.replica_id
    context.session.speaks_for_node(replica_id >= 0)
    if replica_id >= 0:
        return follower_fetch(context, request, replica_id, state.replica_epoch)
    session = services.fetch_sessions.resolve(request, context.version, services.now_ms())
    if isinstance(session, ErrorCode):
        return [fetch_refusal(context.version, context.header.correlation_id, session)]
    if services.quotas.are_set:
        request = _within_quota(context, request)
    reading = _read(context, request, session.partitions)
    if _is_enough(request, reading, session):
        return _answer(context, request, session, reading)
    return _wait(context, request, session, reading)


def _within_quota(context: RequestContext, request: FetchRequest) -> FetchRequest:
    """A request that asks for no more than the client's quota allows at once: more would never leave."""
    most_bytes = context.services.quotas.most_fetched_bytes(context.session)
    if most_bytes is None:
        return request
    return replace(
        request,
        max_bytes=min(request.max_bytes, most_bytes),
        min_bytes=min(request.min_bytes, most_bytes),
    )


def _is_enough(request: FetchRequest, reading: _Reading, session: FetchContext) -> bool:
    return (
        reading.is_complete
        or reading.size_bytes >= request.min_bytes
        or (request.max_wait_ms <= 0 and not reading.loads)
        or not session.partitions
    )


async def _wait(
    context: RequestContext, request: FetchRequest, session: FetchContext, reading: _Reading
) -> list[Part]:
    loop = asyncio.get_running_loop()
    wait_ms = request.max_wait_ms
    if reading.loads:
        wait_ms = max(wait_ms, context.services.config.tiers.fetch_max_wait_ms)
    deadline = loop.time() + wait_ms / 1000
    partitions = _hosted(context, session.partitions)
    woken = False
    while not woken and not _is_enough(request, reading, session) and loop.time() < deadline:
        wait = FetchWait(request.min_bytes - reading.size_bytes)
        timer = loop.call_at(deadline, wait.wake)
        for partition in partitions:
            partition.waiters.add_reader(wait)
        for load in reading.loads:
            load.add_done_callback(wait.on_load)
        try:
            await wait.future
        finally:
            timer.cancel()
            for load in reading.loads:
                load.remove_done_callback(wait.on_load)
            for partition in partitions:
                partition.waiters.remove_reader(wait)
        reading = _read(context, request, session.partitions)
        # Woken for another reason than records: the deadline, a deleted topic, a broker that stops.
        woken = wait.is_over
    return _answer(context, request, session, reading)


def _hosted(context: RequestContext, wanted: Sequence[FetchPartitionData]) -> list[HostedPartition]:
    hosted = []
    for want in wanted:
        try:
            hosted.append(_find(context, want))
        except KafkaError:
            # The reading that came before has reported it, and an error does not wait.
            continue
    return hosted


def _find(context: RequestContext, want: FetchPartitionData) -> HostedPartition:
    if context.version >= _TOPIC_IDS_SINCE:
        return context.services.partitions.by_id(want.topic_id, want.partition)
    return context.services.partitions.by_name(want.topic, want.partition)


def _read(context: RequestContext, request: FetchRequest, wanted: Sequence[FetchPartitionData]) -> _Reading:
    reading = _Reading()
    max_bytes = min(request.max_bytes, context.services.config.fetches.max_bytes)
    for want in wanted:
        try:
            result = _read_partition(context, request, want, max_bytes - reading.size_bytes, reading)
        except KafkaError as error:
            result = PartitionResult(want.topic, want.topic_id, want.partition, error.code)
            context.services.requests.of(ApiKey.FETCH).failed(error.code)
            if error.code in MISDIRECTED and context.version >= _LEADER_HINTS_SINCE:
                topic = context.services.quorum.image.topics_by_id.get(want.topic_id)
                result.current_leader = current_leader(topic, want.partition)
            reading.is_complete = True
        reading.results.append(result)
    return reading


def _read_partition(
    context: RequestContext,
    request: FetchRequest,
    want: FetchPartitionData,
    left_bytes: int,
    reading: _Reading,
) -> PartitionResult:
    if context.services.rights is not None:
        _check_right(context, context.services.rights, want)
    partition = _find(context, want)
    error = partition.replica.fetch_error(want.current_leader_epoch)
    if error and not (error is ErrorCode.NOT_LEADER_OR_FOLLOWER and _may_follow(context, partition)):
        raise KafkaError(error)
    log, tier = partition.log, partition.tier
    whole = log if tier is None else tier
    verdict = judge_read(whole, partition.replica.leader_epoch, want.fetch_offset, want.last_fetched_epoch)
    if verdict is not ErrorCode.NONE and not isinstance(verdict, EpochEnd):
        raise KafkaError(_known_verdict(verdict, partition, want.fetch_offset))
    result = PartitionResult(want.topic, want.topic_id, want.partition, ErrorCode.NONE)
    result.high_watermark = partition.replica.high_watermark
    result.last_stable_offset = partition.last_stable_offset
    result.log_start_offset = whole.log_start_offset
    if isinstance(verdict, EpochEnd):
        result.diverging_epoch, result.diverging_end_offset = verdict
        reading.is_complete = True
        return result
    if request.rack_id and not error:
        result.preferred_read_replica = _nearest(context, partition, want.fetch_offset, request.rack_id)
        if result.preferred_read_replica != NO_NODE:
            reading.is_complete = True
            return result
    if left_bytes <= 0 and reading.size_bytes:
        return result
    limit = min(want.partition_max_bytes, left_bytes)
    if tier is not None and want.fetch_offset < log.log_start_offset:
        _read_cold(context, partition, want, limit, request.isolation_level, reading, result)
        return result
    found = partition.read(want.fetch_offset, limit, request.isolation_level, not reading.size_bytes)
    if found is not None and found.size:
        result.records, result.counts = found, partition.counts
        reading.size_bytes += found.size
        if request.isolation_level == READ_COMMITTED:
            result.aborted = log.aborted_transactions(want.fetch_offset, found.next_offset)
        upper = result.last_stable_offset if request.isolation_level else result.high_watermark
        # The range ended with its segment or its limit although there is more: waiting would bring nothing.
        reading.is_complete |= found.next_offset < upper
    return result


def _known_verdict(verdict: ErrorCode, partition: HostedPartition, fetch_offset: int) -> ErrorCode:
    """The verdict of a leader that may not be one any more.

    A broker that cannot write does not learn of newer leaders: an offset after its own end may exist there. A consumer
    that heard that it does not would begin anew by its reset policy.
    """
    status, end_offset = partition.log.status, partition.log.log_end_offset
    if fetch_offset > end_offset and (status.is_failing or status.refusal is not None):
        return ErrorCode.OFFSET_NOT_AVAILABLE
    return verdict


def _read_cold(
    context: RequestContext,
    partition: HostedPartition,
    want: FetchPartitionData,
    limit: int,
    isolation_level: int,
    reading: _Reading,
    result: PartitionResult,
) -> None:
    """Records that only the object store holds: those that were read from there, or none yet."""
    tiers = context.services.tiers
    assert tiers is not None, "a partition with a tier has a store"
    offset = want.fetch_offset
    found = tiers.reads.read(partition, offset, limit, at_least_one=not reading.size_bytes)
    if found is None:
        reading.loads.append(tiers.reads.load(partition, offset))
        return
    result.records, result.counts = found.records, partition.counts
    if isolation_level == READ_COMMITTED:
        result.aborted = found.aborted
    reading.size_bytes += found.records.size
    reading.is_complete = True


def _check_right(context: RequestContext, rights: Rights, want: FetchPartitionData) -> None:
    """KafkaError unless the caller may read the topic now: a right may go while a fetch session, or a fetch, waits."""
    name = want.topic
    if context.version >= _TOPIC_IDS_SINCE:
        topic = context.services.quorum.image.topics_by_id.get(want.topic_id)
        if topic is None:
            return
        name = topic.name
    if not rights.permits(context.session, _OF_CONSUMER, name):
        raise KafkaError(_OF_CONSUMER.error)


def _may_follow(context: RequestContext, partition: HostedPartition) -> bool:
    """Whether a consumer may read what this follower knows to be committed."""
    return (
        context.services.config.replication.reads_from_followers
        and context.version >= _PREFERRED_REPLICA_SINCE
        and partition.replica.leader != NO_LEADER
    )


def _nearest(context: RequestContext, partition: HostedPartition, offset: int, rack: str) -> int:
    """The follower that a consumer in `rack` should ask instead of this leader, or NO_NODE."""
    services = context.services
    if not services.config.replication.reads_from_followers or context.version < _PREFERRED_REPLICA_SINCE:
        return NO_NODE
    racks = {each.node_id: each.rack for each in services.quorum.image.brokers.values() if each.is_eligible}
    waiters = partition.waiters
    found = nearest_replica(partition.replica, offset, rack, racks, waiters.follower_starts())
    if found != NO_NODE:
        waiters.hurry_commits()
    return found


def _answer(
    context: RequestContext, request: FetchRequest, session: FetchContext, reading: _Reading
) -> list[Part]:
    quotas = context.services.quotas
    if quotas.are_set and (throttle_ms := quotas.fetched(context.session, reading.size_bytes)):
        return [throttled_fetch(context.version, context.header.correlation_id, session, throttle_ms)]
    results = session.filter(reading.results)
    for result in results:
        if result.counts is not None:
            result.counts.fetched(result.size_bytes)
    read_committed = request.isolation_level == READ_COMMITTED
    correlation_id = context.header.correlation_id
    leaders = [result.current_leader.leader_id for result in results if result.current_leader is not None]
    endpoints = _endpoints(context, leaders) if leaders else ()
    return fetch_response_parts(
        context.version, correlation_id, session.session_id, read_committed, results, endpoints
    )


def _endpoints(context: RequestContext, leaders: Sequence[int]) -> list[NodeEndpoint]:
    image, listener = context.services.quorum.image, context.session.advertised_listener
    return [NodeEndpoint(*found) for found in addresses(image, listener, leaders)]
