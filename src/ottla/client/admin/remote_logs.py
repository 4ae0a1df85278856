"""What the object store holds of each partition, as the brokers know it (DescribeRemoteLog, Ottla's own).

Every broker has the whole metadata; how far copies are, and why they do not go on, only the leader of a partition
knows. So all brokers are asked, and the leader's answer counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from ottla.client.admin.plan.broker_questions import describe_cluster
from ottla.client.calls import arguments
from ottla.client.cluster.connections import Connections
from ottla.client.cluster.machine.known_cluster import KnownCluster
from ottla.client.cluster.machine.retries import Inquiry
from ottla.client.cluster.machine.single_brokers import by_node
from ottla.client.requests.outcomes import error_of, succeeded
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.remote_logs import (
    DescribeRemoteLogRequest,
    DescribeRemoteLogResponse,
    RemotePartitionData,
)
from ottla.security.settings import Security


@dataclass(frozen=True, slots=True)
class RemoteObjectInfo:
    """An object of a segment: the end of its name, its size and its CRC-32C."""

    kind: str
    size_bytes: int
    crc: int


@dataclass(frozen=True, slots=True)
class RemoteSegmentInfo:
    """A segment whose objects may exist; `state` is copying, copied or deleting."""

    segment_id: UUID
    state: str
    base_offset: int
    next_offset: int
    size_bytes: int
    max_timestamp_ms: int
    objects: tuple[RemoteObjectInfo, ...]


@dataclass(frozen=True, slots=True)
class RemotePartition:
    """The remote part of a partition. Numbers that only the leader knows are None without its answer."""

    topic: str
    topic_id: UUID
    partition: int
    is_deleted: bool
    leader: int | None
    log_start_offset: int | None
    local_start_offset: int | None
    remote_next_offset: int | None
    copyable_next_offset: int | None
    segment_count: int
    size_bytes: int
    deleting_count: int
    problem: str | None
    segments: tuple[RemoteSegmentInfo, ...]

    @property
    def lag_records(self) -> int | None:
        """Records of closed segments that are not in the store yet."""
        if self.copyable_next_offset is None:
            return None
        copied = self.remote_next_offset
        if copied is None:
            copied = self.log_start_offset or 0
        return max(0, self.copyable_next_offset - copied)


@dataclass(frozen=True, slots=True)
class RemoteLogs:
    """The remote parts of a cluster. `problems` are what brokers say of the store, by broker."""

    store_url: str | None
    problems: dict[int, str]
    partitions: tuple[RemotePartition, ...]


async def describe_remote_logs(
    bootstrap: str,
    *,
    client_id: str,
    timeout_ms: int,
    security: Security | None = None,
    topics: Sequence[str] | None = None,
    has_segments: bool = False,
) -> RemoteLogs:
    """Ask every broker. KafkaError if one does not answer, or has no tiered storage."""
    connections = Connections(
        KnownCluster(arguments.addresses("bootstrap", bootstrap)),
        client_id=client_id,
        timeout_ms=timeout_ms,
        security=arguments.security_of(security),
    )
    await connections.reach()
    try:
        clusters = await connections.settle(describe_cluster(include_fenced=False), timeout_ms)
        cluster = succeeded(clusters)[""]
        nodes: dict[int, None] = dict.fromkeys(broker.node_id for broker in cluster.brokers)
        request = DescribeRemoteLogRequest(None if topics is None else list(topics), has_segments)
        inquiry: Inquiry[int, None, DescribeRemoteLogResponse] = Inquiry(nodes, by_node(request, _outcome))
        outcomes = await connections.settle(inquiry, timeout_ms)
    finally:
        await connections.close()
    return merged(succeeded(outcomes))


def _outcome(response: DescribeRemoteLogResponse) -> DescribeRemoteLogResponse | KafkaError:
    if response.error_code != ErrorCode.NONE:
        return error_of(response.error_code, response.error_message)
    return response


def merged(answers: dict[int, DescribeRemoteLogResponse]) -> RemoteLogs:
    """One view of several brokers' answers: the leader's numbers, and every segment that any of them knows."""
    found: dict[tuple[UUID, int], RemotePartition] = {}
    for node_id, answer in answers.items():
        for topic in answer.topics:
            for data in topic.partitions:
                key = topic.topic_id, data.partition_index
                shown = _partition(topic.name, topic.topic_id, topic.is_deleted, data)
                known = found.get(key)
                if known is None:
                    found[key] = shown
                    continue
                best = shown if data.leader_id == node_id else known
                found[key] = replace(best, segments=_all_segments(known.segments, shown.segments))
    return RemoteLogs(
        store_url=next((answer.store_url for answer in answers.values()), None),
        problems={node_id: answer.problem for node_id, answer in answers.items() if answer.problem},
        partitions=tuple(found[key] for key in sorted(found, key=lambda key: (found[key].topic, key[1]))),
    )


def _all_segments(
    one: tuple[RemoteSegmentInfo, ...], other: tuple[RemoteSegmentInfo, ...]
) -> tuple[RemoteSegmentInfo, ...]:
    by_id = {segment.segment_id: segment for segment in (*one, *other)}
    return tuple(sorted(by_id.values(), key=lambda segment: (segment.base_offset, segment.segment_id)))


def _partition(topic: str, topic_id: UUID, is_deleted: bool, data: RemotePartitionData) -> RemotePartition:
    return RemotePartition(
        topic=topic,
        topic_id=topic_id,
        partition=data.partition_index,
        is_deleted=is_deleted,
        leader=_known(data.leader_id),
        log_start_offset=_known(data.log_start_offset),
        local_start_offset=_known(data.local_start_offset),
        remote_next_offset=_known(data.remote_next_offset),
        copyable_next_offset=_known(data.copyable_next_offset),
        segment_count=data.segment_count,
        size_bytes=data.size_bytes,
        deleting_count=data.deleting_count,
        problem=data.problem,
        segments=tuple(
            RemoteSegmentInfo(
                segment_id=each.segment.segment_id,
                state=each.state,
                base_offset=each.segment.base_offset,
                next_offset=each.segment.next_offset,
                size_bytes=each.segment.size_bytes,
                max_timestamp_ms=each.segment.max_timestamp_ms,
                objects=tuple(
                    RemoteObjectInfo(one.kind, one.size_bytes, one.crc) for one in each.segment.objects
                ),
            )
            for each in data.segments
        ),
    )


def _known(number: int) -> int | None:
    return number if number >= 0 else None
