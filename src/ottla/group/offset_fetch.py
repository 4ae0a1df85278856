"""OffsetFetch, versions 1 to 10: reading how far a group has read (GRP-3).

A partition, or a whole group, without an offset is no error: its offset is -1. Null topics mean all that
there are (from version 2 on); from version 8 on one request asks for several groups. A request that requires
stable offsets (KIP-447) gets UNSTABLE_OFFSET_COMMIT for an offset that an open transaction may still change;
clients then try again. The member and its epoch (version 9) are of the new consumer protocol; a classic group
does not look at them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from ottla.errors import ErrorCode
from ottla.group.classic import ClassicGroup
from ottla.model import NO_EPOCH, NO_OFFSET
from ottla.protocol.codec import ZERO_UUID, first_version
from ottla.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_SEVERAL_GROUPS_SINCE: Final = first_version(OffsetFetchRequest, "groups")


def fetch_offsets(
    groups: Mapping[str, ClassicGroup], request: OffsetFetchRequest, version: int
) -> OffsetFetchResponse:
    """How far groups have read, in the named partitions or in all that they have offsets for."""
    asked = request.groups if version >= _SEVERAL_GROUPS_SINCE else [_single_group(request)]
    stable = request.require_stable
    found = [_fetched_group(groups.get(one.group_id), one, require_stable=stable) for one in asked]
    if version >= _SEVERAL_GROUPS_SINCE:
        return OffsetFetchResponse(groups=found)
    return OffsetFetchResponse(topics=[_single_group_topic(topic) for topic in found[0].topics])


def _single_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """A request of the older form, translated to the newer one."""
    topics = request.topics
    if topics is not None:
        named = [OffsetFetchRequestTopics(topic.name, ZERO_UUID, topic.partition_indexes) for topic in topics]
        return OffsetFetchRequestGroup(request.group_id, topics=named)
    return OffsetFetchRequestGroup(request.group_id, topics=None)


def _single_group_topic(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        topic.name,
        [
            OffsetFetchResponsePartition(
                found.partition_index,
                found.committed_offset,
                found.committed_leader_epoch,
                found.metadata,
                found.error_code,
            )
            for found in topic.partitions
        ],
    )


def _fetched_group(
    group: ClassicGroup | None, request: OffsetFetchRequestGroup, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    topics = _all_topics(group) if request.topics is None else request.topics
    found = [
        OffsetFetchResponseTopics(
            topic.name,
            topic.topic_id,
            [
                _fetched(group, topic, partition, require_stable=require_stable)
                for partition in topic.partition_indexes
            ],
        )
        for topic in topics
    ]
    return OffsetFetchResponseGroup(request.group_id, found)


def _all_topics(group: ClassicGroup | None) -> list[OffsetFetchRequestTopics]:
    if group is None:
        return []
    return [
        OffsetFetchRequestTopics(topic, ZERO_UUID, partitions)
        for topic, partitions in group.offsets.topics().items()
    ]


def _fetched(
    group: ClassicGroup | None, topic: OffsetFetchRequestTopics, partition: int, *, require_stable: bool
) -> OffsetFetchResponsePartitions:
    if group is not None and require_stable and group.offsets.is_pending(topic.name, partition):
        return _none(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    value = None if group is None else group.offsets.get(topic.name, partition)
    if value is None or not _same_topic(value.topic_id, topic.topic_id):
        return _none(partition, ErrorCode.NONE)
    return OffsetFetchResponsePartitions(partition, value.offset, value.leader_epoch, value.metadata)


def _same_topic(committed: UUID, asked: UUID) -> bool:
    """Whether an offset belongs to the topic that is meant, and not to a deleted one of the same name."""
    return committed == asked or ZERO_UUID in (committed, asked)


def _none(partition: int, error: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition, NO_OFFSET, NO_EPOCH, "", error)
