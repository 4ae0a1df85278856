"""A group's offsets: OffsetCommit (key 8, versions 2 to 10), OffsetFetch (9, 1 to 10), OffsetDelete (47, 0).

OffsetCommit: KIP-211 no retention time of its own (v5), KIP-320 leader epochs (v6), KIP-345 static members
(v7), KIP-482 flexible versions (v8), KIP-848 member epochs (v9), KIP-848 topic ids (v10). OffsetFetch: all
topics by null (v2), KIP-320 leader epochs (v5), flexible (v6), KIP-447 only stable offsets (v7), KIP-709
several groups at once (v8), KIP-848 (v9, v10). OffsetDelete: KIP-496.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from ottla.protocol.codec import (
    ZERO_UUID,
    Boolean,
    Int16,
    Int32,
    Int64,
    String,
    Uuid,
    between,
    message,
    nullable_since,
    since,
    struct,
    until,
)

# The version of OffsetCommit whose clients know GROUP_ID_NOT_FOUND; older ones get ILLEGAL_GENERATION.
GROUP_ID_NOT_FOUND_SINCE: Final = 9


@struct
class OffsetCommitRequestPartition:
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, since(6)] = -1
    committed_metadata: String | None = ""


@struct
class OffsetCommitRequestTopic:
    name: Annotated[String, until(9)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partitions: list[OffsetCommitRequestPartition] = field(default_factory=list)


@message(key=8, versions=(2, 10), flexible=8)
class OffsetCommitRequest:
    group_id: String = ""
    generation_id_or_member_epoch: Int32 = -1  # below 0: a commit without membership
    member_id: String = ""
    group_instance_id: Annotated[String | None, since(7)] = None
    retention_time_ms: Annotated[Int64, between(2, 4)] = -1
    topics: list[OffsetCommitRequestTopic] = field(default_factory=list)


@struct
class OffsetCommitResponsePartition:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class OffsetCommitResponseTopic:
    name: Annotated[String, until(9)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partitions: list[OffsetCommitResponsePartition] = field(default_factory=list)


@message(key=8, versions=(2, 10), flexible=8)
class OffsetCommitResponse:
    throttle_time_ms: Annotated[Int32, since(3)] = 0
    topics: list[OffsetCommitResponseTopic] = field(default_factory=list)


@struct
class OffsetFetchRequestTopic:
    name: String = ""
    partition_indexes: list[Int32] = field(default_factory=list)


@struct
class OffsetFetchRequestTopics:
    name: Annotated[String, between(8, 9)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partition_indexes: list[Int32] = field(default_factory=list)


@struct
class OffsetFetchRequestGroup:
    group_id: String = ""
    member_id: Annotated[String | None, since(9)] = None
    member_epoch: Annotated[Int32, since(9)] = -1
    topics: list[OffsetFetchRequestTopics] | None = field(default_factory=list)  # None: all there are


@message(key=9, versions=(1, 10), flexible=6)
class OffsetFetchRequest:
    group_id: Annotated[String, until(7)] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, until(7), nullable_since(2)] = field(
        default_factory=list
    )
    groups: Annotated[list[OffsetFetchRequestGroup], since(8)] = field(default_factory=list)
    require_stable: Annotated[Boolean, since(7)] = False


@struct
class OffsetFetchResponsePartition:
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, since(5)] = -1
    metadata: String | None = ""
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopic:
    name: String = ""
    partitions: list[OffsetFetchResponsePartition] = field(default_factory=list)


@struct
class OffsetFetchResponsePartitions:
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = -1
    metadata: String | None = ""
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopics:
    name: Annotated[String, between(8, 9)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partitions: list[OffsetFetchResponsePartitions] = field(default_factory=list)


@struct
class OffsetFetchResponseGroup:
    group_id: String = ""
    topics: list[OffsetFetchResponseTopics] = field(default_factory=list)
    error_code: Int16 = 0


@message(key=9, versions=(1, 10), flexible=6)
class OffsetFetchResponse:
    throttle_time_ms: Annotated[Int32, since(3)] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], until(7)] = field(default_factory=list)
    error_code: Annotated[Int16, between(2, 7)] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], since(8)] = field(default_factory=list)


@struct
class OffsetDeleteRequestPartition:
    partition_index: Int32 = 0


@struct
class OffsetDeleteRequestTopic:
    name: String = ""
    partitions: list[OffsetDeleteRequestPartition] = field(default_factory=list)


@message(key=47, versions=(0, 0), flexible=None)
class OffsetDeleteRequest:
    group_id: String = ""
    topics: list[OffsetDeleteRequestTopic] = field(default_factory=list)


@struct
class OffsetDeleteResponsePartition:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class OffsetDeleteResponseTopic:
    name: String = ""
    partitions: list[OffsetDeleteResponsePartition] = field(default_factory=list)


@message(key=47, versions=(0, 0), flexible=None)
class OffsetDeleteResponse:
    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic] = field(default_factory=list)
