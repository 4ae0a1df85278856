"""Requests that change the replicas of a partition and its leader.

AlterPartition (key 56), versions 2 to 3: a leader to the controller, KIP-497, topic ids (v2, KIP-841), broker
epochs of the members (v3, KIP-903). ElectLeaders (43), versions 0 to 2: KIP-183 preferred leaders, unclean
elections (v1, KIP-460), flexible (v2) with a field of ours. AlterPartitionReassignments (45), versions 0 to 1, and
ListPartitionReassignments (46), version 0: KIP-455; a replication factor that must not change (v1, KIP-860).
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
    since,
    struct,
    tag,
    until,
)

# ---- AlterPartition


@struct
class BrokerState:
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1  # -1: not known, not checked


@struct
class AlterPartitionPartitionData:
    partition_index: Int32 = 0
    leader_epoch: Int32 = 0
    new_isr: Annotated[list[Int32], until(2)] = field(default_factory=list)
    new_isr_with_epochs: Annotated[list[BrokerState], since(3)] = field(default_factory=list)
    leader_recovery_state: Int8 = 0
    partition_epoch: Int32 = 0


@struct
class AlterPartitionTopicData:
    topic_id: Uuid = ZERO_UUID
    partitions: list[AlterPartitionPartitionData] = field(default_factory=list)


@message(key=56, versions=(2, 3), flexible=0)
class AlterPartitionRequest:
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    topics: list[AlterPartitionTopicData] = field(default_factory=list)


@struct
class AlterPartitionResponsePartitionData:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    isr: list[Int32] = field(default_factory=list)
    leader_recovery_state: Int8 = 0
    partition_epoch: Int32 = 0


@struct
class AlterPartitionResponseTopicData:
    topic_id: Uuid = ZERO_UUID
    partitions: list[AlterPartitionResponsePartitionData] = field(default_factory=list)


@message(key=56, versions=(2, 3), flexible=0)
class AlterPartitionResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: list[AlterPartitionResponseTopicData] = field(default_factory=list)


# ---- ElectLeaders

# An election type of Ottla alone: the replica that the request names, at the price of what only others hold.
DESIGNATED_ELECTION: Final = 100
DESIGNATED_ELECTION_SINCE: Final = 2


@struct
class TopicPartitions:
    topic: String = ""
    partitions: list[Int32] = field(default_factory=list)


@message(key=43, versions=(0, 2), flexible=2)
class ElectLeadersRequest:
    election_type: Annotated[Int8, since(1)] = 0  # 0 preferred, 1 unclean, DESIGNATED_ELECTION
    topic_partitions: list[TopicPartitions] | None = field(default_factory=list)  # None: all there are
    timeout_ms: Int32 = 60000
    ottla_leader: Annotated[Int32, tag(10_000, since=2)] = -1  # of a designated election


@struct
class PartitionResult:
    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@struct
class ReplicaElectionResult:
    topic: String = ""
    partition_result: list[PartitionResult] = field(default_factory=list)


@message(key=43, versions=(0, 2), flexible=2)
class ElectLeadersResponse:
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(1)] = 0
    replica_election_results: list[ReplicaElectionResult] = field(default_factory=list)


# ---- AlterPartitionReassignments


@struct
class ReassignablePartition:
    partition_index: Int32 = 0
    replicas: list[Int32] | None = None  # None: cancel what is under way


@struct
class ReassignableTopic:
    name: String = ""
    partitions: list[ReassignablePartition] = field(default_factory=list)


@message(key=45, versions=(0, 1), flexible=0)
class AlterPartitionReassignmentsRequest:
    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Annotated[Boolean, since(1)] = True
    topics: list[ReassignableTopic] = field(default_factory=list)


@struct
class ReassignablePartitionResponse:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@struct
class ReassignableTopicResponse:
    name: String = ""
    partitions: list[ReassignablePartitionResponse] = field(default_factory=list)


@message(key=45, versions=(0, 1), flexible=0)
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[Boolean, since(1)] = True
    error_code: Int16 = 0
    error_message: String | None = ""
    responses: list[ReassignableTopicResponse] = field(default_factory=list)


# ---- ListPartitionReassignments


@struct
class ListPartitionReassignmentsTopics:
    name: String = ""
    partition_indexes: list[Int32] = field(default_factory=list)


@message(key=46, versions=(0, 0), flexible=0)
class ListPartitionReassignmentsRequest:
    timeout_ms: Int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None  # None: all that are under way


@struct
class OngoingPartitionReassignment:
    partition_index: Int32 = 0
    replicas: list[Int32] = field(default_factory=list)
    adding_replicas: list[Int32] = field(default_factory=list)
    removing_replicas: list[Int32] = field(default_factory=list)


@struct
class OngoingTopicReassignment:
    name: String = ""
    partitions: list[OngoingPartitionReassignment] = field(default_factory=list)


@message(key=46, versions=(0, 0), flexible=0)
class ListPartitionReassignmentsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    topics: list[OngoingTopicReassignment] = field(default_factory=list)
