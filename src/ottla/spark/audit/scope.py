"""Which part of a topic is audited: one range of offsets for each partition, settled before the first record
is read.

A bound is an end of the log, an offset for every partition, offsets for some partitions, a moment, or, for
the end, as far as the table goes. Offsets that the log no longer has, or does not have yet, are refused: an
audit that silently looks at less than it was asked for would be worth nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from ottla.blocking import Admin
from ottla.client.requests.configs import ConfigResource, ResourceType
from ottla.client.requests.offsets import OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_OFFSET, TopicPartition


class AuditError(ValueError):
    """An audit that cannot be done as it was asked for; the message is for the person who asked."""


class Edge(Enum):
    """Bounds that are words."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of the range; the first of these that is set counts."""

    edge: Edge | None = None
    offset: int | None = None
    offsets: Mapping[int, int] = field(default_factory=dict)  # by partition; the others keep their default
    time_ms: int | None = None


FROM_EARLIEST = Bound(Edge.EARLIEST)
TO_LATEST = Bound(Edge.LATEST)


@dataclass(frozen=True, slots=True)
class PartitionScope:
    """One partition: what the log holds, and what of it is audited: [start, end)."""

    log_start: int
    log_end: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class LogEnds:
    """The offsets of a topic, and the offsets of the times in the bounds. By partition."""

    earliest: Mapping[int, int]
    latest: Mapping[int, int]
    moments: Mapping[int, Mapping[int, int]] = field(default_factory=dict)  # time -> partition -> offset
    is_compacted: bool = False


def ask_ends(admin: Admin, topic: str, bounds: tuple[Bound, ...], *, read_committed: bool = False) -> LogEnds:
    """Ask the cluster. AuditError if there is no such topic."""
    keys = [TopicPartition(topic, index) for index in _partitions(admin, topic)]

    def offsets(timestamp: int) -> dict[int, int]:
        wanted = dict.fromkeys(keys, timestamp)
        found = succeeded(admin.list_offsets(wanted, read_committed=read_committed))
        return {key.partition: found[key].offset for key in keys}

    latest = offsets(OffsetSpec.LATEST)
    moments = {}
    for time_ms in {bound.time_ms for bound in bounds if bound.time_ms is not None}:
        at = offsets(time_ms)
        moments[time_ms] = {
            partition: latest[partition] if offset == NO_OFFSET else offset
            for partition, offset in at.items()
        }
    return LogEnds(offsets(OffsetSpec.EARLIEST), latest, moments, _is_compacted(admin, topic))


def _is_compacted(admin: Admin, topic: str) -> bool:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    policy = succeeded(admin.describe_configs([resource]))[resource].get("cleanup.policy")
    return policy is not None and "compact" in (policy.value or "")


def _partitions(admin: Admin, topic: str) -> list[int]:
    try:
        described = succeeded(admin.describe_topics([topic]))[topic]
    except KafkaError as error:
        if error.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
            raise AuditError(f"there is no topic {topic}") from error
        raise
    return sorted(each.index for each in described.partitions)


def scope_of(
    topic: str, ends: LogEnds, start: Bound, end: Bound, table_ends: Mapping[int, int]
) -> dict[int, PartitionScope]:
    """The range of each partition. `table_ends` is where the table ends, for partitions that are in it."""
    for option, bound in (("--from", start), ("--to", end)):
        _refuse_strangers(topic, option, bound, ends)
    scope = {}
    for partition in sorted(ends.latest):
        log_start, log_end = ends.earliest[partition], ends.latest[partition]
        first = _place(start, partition, ends, default=log_start)
        last = _place(end, partition, ends, default=log_end)
        if end.edge is Edge.TABLE:
            last = min(max(table_ends.get(partition, first), first), log_end)
        _refuse_what_is_not_there(topic, partition, first, last, log_start, log_end)
        scope[partition] = PartitionScope(log_start, log_end, first, last)
    return scope


def _place(bound: Bound, partition: int, ends: LogEnds, *, default: int) -> int:
    if bound.edge is Edge.EARLIEST:
        return ends.earliest[partition]
    if bound.edge is Edge.LATEST:
        return ends.latest[partition]
    if bound.offset is not None:
        return bound.offset
    if bound.time_ms is not None:
        return ends.moments[bound.time_ms][partition]
    return bound.offsets.get(partition, default)


def _refuse_strangers(topic: str, option: str, bound: Bound, ends: LogEnds) -> None:
    for partition in sorted(bound.offsets):
        if partition not in ends.latest:
            raise AuditError(
                f"{option} names partition {partition}: {topic} has the partitions 0 to {max(ends.latest)}"
            )


def _refuse_what_is_not_there(
    topic: str, partition: int, first: int, last: int, log_start: int, log_end: int
) -> None:
    place = f"partition {partition} of {topic}"
    if first < log_start:
        raise AuditError(
            f"{place} begins at offset {log_start}: the records from {first} to {log_start - 1} were deleted (retention, or DeleteRecords), "
            "so they cannot be compared. Audit the rest with --from earliest"
        )
    if last > log_end:
        raise AuditError(f"{place} ends at offset {log_end}: there is nothing up to {last} to audit yet")
    if first > last:
        raise AuditError(f"the range of {place} is empty the wrong way round: from {first} to {last}")
