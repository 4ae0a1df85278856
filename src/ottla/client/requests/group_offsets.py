"""A group's committed offsets: OffsetCommit, OffsetFetch and OffsetDelete.

Topics are named, not identified: these messages are for versions before 10 (see
`cluster.machine.group_inquiries`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.client.calls import arguments
from ottla.client.requests.membership import Membership
from ottla.client.requests.outcomes import error_of, outcome
from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_EPOCH, NO_OFFSET, TopicPartition
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


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The offset at which a group continues to read a partition, and the metadata of the commit."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


def committable(name: str, place: object) -> CommittedOffset:
    """An offset to commit: a CommittedOffset, or the number alone. Raises TypeError and ValueError."""
    if not isinstance(place, CommittedOffset):
        return CommittedOffset(arguments.offset(name, place))
    arguments.offset(f"{name}.offset", place.offset)
    arguments.whole_number(f"{name}.leader_epoch", place.leader_epoch, NO_EPOCH, arguments.MOST_INT32)
    arguments.text(f"{name}.metadata", place.metadata)
    return place


CommittedOffsets = dict[TopicPartition, CommittedOffset | KafkaError]


def commit_request(
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    membership: Membership,
    group_instance_id: str | None,
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=membership.generation_id,
        member_id=membership.member_id,
        group_instance_id=group_instance_id,
        topics=_commit_topics(offsets),
    )


def commit_results(
    response: OffsetCommitResponse, group_id: str, membership: Membership
) -> dict[TopicPartition, KafkaError | None]:
    """None for each partition whose offset was committed."""
    return {
        TopicPartition(topic.name, each.partition_index): outcome(
            each.error_code, None, _why_refused(each.error_code, group_id, membership)
        )
        for topic in response.topics
        for each in topic.partitions
    }


def fetch_request(
    group_id: str, partitions: Iterable[TopicPartition] | None, *, require_stable: bool
) -> OffsetFetchRequest:
    """Ask for the committed offsets of these partitions, or of all (None).

    The request names the group twice: for versions up to 7, which ask for one group, and for later ones,
    which ask for several.
    """
    wanted = None if partitions is None else _by_topic(partitions)
    old, new = (
        (None, None)
        if wanted is None
        else (
            [OffsetFetchRequestTopic(*each) for each in wanted.items()],
            [OffsetFetchRequestTopics(name=name, partition_indexes=each) for name, each in wanted.items()],
        )
    )
    return OffsetFetchRequest(
        group_id=group_id,
        topics=old,
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=new)],
        require_stable=require_stable,
    )


def committed_offsets(response: OffsetFetchResponse) -> CommittedOffsets | KafkaError:
    """The committed offsets of the one group that was asked for; partitions without one are left out."""
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


def unstable_in(offsets: CommittedOffsets | KafkaError) -> KafkaError | None:
    """The error of the first partition whose offset an open transaction may change; None if there is none."""
    outcomes = () if isinstance(offsets, KafkaError) else offsets.values()
    errors = (each for each in outcomes if isinstance(each, KafkaError))
    return next((each for each in errors if each.code == ErrorCode.UNSTABLE_OFFSET_COMMIT), None)


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
    """A message for a commit without membership to a group with members: brokers send only the code."""
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


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics
