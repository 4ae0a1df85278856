"""Metadata (key 3), versions 0 to 13.

KIP-4 racks, controller id and "no topics" (v1), KIP-78 cluster id (v2), auto-creation on request (v4),
KIP-112 offline replicas (v5), KIP-320 leader epochs (v7), KIP-430 authorised operations (v8), KIP-482
flexible versions (v9), KIP-516 topic ids (v10 in the answer, v12 in the question), KIP-700 cluster operations
moved to DescribeCluster (v11), KIP-1102 an error for the whole answer (v13). In version 0 an empty list of
topics asks for all of them; from version 1 null does, and an empty list asks for none.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from ottla.protocol.codec import (
    ZERO_UUID,
    Boolean,
    Int16,
    Int32,
    String,
    Uuid,
    between,
    message,
    nullable_since,
    since,
    struct,
)

# "Not asked for": an empty set of operations would be 0.
NO_AUTHORIZED_OPERATIONS: Final = -0x8000_0000

# The version in which a topic may be asked for by its id alone; the field is older (10), and was not served.
BY_TOPIC_ID_SINCE: Final = 12


@struct
class MetadataRequestTopic:
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    name: Annotated[String | None, nullable_since(10)] = ""


@message(key=3, versions=(0, 13), flexible=9)
class MetadataRequest:
    topics: Annotated[list[MetadataRequestTopic] | None, nullable_since(1)] = field(default_factory=list)
    allow_auto_topic_creation: Annotated[Boolean, since(4)] = True
    include_cluster_authorized_operations: Annotated[Boolean, between(8, 10)] = False
    include_topic_authorized_operations: Annotated[Boolean, since(8)] = False


@struct
class MetadataResponseBroker:
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: Annotated[String | None, since(1)] = None


@struct
class MetadataResponsePartition:
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, since(7)] = -1
    replica_nodes: list[Int32] = field(default_factory=list)
    isr_nodes: list[Int32] = field(default_factory=list)
    offline_replicas: Annotated[list[Int32], since(5)] = field(default_factory=list)


@struct
class MetadataResponseTopic:
    error_code: Int16 = 0
    name: Annotated[String | None, nullable_since(12)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    is_internal: Annotated[Boolean, since(1)] = False
    partitions: list[MetadataResponsePartition] = field(default_factory=list)
    topic_authorized_operations: Annotated[Int32, since(8)] = NO_AUTHORIZED_OPERATIONS


@message(key=3, versions=(0, 13), flexible=9)
class MetadataResponse:
    throttle_time_ms: Annotated[Int32, since(3)] = 0
    brokers: list[MetadataResponseBroker] = field(default_factory=list)
    cluster_id: Annotated[String | None, since(2)] = None
    controller_id: Annotated[Int32, since(1)] = -1
    topics: list[MetadataResponseTopic] = field(default_factory=list)
    cluster_authorized_operations: Annotated[Int32, between(8, 10)] = NO_AUTHORIZED_OPERATIONS
    error_code: Annotated[Int16, since(13)] = 0
