"""The APIs: which key is which question, and which versions of it are served.

`APIS` is what a listener serves; ApiVersions tells clients the same table, except that it claims Produce from version 0
on, because librdkafka before 2.11.1 compresses only if it sees that version (KAFKA-18659). The minima are floors: older
librdkafka switches features off if a range does not contain exactly the version it looks for.
`INTERNAL_APIS` are commands that brokers give to the controller: declared, never advertised, refused on the wire.
`QUORUM_APIS` are what the voters of the metadata quorum ask each other, and what is asked about it: declared, not served yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ottla.protocol.codec import declaration_of
from ottla.protocol.messages import (
    api_versions,
    brokers,
    cluster,
    configs,
    coordinator,
    fetch,
    group_admin,
    groups,
    leader_epochs,
    list_offsets,
    metadata,
    offsets,
    produce,
    producer_ids,
    quorum,
    topics,
)


class ApiKey(IntEnum):
    """Every API key that Kafka 4.3 defines, served or not, so that a log line can name what was asked."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


class Api(NamedTuple):
    """One API: its messages, the versions that are served, and the lowest one that clients are told."""

    key: ApiKey
    request: type[Any]
    response: type[Any]
    min_version: int
    max_version: int
    advertised_min_version: int

    def serves(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version


def _api(request: type[Any], response: type[Any], *, advertised_min_version: int | None = None) -> Api:
    key, (first, last), _ = declaration_of(request)
    advertised = first if advertised_min_version is None else advertised_min_version
    return Api(ApiKey(key), request, response, first, last, advertised)


def _by_key(apis: Iterable[Api]) -> Mapping[int, Api]:
    return MappingProxyType({int(api.key): api for api in apis})


APIS: Final = _by_key(
    [
        _api(produce.ProduceRequest, produce.ProduceResponse, advertised_min_version=0),
        _api(fetch.FetchRequest, fetch.FetchResponse),
        _api(list_offsets.ListOffsetsRequest, list_offsets.ListOffsetsResponse),
        _api(metadata.MetadataRequest, metadata.MetadataResponse),
        _api(coordinator.FindCoordinatorRequest, coordinator.FindCoordinatorResponse),
        _api(api_versions.ApiVersionsRequest, api_versions.ApiVersionsResponse),
        _api(topics.CreateTopicsRequest, topics.CreateTopicsResponse),
        _api(topics.DeleteTopicsRequest, topics.DeleteTopicsResponse),
        _api(topics.DeleteRecordsRequest, topics.DeleteRecordsResponse),
        _api(producer_ids.InitProducerIdRequest, producer_ids.InitProducerIdResponse),
        _api(leader_epochs.OffsetForLeaderEpochRequest, leader_epochs.OffsetForLeaderEpochResponse),
        _api(configs.DescribeConfigsRequest, configs.DescribeConfigsResponse),
        _api(configs.AlterConfigsRequest, configs.AlterConfigsResponse),
        _api(cluster.DescribeLogDirsRequest, cluster.DescribeLogDirsResponse),
        _api(topics.CreatePartitionsRequest, topics.CreatePartitionsResponse),
        _api(configs.IncrementalAlterConfigsRequest, configs.IncrementalAlterConfigsResponse),
        _api(cluster.DescribeClusterRequest, cluster.DescribeClusterResponse),
        _api(configs.ListConfigResourcesRequest, configs.ListConfigResourcesResponse),
        _api(cluster.DescribeTopicPartitionsRequest, cluster.DescribeTopicPartitionsResponse),
        _api(offsets.OffsetCommitRequest, offsets.OffsetCommitResponse),
        _api(offsets.OffsetFetchRequest, offsets.OffsetFetchResponse),
        _api(groups.JoinGroupRequest, groups.JoinGroupResponse),
        _api(groups.HeartbeatRequest, groups.HeartbeatResponse),
        _api(groups.LeaveGroupRequest, groups.LeaveGroupResponse),
        _api(groups.SyncGroupRequest, groups.SyncGroupResponse),
        _api(group_admin.DescribeGroupsRequest, group_admin.DescribeGroupsResponse),
        _api(group_admin.ListGroupsRequest, group_admin.ListGroupsResponse),
        _api(group_admin.DeleteGroupsRequest, group_admin.DeleteGroupsResponse),
        _api(offsets.OffsetDeleteRequest, offsets.OffsetDeleteResponse),
    ]
)

INTERNAL_APIS: Final = _by_key(
    [
        _api(brokers.BrokerRegistrationRequest, brokers.BrokerRegistrationResponse),
        _api(producer_ids.AllocateProducerIdsRequest, producer_ids.AllocateProducerIdsResponse),
    ]
)

QUORUM_APIS: Final = _by_key(
    [
        _api(quorum.VoteRequest, quorum.VoteResponse),
        _api(quorum.BeginQuorumEpochRequest, quorum.BeginQuorumEpochResponse),
        _api(quorum.EndQuorumEpochRequest, quorum.EndQuorumEpochResponse),
        _api(quorum.DescribeQuorumRequest, quorum.DescribeQuorumResponse),
        _api(quorum.FetchSnapshotRequest, quorum.FetchSnapshotResponse),
    ]
)
