"""A group's committed offsets: commit, fetch and delete them, for consumers and for administrators.

Topics go by their names here: version 10, which has ids instead, would need a table of all topics to say which ones a
group has offsets of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.requests.member_requests import Membership
from ottla.client.requests.outcomes import error_of, outcome
from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_OFFSET, TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import first_version
from ottla.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.connection import Connection

_LAST_VERSION_BY_NAME: Final = 9
_SEVERAL_GROUPS_SINCE: Final = first_version(OffsetFetchRequest, "groups")


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """Where a group goes on reading a partition, and a note that was left there."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


CommittedOffsets = dict[TopicPartition, CommittedOffset | KafkaError]


async def commit_offsets(
    coordinator: Connection,
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    *,
    membership: Membership | None = None,
    group_instance_id: str | None = None,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, KafkaError | None]:
    """Commit as a member, or, without a membership, to a group that has no members."""
    membership = membership or Membership()
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=membership.generation_id,
        member_id=membership.member_id,
        group_instance_id=group_instance_id,
        topics=_commit_topics(offsets),
    )
    version = coordinator.common_version(ApiKey.OFFSET_COMMIT, at_most=_LAST_VERSION_BY_NAME)
    response: OffsetCommitResponse = await coordinator.ask(request, version, timeout_ms=timeout_ms)
    return {
        TopicPartition(topic.name, each.partition_index): outcome(
            each.error_code, None, _why_refused(each.error_code, group_id, membership)
        )
        for topic in response.topics
        for each in topic.partitions
    }


async def fetch_offsets(
    coordinator: Connection,
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    *,
    require_stable: bool = False,
    timeout_ms: int | None = None,
) -> CommittedOffsets | KafkaError:
    """The committed offsets of these partitions, or of all there are (None); those without a commit are left out."""
    version = coordinator.common_version(ApiKey.OFFSET_FETCH, at_most=_LAST_VERSION_BY_NAME)
    wanted = None if partitions is None else _by_topic(partitions)
    request = _fetch_request(version, group_id, wanted, require_stable)
    response: OffsetFetchResponse = await coordinator.ask(request, version, timeout_ms=timeout_ms)
    answer: Any = response.groups[0] if response.groups else response
    if answer.error_code != ErrorCode.NONE:
        return error_of(answer.error_code)
    return {
        TopicPartition(topic.name, each.partition_index): outcome(
            each.error_code,
            CommittedOffset(each.committed_offset, each.committed_leader_epoch, each.metadata or ""),
        )
        for topic in answer.topics
        for each in topic.partitions
        if each.committed_offset != NO_OFFSET or each.error_code != ErrorCode.NONE
    }


def delete_offsets_request(group_id: str, partitions: Iterable[TopicPartition]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(each) for each in indexes])
            for topic, indexes in _by_topic(partitions).items()
        ],
    )


def deleted_offsets(
    response: OffsetDeleteResponse, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, KafkaError | None]:
    if response.error_code != ErrorCode.NONE:
        error = error_of(response.error_code)
        return dict.fromkeys(partitions, error)
    return {
        TopicPartition(topic.name, each.partition_index): outcome(each.error_code, None)
        for topic in response.topics
        for each in topic.partitions
    }


def _why_refused(code: int, group_id: str, membership: Membership) -> str | None:
    """Who is no member is refused by a group that has some: our words, the broker's code."""
    is_stranger = code == ErrorCode.UNKNOWN_MEMBER_ID and not membership.member_id
    return f'the group "{group_id}" has members, and only they can commit' if is_stranger else None


def _commit_topics(offsets: Mapping[TopicPartition, CommittedOffset]) -> list[OffsetCommitRequestTopic]:
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (topic, partition), committed in offsets.items():
        partitions = topics.setdefault(topic, OffsetCommitRequestTopic(name=topic)).partitions
        partitions.append(
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return list(topics.values())


def _fetch_request(
    version: int, group_id: str, wanted: Mapping[str, list[int]] | None, require_stable: bool
) -> OffsetFetchRequest:
    if version < _SEVERAL_GROUPS_SINCE:
        old = None if wanted is None else [OffsetFetchRequestTopic(*each) for each in wanted.items()]
        return OffsetFetchRequest(group_id=group_id, topics=old, require_stable=require_stable)
    topics = (
        None
        if wanted is None
        else [OffsetFetchRequestTopics(name=name, partition_indexes=each) for name, each in wanted.items()]
    )
    group = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
    return OffsetFetchRequest(groups=[group], require_stable=require_stable)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics
