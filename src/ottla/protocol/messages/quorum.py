"""The requests between the voters of the metadata quorum, and the questions that any client may ask about it.

Vote (key 52), versions 0 to 2: KIP-595, replica directories (v1, KIP-853), pre-votes (v2, KIP-996).
BeginQuorumEpoch (53) and EndQuorumEpoch (54), versions 0 to 1: KIP-595, replica directories and endpoints
(v1, KIP-853). DescribeQuorum (55), versions 0 to 2: KIP-642 times of fetches (v1, KIP-836), directories,
listeners and messages (v2, KIP-853). FetchSnapshot (59), versions 0 to 1: KIP-630, replica directories (v1,
KIP-853). Records are fetched with Fetch, as everywhere.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from ottla.protocol.codec import (
    ZERO_UUID,
    Boolean,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    UInt16,
    Uuid,
    message,
    nullable_since,
    since,
    struct,
    tag,
    until,
)


@struct
class NodeEndpoint:
    node_id: Int32 = 0
    host: String = ""
    port: UInt16 = 0


@struct
class LeaderEndpoint:
    name: String = ""
    host: String = ""
    port: UInt16 = 0


# ---- Vote


@struct
class VotePartitionData:
    partition_index: Int32 = 0
    replica_epoch: Int32 = 0
    replica_id: Int32 = 0
    replica_directory_id: Annotated[Uuid, since(1)] = ZERO_UUID
    voter_directory_id: Annotated[Uuid, since(1)] = ZERO_UUID
    last_offset_epoch: Int32 = 0
    last_offset: Int64 = 0  # the log end offset
    pre_vote: Annotated[Boolean, since(2)] = False


@struct
class VoteTopicData:
    topic_name: String = ""
    partitions: list[VotePartitionData] = field(default_factory=list)


@message(key=52, versions=(0, 2), flexible=0)
class VoteRequest:
    cluster_id: String | None = None
    voter_id: Annotated[Int32, since(1)] = -1
    topics: list[VoteTopicData] = field(default_factory=list)


@struct
class VoteResponsePartitionData:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    vote_granted: Boolean = False


@struct
class VoteResponseTopicData:
    topic_name: String = ""
    partitions: list[VoteResponsePartitionData] = field(default_factory=list)


@message(key=52, versions=(0, 2), flexible=0)
class VoteResponse:
    error_code: Int16 = 0
    topics: list[VoteResponseTopicData] = field(default_factory=list)
    node_endpoints: Annotated[list[NodeEndpoint], tag(0, since=1)] = field(default_factory=list)


# ---- BeginQuorumEpoch


@struct
class BeginQuorumEpochPartitionData:
    partition_index: Int32 = 0
    voter_directory_id: Annotated[Uuid, since(1)] = ZERO_UUID
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class BeginQuorumEpochTopicData:
    topic_name: String = ""
    partitions: list[BeginQuorumEpochPartitionData] = field(default_factory=list)


@message(key=53, versions=(0, 1), flexible=1)
class BeginQuorumEpochRequest:
    cluster_id: String | None = None
    voter_id: Annotated[Int32, since(1)] = -1
    topics: list[BeginQuorumEpochTopicData] = field(default_factory=list)
    leader_endpoints: Annotated[list[LeaderEndpoint], since(1)] = field(default_factory=list)


@struct
class QuorumEpochPartitionData:
    """The same in the answers to both ends of an epoch."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class QuorumEpochTopicData:
    topic_name: String = ""
    partitions: list[QuorumEpochPartitionData] = field(default_factory=list)


@message(key=53, versions=(0, 1), flexible=1)
class BeginQuorumEpochResponse:
    error_code: Int16 = 0
    topics: list[QuorumEpochTopicData] = field(default_factory=list)
    node_endpoints: Annotated[list[NodeEndpoint], tag(0, since=1)] = field(default_factory=list)


# ---- EndQuorumEpoch


@struct
class ReplicaInfo:
    candidate_id: Int32 = 0
    candidate_directory_id: Uuid = ZERO_UUID


@struct
class EndQuorumEpochPartitionData:
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    preferred_successors: Annotated[list[Int32], until(0)] = field(default_factory=list)
    preferred_candidates: Annotated[list[ReplicaInfo], since(1)] = field(default_factory=list)


@struct
class EndQuorumEpochTopicData:
    topic_name: String = ""
    partitions: list[EndQuorumEpochPartitionData] = field(default_factory=list)


@message(key=54, versions=(0, 1), flexible=1)
class EndQuorumEpochRequest:
    cluster_id: String | None = None
    topics: list[EndQuorumEpochTopicData] = field(default_factory=list)
    leader_endpoints: Annotated[list[LeaderEndpoint], since(1)] = field(default_factory=list)


@message(key=54, versions=(0, 1), flexible=1)
class EndQuorumEpochResponse:
    error_code: Int16 = 0
    topics: list[QuorumEpochTopicData] = field(default_factory=list)
    node_endpoints: Annotated[list[NodeEndpoint], tag(0, since=1)] = field(default_factory=list)


# ---- DescribeQuorum


@struct
class DescribeQuorumPartitionData:
    partition_index: Int32 = 0


@struct
class DescribeQuorumTopicData:
    topic_name: String = ""
    partitions: list[DescribeQuorumPartitionData] = field(default_factory=list)


@message(key=55, versions=(0, 2), flexible=0)
class DescribeQuorumRequest:
    topics: list[DescribeQuorumTopicData] = field(default_factory=list)


@struct
class ReplicaState:
    replica_id: Int32 = 0
    replica_directory_id: Annotated[Uuid, since(2)] = ZERO_UUID
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Annotated[Int64, since(1)] = -1
    last_caught_up_timestamp: Annotated[Int64, since(1)] = -1


@struct
class DescribeQuorumResponsePartitionData:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[String | None, since(2)] = ""
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: list[ReplicaState] = field(default_factory=list)
    observers: list[ReplicaState] = field(default_factory=list)


@struct
class DescribeQuorumResponseTopicData:
    topic_name: String = ""
    partitions: list[DescribeQuorumResponsePartitionData] = field(default_factory=list)


@struct
class QuorumListener:
    name: String = ""
    host: String = ""
    port: UInt16 = 0


@struct
class QuorumNode:
    node_id: Int32 = 0
    listeners: list[QuorumListener] = field(default_factory=list)


@message(key=55, versions=(0, 2), flexible=0)
class DescribeQuorumResponse:
    error_code: Int16 = 0
    error_message: Annotated[String | None, since(2)] = ""
    topics: list[DescribeQuorumResponseTopicData] = field(default_factory=list)
    nodes: Annotated[list[QuorumNode], since(2)] = field(default_factory=list)


# ---- FetchSnapshot


@struct
class SnapshotId:
    end_offset: Int64 = 0
    epoch: Int32 = 0


@struct
class PartitionSnapshot:
    partition: Int32 = 0
    current_leader_epoch: Int32 = 0
    snapshot_id: SnapshotId = field(default_factory=SnapshotId)
    position: Int64 = 0
    replica_directory_id: Annotated[Uuid, tag(0, since=1)] = ZERO_UUID


@struct
class TopicSnapshot:
    name: String = ""
    partitions: list[PartitionSnapshot] = field(default_factory=list)


@message(key=59, versions=(0, 1), flexible=0)
class FetchSnapshotRequest:
    cluster_id: Annotated[String | None, tag(0, since=0)] = None
    replica_id: Int32 = -1
    max_bytes: Int32 = 0x7FFF_FFFF
    topics: list[TopicSnapshot] = field(default_factory=list)


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class FetchSnapshotResponsePartitionSnapshot:
    index: Int32 = 0
    error_code: Int16 = 0
    snapshot_id: SnapshotId = field(default_factory=SnapshotId)
    current_leader: Annotated[LeaderIdAndEpoch, tag(0, since=0)] = field(default_factory=LeaderIdAndEpoch)
    size: Int64 = 0
    position: Int64 = 0
    # Kafka's default is null, which no version can carry: whoever answers puts bytes in, if only none.
    unaligned_records: Annotated[Records | None, nullable_since(2)] = None


@struct
class FetchSnapshotResponseTopicSnapshot:
    name: String = ""
    partitions: list[FetchSnapshotResponsePartitionSnapshot] = field(default_factory=list)


@message(key=59, versions=(0, 1), flexible=0)
class FetchSnapshotResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: list[FetchSnapshotResponseTopicSnapshot] = field(default_factory=list)
    node_endpoints: Annotated[list[NodeEndpoint], tag(0, since=1)] = field(default_factory=list)
