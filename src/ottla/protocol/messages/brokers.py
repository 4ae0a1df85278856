"""The life of a broker: its requests to the controller, and the end of its membership.

BrokerRegistration (key 62), versions 0 to 4: KIP-631 the registration itself, KIP-866 migration from
ZooKeeper (v1, unused), KIP-858 log directories (v2), KIP-966 the previous epoch (v3), KIP-1022 features whose
minimum is 0 (v4). BrokerHeartbeat (63), versions 0 to 1: KIP-631, KIP-858 failed log directories (v1).
UnregisterBroker (64), version 0: KIP-631. AssignReplicasToDirs (73), version 0: KIP-858.
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
    String,
    UInt16,
    Uuid,
    message,
    since,
    struct,
    tag,
)


@struct
class Listener:
    name: String = ""
    host: String = ""
    port: UInt16 = 0
    security_protocol: Int16 = 0


@struct
class Feature:
    name: String = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


@message(key=62, versions=(0, 4), flexible=0)
class BrokerRegistrationRequest:
    broker_id: Int32 = 0
    cluster_id: String = ""
    incarnation_id: Uuid = ZERO_UUID
    listeners: list[Listener] = field(default_factory=list)
    features: list[Feature] = field(default_factory=list)
    rack: String | None = ""
    is_migrating_zk_broker: Annotated[Boolean, since(1)] = False
    log_dirs: Annotated[list[Uuid], since(2)] = field(default_factory=list)
    previous_broker_epoch: Annotated[Int64, since(3)] = -1


@message(key=62, versions=(0, 4), flexible=0)
class BrokerRegistrationResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    broker_epoch: Int64 = -1


@message(key=63, versions=(0, 1), flexible=0)
class BrokerHeartbeatRequest:
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    current_metadata_offset: Int64 = 0  # of the last record that the broker has taken over
    want_fence: Boolean = False
    want_shut_down: Boolean = False
    offline_log_dirs: Annotated[list[Uuid], tag(0, since=1)] = field(default_factory=list)


@message(key=63, versions=(0, 1), flexible=0)
class BrokerHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    is_caught_up: Boolean = False
    is_fenced: Boolean = True
    should_shut_down: Boolean = False


@message(key=64, versions=(0, 0), flexible=0)
class UnregisterBrokerRequest:
    broker_id: Int32 = 0


@message(key=64, versions=(0, 0), flexible=0)
class UnregisterBrokerResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@struct
class PartitionData:
    partition_index: Int32 = 0


@struct
class TopicData:
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@struct
class DirectoryData:
    id: Uuid = ZERO_UUID
    topics: list[TopicData] = field(default_factory=list)


@message(key=73, versions=(0, 0), flexible=0)
class AssignReplicasToDirsRequest:
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    directories: list[DirectoryData] = field(default_factory=list)


@struct
class AssignedPartitionData:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class AssignedTopicData:
    topic_id: Uuid = ZERO_UUID
    partitions: list[AssignedPartitionData] = field(default_factory=list)


@struct
class AssignedDirectoryData:
    id: Uuid = ZERO_UUID
    topics: list[AssignedTopicData] = field(default_factory=list)


@message(key=73, versions=(0, 0), flexible=0)
class AssignReplicasToDirsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    directories: list[AssignedDirectoryData] = field(default_factory=list)
