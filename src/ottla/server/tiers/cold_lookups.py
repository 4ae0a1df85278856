"""Offsets by timestamps in records below the local log start, for ListOffsets (STO-8).

The metadata has the largest timestamp of every remote segment, so at most one segment is looked into; its time
index leads to the batch.
"""

from ottla.controller.remote_log import RemoteSegment
from ottla.errors import ErrorCode, KafkaError
from ottla.log.files.file_names import TIME_INDEX
from ottla.records.index_lookup import offset_before
from ottla.runtime.object_store import StoreError
from ottla.server.partitions.hosted_partition import HostedPartition
from ottla.server.tiers.cold_reads import ColdReads


async def first_at(reads: ColdReads, partition: HostedPartition, timestamp_ms: int) -> tuple[int, int] | None:
    """(timestamp, offset) of the first record at or after a time among those that only the store holds."""
    tier = partition.tier
    if tier is None:
        return None
    local_start = partition.log.log_start_offset
    for segment in tier.remote.segments:
        if segment.base_offset >= local_start:
            break
        if segment.max_timestamp_ms >= timestamp_ms:
            found = await _first_in(reads, partition, segment, timestamp_ms)
            if found is not None:
                return found if found[1] < local_start else None
    return None


async def largest(reads: ColdReads, partition: HostedPartition, above_ms: int) -> tuple[int, int] | None:
    """(timestamp, offset) of the first record with the largest timestamp that only the store holds.

    None if that timestamp is at most `above_ms`.
    """
    tier = partition.tier
    local_start = partition.log.log_start_offset
    remote = (
        [] if tier is None else [each for each in tier.remote.segments if each.next_offset <= local_start]
    )
    best = max((each.max_timestamp_ms for each in remote), default=above_ms)
    return None if best <= above_ms else await first_at(reads, partition, best)


async def _first_in(
    reads: ColdReads, partition: HostedPartition, segment: RemoteSegment, timestamp_ms: int
) -> tuple[int, int] | None:
    start = partition.log_start_offset
    try:
        index = await reads.index_of(partition, segment, TIME_INDEX)
    except StoreError as problem:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition.name}: {problem}") from problem
    offset = max(start, offset_before(index, segment.base_offset, timestamp_ms))
    while offset < segment.next_offset:
        cached = await reads.run_at(partition, offset)
        found = cached.run.first_at(timestamp_ms, start)
        if found is not None:
            return found
        offset = cached.run.next_offset
    return None
