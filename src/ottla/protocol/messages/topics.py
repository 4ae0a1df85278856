"""Changes of topics: CreateTopics (key 19, versions 2 to 7), DeleteTopics (20, 1 to 6), DeleteRecords (21, 0
to 2), CreatePartitions (37, 0 to 3).

CreateTopics: KIP-4, KIP-464 the broker's defaults for -1 (v4), KIP-482 flexible and KIP-525 configs in the
answer (v5), KIP-599 throttling (v6), KIP-516 topic ids (v7). DeleteTopics: KIP-4, flexible (v4), KIP-599
(v5), by id (v6). DeleteRecords: KIP-107, flexible (v2). CreatePartitions: KIP-195, flexible (v2), KIP-599
(v3).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from ottla.protocol.codec import (
    ZERO_UUID,
    Boolean,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    Uuid,
    message,
    nullable_since,
    since,
    struct,
    tag,
    until,
)


@struct
class CreatableReplicaAssignment:
    partition_index: Int32 = 0
    broker_ids: list[Int32] = field(default_factory=list)


@struct
class CreatableTopicConfig:
    name: String = ""
    value: String | None = ""


@struct
class CreatableTopic:
    name: String = ""
    num_partitions: Int32 = 0  # -1: the broker's default, or as assigned
    replication_factor: Int16 = 0  # likewise
    assignments: list[CreatableReplicaAssignment] = field(default_factory=list)
    configs: list[CreatableTopicConfig] = field(default_factory=list)


@message(key=19, versions=(2, 7), flexible=5)
class CreateTopicsRequest:
    topics: list[CreatableTopic] = field(default_factory=list)
    timeout_ms: Int32 = 60000
    validate_only: Boolean = False


@struct
class CreatableTopicConfigs:
    name: String = ""
    value: String | None = ""
    read_only: Boolean = False
    config_source: Int8 = -1
    is_sensitive: Boolean = False


@struct
class CreatableTopicResult:
    name: String = ""
    topic_id: Annotated[Uuid, since(7)] = ZERO_UUID
    error_code: Int16 = 0
    error_message: String | None = ""
    topic_config_error_code: Annotated[Int16, tag(0, since=5)] = 0
    num_partitions: Annotated[Int32, since(5)] = -1
    replication_factor: Annotated[Int16, since(5)] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, since(5)] = field(default_factory=list)


@message(key=19, versions=(2, 7), flexible=5)
class CreateTopicsResponse:
    throttle_time_ms: Int32 = 0
    topics: list[CreatableTopicResult] = field(default_factory=list)


@struct
class DeleteTopicState:
    name: String | None = None
    topic_id: Uuid = ZERO_UUID


@message(key=20, versions=(1, 6), flexible=4)
class DeleteTopicsRequest:
    topics: Annotated[list[DeleteTopicState], since(6)] = field(default_factory=list)
    topic_names: Annotated[list[String], until(5)] = field(default_factory=list)
    timeout_ms: Int32 = 0


@struct
class DeletableTopicResult:
    name: Annotated[String | None, nullable_since(6)] = ""
    topic_id: Annotated[Uuid, since(6)] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[String | None, since(5)] = None


@message(key=20, versions=(1, 6), flexible=4)
class DeleteTopicsResponse:
    throttle_time_ms: Int32 = 0
    responses: list[DeletableTopicResult] = field(default_factory=list)


# As an offset to delete up to: everything that consumers can see.
HIGH_WATERMARK: Final = -1


@struct
class DeleteRecordsPartition:
    partition_index: Int32 = 0
    offset: Int64 = 0  # -1: up to the high watermark


@struct
class DeleteRecordsTopic:
    name: String = ""
    partitions: list[DeleteRecordsPartition] = field(default_factory=list)


@message(key=21, versions=(0, 2), flexible=2)
class DeleteRecordsRequest:
    topics: list[DeleteRecordsTopic] = field(default_factory=list)
    timeout_ms: Int32 = 0


@struct
class DeleteRecordsPartitionResult:
    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


@struct
class DeleteRecordsTopicResult:
    name: String = ""
    partitions: list[DeleteRecordsPartitionResult] = field(default_factory=list)


@message(key=21, versions=(0, 2), flexible=2)
class DeleteRecordsResponse:
    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult] = field(default_factory=list)


@struct
class CreatePartitionsAssignment:
    broker_ids: list[Int32] = field(default_factory=list)


@struct
class CreatePartitionsTopic:
    name: String = ""
    count: Int32 = 0  # how many there shall be, not how many more
    assignments: list[CreatePartitionsAssignment] | None = field(default_factory=list)


@message(key=37, versions=(0, 3), flexible=2)
class CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic] = field(default_factory=list)
    timeout_ms: Int32 = 0
    validate_only: Boolean = False


@struct
class CreatePartitionsTopicResult:
    name: String = ""
    error_code: Int16 = 0
    error_message: String | None = None


@message(key=37, versions=(0, 3), flexible=2)
class CreatePartitionsResponse:
    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = field(default_factory=list)
