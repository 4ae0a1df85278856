"""Produce (key 0), versions 3 to 13.

KIP-98 transactional ids (v3), KIP-112 disk errors (v4), KIP-207 log start offset (v5), KIP-110 zstd (v7),
KIP-467 errors of single records (v8), KIP-482 flexible versions (v9), KIP-951 the new leader in the answer
(v10), KIP-890 transactions V2 (v11, v12), KIP-516 topic ids instead of names (v13). Versions 0 to 2 carried
the record formats that Kafka 4 removed (KIP-896).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from ottla.protocol.codec import (
    ZERO_UUID,
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

# The version in which a client may send, and must be ready to read, batches compressed with zstd.
ZSTD_SINCE: Final = 7


@struct
class PartitionProduceData:
    index: Int32 = 0
    records: Records | None = None


@struct
class TopicProduceData:
    name: Annotated[String, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partition_data: list[PartitionProduceData] = field(default_factory=list)


@message(key=0, versions=(3, 13), flexible=9)
class ProduceRequest:
    transactional_id: String | None = None
    acks: Int16 = 0  # 0 none, 1 the leader, -1 the full in-sync set
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = field(default_factory=list)


@struct
class BatchIndexAndErrorMessage:
    batch_index: Int32 = 0
    batch_index_error_message: String | None = None


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@struct
class PartitionProduceResponse:
    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = -1
    log_start_offset: Annotated[Int64, since(5)] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], since(8)] = field(default_factory=list)
    error_message: Annotated[String | None, since(8)] = None
    current_leader: Annotated[LeaderIdAndEpoch, tag(0, since=10)] = field(default_factory=LeaderIdAndEpoch)


@struct
class TopicProduceResponse:
    name: Annotated[String, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partition_responses: list[PartitionProduceResponse] = field(default_factory=list)


@struct
class NodeEndpoint:
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


@message(key=0, versions=(3, 13), flexible=9)
class ProduceResponse:
    responses: list[TopicProduceResponse] = field(default_factory=list)
    throttle_time_ms: Int32 = 0
    node_endpoints: Annotated[list[NodeEndpoint], tag(0, since=10)] = field(default_factory=list)
