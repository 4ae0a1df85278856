"""A group shard over a real log, on a disk that can be full and on a watermark that can be held back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.integration.troubled_disk import TroubledDisk

from ottla.config import GroupConfig, TopicConfig
from ottla.group.coordinator import GroupCoordinator
from ottla.group.records import decode_record
from ottla.log.files.open_files import OpenFiles
from ottla.log.log import Log
from ottla.protocol.messages.group_admin import DescribeGroupsRequest
from ottla.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from ottla.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from ottla.records.batch import BatchView, iter_batches
from ottla.replication.events import Assigned
from ottla.replication.partition import PartitionReplica
from ottla.runtime.threads import OsThreads
from ottla.server.coordinators.group_shard import GroupShard
from ottla.server.partitions.flushing import Flusher
from ottla.server.partitions.hosted_partition import HostedPartition

NODE = 1
FOLLOWER = 2
SETTINGS = GroupConfig(initial_rebalance_delay_ms=0, min_session_timeout_ms=1)
SESSION_MS = 60_000


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Hosted:
    """One partition of the offsets topic, and the shards that were made of it. Close it."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.disk = TroubledDisk()
        self.settings = SETTINGS
        self._directory = str(directory / "__consumer_offsets-0")
        self._config = TopicConfig(cleanup_policy=("compact",), **settings)
        self._ids = iter(range(1, 1_000_000))
        self.partition = self._open()

    def _open(self) -> HostedPartition:
        log = Log.open(
            self.disk,
            self._directory,
            self._config,
            recovery_point=0,
            log_start_offset=0,
            clean=True,
            now_ms=wall_ms(),
            open_files=OpenFiles(),
        )
        replica = PartitionReplica(NODE, log.log_start_offset)
        partition = HostedPartition("__consumer_offsets", UUID(int=1), 0, log, replica)
        partition.assign(Assigned(NODE, 0, (NODE,), (NODE, FOLLOWER)), wall_ms())
        return partition

    def close(self) -> None:
        self.partition.log.close()

    def hold_watermark(self) -> None:
        """From now on a follower has to have what is written before it counts, and there is none."""
        self.partition.assign(Assigned(NODE, 0, (NODE, FOLLOWER), (NODE, FOLLOWER)), wall_ms())

    def release_watermark(self) -> None:
        self.partition.assign(Assigned(NODE, 0, (NODE,), (NODE, FOLLOWER)), wall_ms())

    def lose_leadership(self) -> None:
        """The controller gives the partition to the follower."""
        self.partition.assign(Assigned(FOLLOWER, 1, (FOLLOWER,), (NODE, FOLLOWER)), wall_ms())

    def regain_leadership(self) -> None:
        """The controller gives the partition back, in another epoch."""
        self.partition.assign(Assigned(NODE, 2, (NODE,), (NODE, FOLLOWER)), wall_ms())

    def shard(self, flusher: Flusher | None = None) -> GroupShard:
        """A shard that knows nothing yet."""
        machine = GroupCoordinator(self.settings, lambda name: f"{name}-{next(self._ids)}")
        return GroupShard(self.partition, machine, flusher or Flusher(OsThreads()), wall_ms, wall_ms)

    def batches(self) -> list[BatchView]:
        """The records of the log."""
        log = self.partition.log
        batches: list[BatchView] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            found = log.read(offset, 1 << 24, upper_offset=log.log_end_offset, at_least_one=True)
            assert found is not None
            batches += iter_batches(found.file.read(found.position, found.size))
            offset = found.next_offset
        return batches

    def records(self) -> Iterator[tuple[Any, Any]]:
        """The keys and values in the log, decoded."""
        for batch in self.batches():
            for record in batch.records():
                decoded = decode_record(record.key, record.value)
                assert decoded is not None
                yield decoded


def ask(shard: GroupShard, request: Any, version: int = 9) -> Any:
    """The shard's answer, or the awaitable of it."""
    return shard.ask(request, version, "client", "/127.0.0.1")


def commit_request(group: str, offsets: dict[int, int], topic: str = "t", **more: Any) -> OffsetCommitRequest:
    items = [OffsetCommitRequestPartition(index, offset, -1, "") for index, offset in offsets.items()]
    return OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic, partitions=items)], **more)


def committed(shard: GroupShard, group: str) -> dict[tuple[str, int], int]:
    """Every offset of a group."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)])
    (found,) = ask(shard, request).groups
    assert found.error_code == 0
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in found.topics
        for partition in topic.partitions
    }


def join_request(
    group: str, member_id: str = "", instance: str | None = None, session_ms: int = SESSION_MS
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", b"what it says")],
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=SESSION_MS,
    )


def sync_request(group: str, generation: int, member_id: str, *given: str) -> SyncGroupRequest:
    """The leader gives each member its own name."""
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(name, name.encode()) for name in given],
    )


def heartbeat(shard: GroupShard, group: str, generation: int, member_id: str) -> int:
    error: int = ask(shard, HeartbeatRequest(group, generation, member_id), 4).error_code
    return error


async def pair(shard: GroupShard, group: str) -> tuple[int, str, str]:
    """A generation of two members, the leader first, that did not sync yet (static, so that no id has to be
    asked for).
    """
    first = ask(shard, join_request(group, instance="one"))
    alone = first if not asyncio.isfuture(first) else await first
    second = ask(shard, join_request(group, instance="two"))
    again = ask(shard, join_request(group, alone.member_id, instance="one"))
    leader, follower = [one if not asyncio.isfuture(one) else await one for one in (again, second)]
    return leader.generation_id, leader.member_id, follower.member_id


async def stable_pair(shard: GroupShard, group: str) -> tuple[int, str, str]:
    """The same, with assignments."""
    generation, leader, follower = await pair(shard, group)
    waits = ask(shard, sync_request(group, generation, follower), 5)
    answered = ask(shard, sync_request(group, generation, leader, leader, follower), 5)
    assert answered.error_code == 0
    assert (await waits).assignment == follower.encode()
    return generation, leader, follower


def described(shard: GroupShard, group: str) -> Any:
    return ask(shard, DescribeGroupsRequest([group]), 6).groups[0]
