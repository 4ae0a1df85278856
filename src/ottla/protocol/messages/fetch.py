"""Fetch (key 1), versions 4 to 18.

KIP-98 isolation level (v4), KIP-107 log start offset (v5), KIP-227 incremental sessions (v7), KIP-320 leader
epochs (v9), KIP-110 zstd (v10), KIP-392 fetch from the nearest replica (v11), KIP-482 flexible versions and
KIP-595 diverging epochs (v12), KIP-516 topic ids instead of names (v13), KIP-405 tiered storage (v14),
KIP-903 replica state (v15), KIP-951 the new leader in the answer (v16), KIP-853 replica directories (v17),
KIP-1166 the follower's high watermark (v18). Versions 0 to 3 carried the record formats that Kafka 4 removed
(KIP-896).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from ottla.protocol.codec import (
    ZERO_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    Uuid,
    message,
    since,
    struct,
    tag,
    until,
)


@struct
class ReplicaState:
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


@struct
class FetchPartition:
    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, since(9)] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, since(12)] = -1
    log_start_offset: Annotated[Int64, since(5)] = -1
    partition_max_bytes: Int32 = 0
    replica_directory_id: Annotated[Uuid, tag(0, since=17)] = ZERO_UUID
    high_watermark: Annotated[Int64, tag(1, since=18)] = 0x7FFF_FFFF_FFFF_FFFF


@struct
class FetchTopic:
    topic: Annotated[String, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partitions: list[FetchPartition] = field(default_factory=list)


@struct
class ForgottenTopic:
    topic: Annotated[String, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partitions: list[Int32] = field(default_factory=list)


@message(key=1, versions=(4, 18), flexible=12)
class FetchRequest:
    cluster_id: Annotated[String | None, tag(0, since=12)] = None
    replica_id: Annotated[Int32, until(14)] = -1
    replica_state: Annotated[ReplicaState, tag(1, since=15)] = field(default_factory=ReplicaState)
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 0x7FFF_FFFF
    isolation_level: Int8 = 0  # 0 read uncommitted, 1 read committed
    session_id: Annotated[Int32, since(7)] = 0
    session_epoch: Annotated[Int32, since(7)] = -1
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: Annotated[list[ForgottenTopic], since(7)] = field(default_factory=list)
    rack_id: Annotated[String, since(11)] = ""


@struct
class EpochEndOffset:
    epoch: Int32 = -1
    end_offset: Int64 = -1


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@struct
class SnapshotId:
    end_offset: Int64 = -1
    epoch: Int32 = -1


@struct
class AbortedTransaction:
    producer_id: Int64 = 0
    first_offset: Int64 = 0


@struct
class PartitionData:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Annotated[Int64, since(5)] = -1
    diverging_epoch: Annotated[EpochEndOffset, tag(0, since=12)] = field(default_factory=EpochEndOffset)
    current_leader: Annotated[LeaderIdAndEpoch, tag(1, since=12)] = field(default_factory=LeaderIdAndEpoch)
    snapshot_id: Annotated[SnapshotId, tag(2, since=12)] = field(default_factory=SnapshotId)
    aborted_transactions: list[AbortedTransaction] | None = field(default_factory=list)
    preferred_read_replica: Annotated[Int32, since(11)] = -1
    records: Records | None = None


@struct
class FetchableTopicResponse:
    topic: Annotated[String, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@struct
class NodeEndpoint:
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


@message(key=1, versions=(4, 18), flexible=12)
class FetchResponse:
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(7)] = 0
    session_id: Annotated[Int32, since(7)] = 0
    responses: list[FetchableTopicResponse] = field(default_factory=list)
    node_endpoints: Annotated[list[NodeEndpoint], tag(0, since=16)] = field(default_factory=list)
