"""One record's life, from what the cluster itself knows: written, replicated, readable, read, near to its end.

Nothing was recorded for this: the log holds the record's batch with its producer and epoch, the leader knows how far
replicas and readers are, the coordinators know the groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.client.admin.admin import Admin
from ottla.client.admin.log_batches import LogBatches, LogBatchReader
from ottla.client.admin.trace_context import TraceContext, trace_context_of
from ottla.client.requests.configs import ConfigEntry, ConfigResource, ResourceType
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.offsets import ListedOffset, OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.records.batch import BatchView, Record, TimestampType
from ottla.records.control import marker_of

# The end of a transaction is looked for in this many fetches of this many bytes after the record.
_MOST_FETCHES: Final = 32
_FETCH_BYTES: Final = 1 << 20
_NO_PRODUCER: Final = -1


class NoSuchRecordError(ValueError):
    """The log holds no record at the offset. The message says why, and what there is instead."""


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """The marker that ended the record's transaction in its partition."""

    is_commit: bool
    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """A group that has committed an offset of the record's partition."""

    group_id: str
    committed_offset: int
    has_passed: bool


@dataclass(frozen=True, slots=True)
class RecordLife:
    """Everything that the cluster knows of one record. Fields that no broker answered are None.

    `replica_ends` says how far the log of each replica is at least, `deletable_in_ms` how long retention by age
    leaves the record at the least.
    """

    partition: TopicPartition
    record: Record
    batch: BatchView
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    replica_ends: Mapping[int, int | None]
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    transactional_id: str | None
    transaction_end: TransactionEnd | None
    is_transaction_open: bool
    groups: tuple[GroupProgress, ...]
    cleanup_policy: str
    deletable_in_ms: int | None
    trace: TraceContext | None

    @property
    def is_idempotent(self) -> bool:
        """Whether the record came from a producer with an id."""
        return self.batch.producer_id != _NO_PRODUCER

    @property
    def is_replicated(self) -> bool:
        """Whether all in-sync replicas have the record: it is committed, and consumers see it."""
        return self.record.offset < self.high_watermark

    @property
    def is_stable(self) -> bool:
        """Whether readers of committed records have it, or have skipped it."""
        return self.record.offset < self.last_stable_offset


async def record_life(
    admin: Admin, reader: LogBatchReader, partition: TopicPartition, offset: int, now_ms: int
) -> RecordLife:
    """Ask for everything about a record. Raises NoSuchRecordError and KafkaError."""
    found = await _found(admin, reader, partition, offset)
    batch, record = _record_in(found, partition, offset)
    topics = succeeded(await admin.describe_topics([partition.topic]))
    placed = topics[partition.topic].partitions[partition.partition]
    is_open, end = False, None
    if batch.is_transactional:
        is_open = await _is_open(admin, partition, batch)
        end = None if is_open else await _transaction_end(reader, partition, batch)
    policy, retention_ms = await _retention(admin, partition.topic)
    left_ms = None if retention_ms is None else max(0, record.timestamp + retention_ms - now_ms)
    return RecordLife(
        partition=partition,
        record=record,
        batch=batch,
        leader=found.leader,
        replicas=placed.replicas,
        isr=placed.isr,
        replica_ends=await _replica_ends(admin, partition, placed.replicas, found.high_watermark),
        log_start_offset=found.log_start_offset,
        high_watermark=found.high_watermark,
        last_stable_offset=found.last_stable_offset,
        transactional_id=await _transactional_id(admin, batch) if batch.is_transactional else None,
        transaction_end=end,
        is_transaction_open=is_open,
        groups=await _groups(admin, partition, offset),
        cleanup_policy=policy,
        deletable_in_ms=left_ms,
        trace=trace_context_of(record.headers),
    )


async def _found(admin: Admin, reader: LogBatchReader, partition: TopicPartition, offset: int) -> LogBatches:
    try:
        found = await reader.read(partition, offset)
    except KafkaError as error:
        if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            raise
        raise await _outside(admin, partition, offset) from None
    if not found.batches:
        raise await _outside(admin, partition, offset)
    return found


async def _outside(admin: Admin, partition: TopicPartition, offset: int) -> NoSuchRecordError:
    place = f"{partition.topic}-{partition.partition}"
    start = await _offset(admin, partition, OffsetSpec.EARLIEST)
    end = await _offset(admin, partition, OffsetSpec.LATEST)
    if offset < start:
        return NoSuchRecordError(
            f"{place} begins at offset {start}: the record at {offset} was deleted, by retention or by a command"
        )
    return NoSuchRecordError(f"{place} ends at offset {end}: there is no record at {offset} yet")


async def _offset(admin: Admin, partition: TopicPartition, spec: OffsetSpec) -> int:
    listed = succeeded(await admin.list_offsets({partition: int(spec)}))[partition]
    assert isinstance(listed, ListedOffset)
    return listed.offset


def _record_in(found: LogBatches, partition: TopicPartition, offset: int) -> tuple[BatchView, Record]:
    batch = next((each for each in found.batches if each.last_offset >= offset), None)
    place = f"{partition.topic}-{partition.partition}"
    if batch is None or batch.base_offset > offset:
        where = "" if batch is None else f"; the next one that is left is at {batch.base_offset} or later"
        raise NoSuchRecordError(f"{place} has no record at {offset} any more: compaction removed it{where}")
    if batch.is_control:
        raise NoSuchRecordError(
            f"{place} has a control record at {offset}, which no application sees: the {_marker(batch)} of "
            f"producer {batch.producer_id}"
        )
    for record in batch.records():
        if record.offset == offset:
            return batch, record
    raise NoSuchRecordError(f"{place} has no record at {offset} any more: compaction removed it")


def _marker(batch: BatchView) -> str:
    marker = marker_of(batch)
    return "end of a transaction" if marker is None else "commit" if marker.is_commit else "abort"


async def _is_open(admin: Admin, partition: TopicPartition, batch: BatchView) -> bool:
    producers = succeeded(await admin.describe_producers([partition]))[partition]
    return any(
        each.producer_id == batch.producer_id
        and each.open_since_offset is not None
        and each.open_since_offset <= batch.base_offset
        for each in producers
    )


async def _transaction_end(
    reader: LogBatchReader, partition: TopicPartition, batch: BatchView
) -> TransactionEnd | None:
    """The next marker of the batch's producer; None if it is too far away, or compaction removed it."""
    offset = batch.last_offset + 1
    for _ in range(_MOST_FETCHES):
        batches = (await reader.read(partition, offset, max_bytes=_FETCH_BYTES)).batches
        for each in batches:
            if each.is_control and each.producer_id == batch.producer_id:
                marker = marker_of(each)
                if marker is not None:
                    return TransactionEnd(marker.is_commit, each.base_offset, each.max_timestamp)
        if not batches:
            return None
        offset = batches[-1].last_offset + 1
    return None


async def _transactional_id(admin: Admin, batch: BatchView) -> str | None:
    listed = await admin.list_transactions(producer_ids=[batch.producer_id])
    return listed[0].transactional_id if listed else None


async def _replica_ends(
    admin: Admin, partition: TopicPartition, replicas: tuple[int, ...], high_watermark: int
) -> dict[int, int | None]:
    """How far the log of each replica is at least: brokers tell how far it is behind the high watermark."""
    alive = {broker.node_id for broker in (await admin.describe_cluster()).brokers}
    ends: dict[int, int | None] = dict.fromkeys(replicas)
    described = await admin.describe_log_dirs([node_id for node_id in replicas if node_id in alive])
    for node_id, directories in described.items():
        for each in () if isinstance(directories, KafkaError) else directories:
            if partition in each.replicas and not each.replicas[partition].is_future:
                ends[node_id] = high_watermark - each.replicas[partition].offset_lag
    return ends


async def _groups(admin: Admin, partition: TopicPartition, offset: int) -> tuple[GroupProgress, ...]:
    found = []
    for group in await admin.list_groups():
        offsets = await admin.list_group_offsets(group.group_id, [partition])
        committed = offsets.get(partition)
        if isinstance(committed, CommittedOffset):
            found.append(GroupProgress(group.group_id, committed.offset, committed.offset > offset))
    return tuple(found)


async def _retention(admin: Admin, topic: str) -> tuple[str, int | None]:
    """How old records of a topic get: its cleanup policy, and the age after which retention may delete them."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries: Mapping[str, ConfigEntry] = succeeded(await admin.describe_configs([resource]))[resource]
    policy = entries["cleanup.policy"].value or ""
    retention_ms = int(entries["retention.ms"].value or -1)
    return policy, retention_ms if retention_ms >= 0 and "delete" in policy else None


def timestamp_is_brokers(batch: BatchView) -> bool:
    """Whether the timestamps are those of the append, by the clock of the leader."""
    return batch.timestamp_type is TimestampType.LOG_APPEND_TIME
