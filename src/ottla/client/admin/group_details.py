"""One group in detail, gathered from several answers: members, offsets, lag, distance to deletion.

    log start      committed          log end
        |-------------|------------------|
         to deletion        lag

Lag has two measures: records between the committed offset and the end, and how long the first of them has
been there. The distance to deletion says how many older records have to go before the group loses one, and,
where a topic deletes by age, how long that takes at the least: until the next record to read is older than
`retention.ms`. (Whole segments are deleted, by their newest record, so it may take longer.) A group whose
committed offset lies before the log start has lost records already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ottla.client.admin.admin import Admin
from ottla.client.fetching.plan.partition_reader import ConsumerRecord
from ottla.client.requests.configs import ConfigEntry, ConfigResource, ResourceType
from ottla.client.requests.group_offsets import CommittedOffset
from ottla.client.requests.groups import GroupDescription, MemberDescription
from ottla.client.requests.offsets import ListedOffset, OffsetSpec
from ottla.client.requests.outcomes import succeeded
from ottla.errors import KafkaError
from ottla.model import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """A group in one partition. Fields that no broker answered are None.

    `waiting_ms` is the age of the first record that is not read, `behind_newest_ms` how much older it is than
    the newest.
    """

    topic: str
    partition: int
    committed_offset: int | None
    log_start_offset: int | None
    log_end_offset: int | None
    lag_records: int | None
    waiting_ms: int | None
    behind_newest_ms: int | None
    lost_records: int
    records_to_deletion: int | None
    deletable_in_ms: int | None
    member: MemberDescription | None


@dataclass(frozen=True, slots=True)
class GroupDetails:
    """A group, its members, and where it is in every partition that it has committed or been given."""

    group: GroupDescription
    coordinator_address: str | None
    partitions: tuple[PartitionProgress, ...]


@dataclass(frozen=True, slots=True)
class _Facts:
    """The answers that progress is worked out from."""

    now_ms: int
    committed: Mapping[TopicPartition, int]
    members: Mapping[TopicPartition, MemberDescription]
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    newest_ms: Mapping[TopicPartition, int]
    unread: Mapping[TopicPartition, ConsumerRecord]
    retention_ms: Mapping[str, int]


async def gather_group(admin: Admin, group_id: str, now_ms: int) -> GroupDetails:
    """Ask for everything about a group; raises KafkaError if there is no such group."""
    group = succeeded(await admin.describe_groups([group_id]))[group_id]
    offsets = await admin.list_group_offsets(group_id)
    members = {partition: member for member in group.members for partition in member.assignment}
    committed = {key: each.offset for key, each in offsets.items() if isinstance(each, CommittedOffset)}
    facts = await _gather_facts(admin, committed, members, now_ms)
    brokers = {broker.node_id: broker.address for broker in (await admin.describe_cluster()).brokers}
    address = brokers.get(group.coordinator)
    keys = sorted({*committed, *members})
    return GroupDetails(
        group, None if address is None else str(address), tuple(_progress(key, facts) for key in keys)
    )


def details_as_json(details: GroupDetails) -> dict[str, Any]:
    """The same for programs."""
    group = details.group
    return {
        "group_id": group.group_id,
        "state": group.state,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "coordinator": group.coordinator,
        "coordinator_address": details.coordinator_address,
        "members": [member_as_json(member) for member in group.members],
        "partitions": [_progress_as_json(each) for each in details.partitions],
    }


def member_as_json(member: MemberDescription) -> dict[str, Any]:
    """A member with its partitions by topic."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(member.assignment):
        topics.setdefault(topic, []).append(partition)
    return {**asdict(member), "assignment": topics}


async def _gather_facts(
    admin: Admin,
    committed: Mapping[TopicPartition, int],
    members: Mapping[TopicPartition, MemberDescription],
    now_ms: int,
) -> _Facts:
    keys = {*committed, *members}
    starts = _offsets(await admin.list_offsets(dict.fromkeys(keys, int(OffsetSpec.EARLIEST))))
    ends = _offsets(await admin.list_offsets(dict.fromkeys(keys, int(OffsetSpec.LATEST))))
    behind = {
        key: max(offset, starts[key])  # a group that lost records goes on where the log starts, if it can
        for key, offset in committed.items()
        if key in starts and max(offset, starts[key]) < ends.get(key, 0)
    }
    newest = await admin.list_offsets(dict.fromkeys(behind, int(OffsetSpec.MAX_TIMESTAMP)))
    unread = await admin.peek(behind)
    return _Facts(
        now_ms=now_ms,
        committed=committed,
        members=members,
        starts=starts,
        ends=ends,
        newest_ms={k: each.timestamp_ms for k, each in newest.items() if isinstance(each, ListedOffset)},
        unread={key: each for key, each in unread.items() if isinstance(each, ConsumerRecord)},
        retention_ms=await _retention(admin, {key.topic for key in behind}),
    )


def _offsets(listed: Mapping[TopicPartition, ListedOffset | KafkaError]) -> dict[TopicPartition, int]:
    return {key: each.offset for key, each in listed.items() if isinstance(each, ListedOffset)}


async def _retention(admin: Admin, topics: Iterable[str]) -> dict[str, int]:
    """How long records of topics are kept that are deleted by age."""
    described = await admin.describe_configs(ConfigResource(ResourceType.TOPIC, name) for name in topics)
    found: dict[str, int] = {}
    for resource, entries in described.items():
        if isinstance(entries, KafkaError):
            continue
        retention_ms = int(_value(entries, "retention.ms") or -1)
        if retention_ms >= 0 and "delete" in _value(entries, "cleanup.policy"):
            found[resource.name] = retention_ms
    return found


def _value(entries: Mapping[str, ConfigEntry], name: str) -> str:
    entry = entries.get(name)
    return (entry.value or "") if entry is not None else ""


def _progress(key: TopicPartition, facts: _Facts) -> PartitionProgress:
    committed, start, end = facts.committed.get(key), facts.starts.get(key), facts.ends.get(key)
    unread = facts.unread.get(key)
    newest_ms = facts.newest_ms.get(key, -1)
    waiting_ms = behind_newest_ms = deletable_in_ms = None
    if unread is not None:
        waiting_ms = max(0, facts.now_ms - unread.timestamp_ms)
        behind_newest_ms = max(0, newest_ms - unread.timestamp_ms) if newest_ms >= 0 else None
        if key.topic in facts.retention_ms:
            deletable_in_ms = max(0, facts.retention_ms[key.topic] - waiting_ms)
    elif committed is not None and end is not None and committed >= end:
        waiting_ms = behind_newest_ms = 0
    distance = None if committed is None or start is None else committed - start
    return PartitionProgress(
        topic=key.topic,
        partition=key.partition,
        committed_offset=committed,
        log_start_offset=start,
        log_end_offset=end,
        lag_records=None if committed is None or end is None else max(0, end - committed),
        waiting_ms=waiting_ms,
        behind_newest_ms=behind_newest_ms,
        lost_records=max(0, -(distance or 0)),
        records_to_deletion=None if distance is None else max(0, distance),
        deletable_in_ms=deletable_in_ms,
        member=facts.members.get(key),
    )


def _progress_as_json(progress: PartitionProgress) -> dict[str, Any]:
    member = progress.member
    return {
        **{name: value for name, value in asdict(progress).items() if name != "member"},
        "lag_seconds": None if progress.waiting_ms is None else progress.waiting_ms / 1000,
        "member_id": None if member is None else member.member_id,
        "client_id": None if member is None else member.client_id,
        "client_host": None if member is None else member.client_host,
    }
