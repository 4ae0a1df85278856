"""Descriptions of a cluster: DescribeLogDirs (key 35, versions 1 to 5), DescribeCluster (60, 0 to 2),
DescribeTopicPartitions (75, version 0).

DescribeLogDirs: KIP-113, KIP-482 flexible (v2), KIP-784 an error for the whole answer (v3), KIP-827 sizes of
the volume (v4), KIP-1066 cordoned directories (v5). DescribeCluster: KIP-700, KIP-919 endpoint types (v1),
KIP-1073 fenced brokers (v2). DescribeTopicPartitions: KIP-966, with a cursor so that no answer grows without
bound.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

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
    since,
    struct,
)
from ottla.protocol.messages.metadata import NO_AUTHORIZED_OPERATIONS


@struct
class DescribableLogDirTopic:
    topic: String = ""
    partitions: list[Int32] = field(default_factory=list)


@message(key=35, versions=(1, 5), flexible=2)
class DescribeLogDirsRequest:
    topics: list[DescribableLogDirTopic] | None = field(default_factory=list)  # null: all of them


@struct
class DescribeLogDirsPartition:
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Boolean = False


@struct
class DescribeLogDirsTopic:
    name: String = ""
    partitions: list[DescribeLogDirsPartition] = field(default_factory=list)


@struct
class DescribeLogDirsResult:
    error_code: Int16 = 0
    log_dir: String = ""
    topics: list[DescribeLogDirsTopic] = field(default_factory=list)
    total_bytes: Annotated[Int64, since(4)] = -1
    usable_bytes: Annotated[Int64, since(4)] = -1
    is_cordoned: Annotated[Boolean, since(5)] = False


@message(key=35, versions=(1, 5), flexible=2)
class DescribeLogDirsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(3)] = 0
    results: list[DescribeLogDirsResult] = field(default_factory=list)


@message(key=60, versions=(0, 2), flexible=0)
class DescribeClusterRequest:
    include_cluster_authorized_operations: Boolean = False
    endpoint_type: Annotated[Int8, since(1)] = 1  # 1 brokers, 2 controllers
    include_fenced_brokers: Annotated[Boolean, since(2)] = False


@struct
class DescribeClusterBroker:
    broker_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None
    is_fenced: Annotated[Boolean, since(2)] = False


@message(key=60, versions=(0, 2), flexible=0)
class DescribeClusterResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    endpoint_type: Annotated[Int8, since(1)] = 1
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker] = field(default_factory=list)
    cluster_authorized_operations: Int32 = NO_AUTHORIZED_OPERATIONS


@struct
class TopicRequest:
    name: String = ""


@struct
class Cursor:
    topic_name: String = ""
    partition_index: Int32 = 0


@message(key=75, versions=(0, 0), flexible=0)
class DescribeTopicPartitionsRequest:
    topics: list[TopicRequest] = field(default_factory=list)
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32] = field(default_factory=list)
    isr_nodes: list[Int32] = field(default_factory=list)
    eligible_leader_replicas: list[Int32] | None = None
    last_known_elr: list[Int32] | None = None
    offline_replicas: list[Int32] = field(default_factory=list)


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: Int16 = 0
    name: String | None = ""
    topic_id: Uuid = ZERO_UUID
    is_internal: Boolean = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(default_factory=list)
    topic_authorized_operations: Int32 = NO_AUTHORIZED_OPERATIONS


@message(key=75, versions=(0, 0), flexible=0)
class DescribeTopicPartitionsResponse:
    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = field(default_factory=list)
    next_cursor: Cursor | None = None
