"""A request for each check of the table: each is harmless when it is allowed, and may be sent again and again.

All names begin with `walk`: the topic `walk` and the group `walk` exist, and the transactional id `walk` has an open
transaction in the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.integration.peer import batch, produce_request

from ottla.protocol.apis import ApiKey
from ottla.protocol.messages import (
    acls,
    brokers,
    client_quotas,
    cluster,
    configs,
    coordinator,
    envelope,
    features,
    fetch,
    group_admin,
    groups,
    leader_epochs,
    list_offsets,
    metadata,
    offsets,
    partitions,
    produce,
    producer_ids,
    quorum,
    raft_voters,
    remote_logs,
    topics,
    transaction_admin,
    transactions,
    user_scram_credentials,
)
from ottla.raft.messages import METADATA_TOPIC

WALK = "walk"
ELSEWHERE = "another-cluster"  # as a cluster's id: nothing is carried out
STRANGER = 77  # as a broker's id: nobody has it
NO_SUCH_PRODUCER = 999


@dataclass(frozen=True)
class Asked:
    """A request, and the checks that it passes, by their places in the table.

    `shown` is text of an answer to a caller with all rights, which the last check takes away; `masked` is text that
    the last check puts in.
    """

    api: ApiKey
    version: int
    request: Callable[[int], Any]  # by a number that no other request has
    checks: tuple[int, ...] = (0,)
    shown: str = ""
    masked: str = ""

    def __str__(self) -> str:
        return f"{self.api.name} v{self.version} {self.checks}"


def asked(
    api: ApiKey, version: int, request: Any, checks: tuple[int, ...] = (0,), shown: str = "", masked: str = ""
) -> Asked:
    made = request if callable(request) else lambda number: request
    return Asked(api, version, made, checks, shown, masked)


def all_requests() -> Iterator[Asked]:
    """Every request; together they reach every check."""
    yield from _records()
    yield from _topics()
    yield from _groups()
    yield from _transactions()
    yield from _cluster()
    yield from _nodes()


def _produced(transactional_id: str | None) -> produce.ProduceRequest:
    of_transaction: dict[str, Any] = {
        "producer_id": NO_SUCH_PRODUCER,
        "producer_epoch": 0,
        "base_sequence": 0,
        "is_transactional": True,
    }
    records = batch(b"value", **({} if transactional_id is None else of_transaction))
    return produce_request(WALK, records, acks=1, transactional_id=transactional_id)


def _fetched(name: str, replica_id: int, cluster_id: str | None = None) -> fetch.FetchRequest:
    wanted = fetch.FetchTopic(name, partitions=[fetch.FetchPartition(0, partition_max_bytes=1000)])
    return fetch.FetchRequest(
        cluster_id=cluster_id, replica_id=replica_id, max_wait_ms=0, max_bytes=1000, topics=[wanted]
    )


def _records() -> Iterator[Asked]:
    yield asked(ApiKey.PRODUCE, 9, lambda number: _produced(None), (1,))
    yield asked(ApiKey.PRODUCE, 9, lambda number: _produced(WALK), (0, 1))
    yield asked(ApiKey.INIT_PRODUCER_ID, 4, producer_ids.InitProducerIdRequest(None, 1000), (1,))
    yield asked(ApiKey.INIT_PRODUCER_ID, 4, producer_ids.InitProducerIdRequest("walk-init", 1000), (0,))
    prepared = producer_ids.InitProducerIdRequest("walk-prepared", 1000, enable2_pc=True)
    yield asked(ApiKey.INIT_PRODUCER_ID, 6, prepared, (0, 2))
    yield asked(ApiKey.FETCH, 12, _fetched(WALK, -1), (0,))
    yield asked(ApiKey.FETCH, 12, _fetched(WALK, STRANGER), (1,))
    yield asked(ApiKey.FETCH, 12, _fetched(METADATA_TOPIC, STRANGER, ELSEWHERE), (2,))
    partition = list_offsets.ListOffsetsPartition(0, timestamp=-1)
    yield asked(
        ApiKey.LIST_OFFSETS,
        7,
        list_offsets.ListOffsetsRequest(-1, topics=[list_offsets.ListOffsetsTopic(WALK, [partition])]),
    )
    epoch = leader_epochs.OffsetForLeaderTopic(WALK, [leader_epochs.OffsetForLeaderPartition(0)])
    yield asked(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, leader_epochs.OffsetForLeaderEpochRequest(-1, [epoch]))
    deleted = topics.DeleteRecordsTopic(WALK, [topics.DeleteRecordsPartition(0, 0)])
    yield asked(ApiKey.DELETE_RECORDS, 2, topics.DeleteRecordsRequest([deleted], 5000))
    producers = transaction_admin.TopicRequest(WALK, [0])
    yield asked(ApiKey.DESCRIBE_PRODUCERS, 0, transaction_admin.DescribeProducersRequest([producers]))
    yield asked(ApiKey.DESCRIBE_LOG_DIRS, 4, cluster.DescribeLogDirsRequest(None))
    yield asked(ApiKey.DESCRIBE_REMOTE_LOG, 0, remote_logs.DescribeRemoteLogRequest())
    remote = remote_logs.RemoteRangeTopic(WALK, [remote_logs.RemoteRange(0, -1, 0, 1)])
    yield asked(ApiKey.LIST_REMOTE_SEGMENTS, 0, remote_logs.ListRemoteSegmentsRequest(False, [remote]))


def _topics() -> Iterator[Asked]:
    def named(name: str) -> metadata.MetadataRequest:
        return metadata.MetadataRequest([metadata.MetadataRequestTopic(name=name)])

    yield asked(ApiKey.METADATA, 12, named(WALK), (0,))
    yield asked(ApiKey.METADATA, 12, metadata.MetadataRequest(None), (1,), f"name='{WALK}'")
    yield asked(ApiKey.METADATA, 12, lambda number: named(f"walk-created-{number}"), (0, 2))
    of_cluster = metadata.MetadataRequest([], include_cluster_authorized_operations=True)
    yield asked(ApiKey.METADATA, 10, of_cluster, (3,), masked="cluster_authorized_operations=0")
    page = cluster.DescribeTopicPartitionsRequest
    yield asked(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, page([cluster.TopicRequest(WALK)], 10), (0,))
    yield asked(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, page([], 1000), (1,), f"name='{WALK}'")
    yield asked(
        ApiKey.CREATE_TOPICS,
        7,
        topics.CreateTopicsRequest([topics.CreatableTopic("walk-tried", 1, 1)], validate_only=True),
        (0, 1),
    )
    missing = topics.DeleteTopicState("walk-missing")
    yield asked(ApiKey.DELETE_TOPICS, 6, topics.DeleteTopicsRequest([missing], timeout_ms=5000))
    yield asked(ApiKey.DELETE_TOPICS, 4, topics.DeleteTopicsRequest([], ["walk-missing"], 5000))
    grown = topics.CreatePartitionsTopic(WALK, 2, None)
    yield asked(ApiKey.CREATE_PARTITIONS, 3, topics.CreatePartitionsRequest([grown], 5000, True))
    yield asked(ApiKey.ELECT_LEADERS, 2, partitions.ElectLeadersRequest(0, []))
    yield asked(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, partitions.AlterPartitionReassignmentsRequest())
    yield asked(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, partitions.ListPartitionReassignmentsRequest())


def _groups() -> Iterator[Asked]:
    find = coordinator.FindCoordinatorRequest
    yield asked(ApiKey.FIND_COORDINATOR, 4, find(key_type=0, coordinator_keys=[WALK]), (0,))
    yield asked(ApiKey.FIND_COORDINATOR, 3, find(WALK, 0), (0,))
    yield asked(ApiKey.FIND_COORDINATOR, 4, find(key_type=1, coordinator_keys=[WALK]), (1,))
    protocol = groups.JoinGroupRequestProtocol("range")
    join = groups.JoinGroupRequest(WALK, 10_000, 10_000, "", None, "consumer", [protocol])
    yield asked(ApiKey.JOIN_GROUP, 9, join)
    yield asked(ApiKey.SYNC_GROUP, 5, groups.SyncGroupRequest(WALK, 1, "nobody"))
    yield asked(ApiKey.HEARTBEAT, 4, groups.HeartbeatRequest(WALK, 1, "nobody"))
    yield asked(ApiKey.LEAVE_GROUP, 2, groups.LeaveGroupRequest(WALK, "nobody"))
    yield asked(ApiKey.DESCRIBE_GROUPS, 5, group_admin.DescribeGroupsRequest([WALK]))
    yield asked(ApiKey.LIST_GROUPS, 4, group_admin.ListGroupsRequest(), (0,), f"group_id='{WALK}'")
    yield asked(ApiKey.DELETE_GROUPS, 2, group_admin.DeleteGroupsRequest(["walk-none"]))
    partition = offsets.OffsetCommitRequestPartition(0, 0)
    commit = offsets.OffsetCommitRequest(
        WALK, topics=[offsets.OffsetCommitRequestTopic(WALK, partitions=[partition])]
    )
    yield asked(ApiKey.OFFSET_COMMIT, 8, commit, (0, 1))
    old = offsets.OffsetFetchRequest(WALK, [offsets.OffsetFetchRequestTopic(WALK, [0])])
    yield asked(ApiKey.OFFSET_FETCH, 7, old, (0, 1))
    yield asked(ApiKey.OFFSET_FETCH, 7, offsets.OffsetFetchRequest(WALK, None), (0, 2), f"name='{WALK}'")
    named = offsets.OffsetFetchRequestGroup(
        WALK, topics=[offsets.OffsetFetchRequestTopics(WALK, partition_indexes=[0])]
    )
    yield asked(ApiKey.OFFSET_FETCH, 9, offsets.OffsetFetchRequest(groups=[named]), (0, 1))
    everything = offsets.OffsetFetchRequestGroup(WALK, topics=None)
    yield asked(
        ApiKey.OFFSET_FETCH, 9, offsets.OffsetFetchRequest(groups=[everything]), (0, 2), f"name='{WALK}'"
    )
    removed = offsets.OffsetDeleteRequestTopic(WALK, [offsets.OffsetDeleteRequestPartition(9)])
    yield asked(ApiKey.OFFSET_DELETE, 0, offsets.OffsetDeleteRequest(WALK, [removed]), (0, 1))


def _transactions() -> Iterator[Asked]:
    named = [transactions.AddPartitionsToTxnTopic(WALK, [0])]
    of_producer = transactions.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=WALK,
        v3_and_below_producer_id=NO_SUCH_PRODUCER,
        v3_and_below_topics=named,
    )
    yield asked(ApiKey.ADD_PARTITIONS_TO_TXN, 3, of_producer, (0, 1))
    one = transactions.AddPartitionsToTxnTransaction(WALK, NO_SUCH_PRODUCER, 0, True, named)
    yield asked(ApiKey.ADD_PARTITIONS_TO_TXN, 4, transactions.AddPartitionsToTxnRequest([one]), (2,))
    add = transactions.AddOffsetsToTxnRequest(WALK, NO_SUCH_PRODUCER, 0, WALK)
    yield asked(ApiKey.ADD_OFFSETS_TO_TXN, 3, add, (0, 1))
    yield asked(ApiKey.END_TXN, 3, transactions.EndTxnRequest(WALK, NO_SUCH_PRODUCER))
    commit = transactions.TxnOffsetCommitRequest(
        WALK,
        WALK,
        NO_SUCH_PRODUCER,
        topics=[
            transactions.TxnOffsetCommitRequestTopic(
                WALK, [transactions.TxnOffsetCommitRequestPartition(0, 0)]
            )
        ],
    )
    yield asked(ApiKey.TXN_OFFSET_COMMIT, 3, commit, (0, 1, 2))
    described = transaction_admin.DescribeTransactionsRequest([WALK])
    yield asked(ApiKey.DESCRIBE_TRANSACTIONS, 0, described, (0, 1), f"topic='{WALK}'")
    listed = transaction_admin.ListTransactionsRequest()
    yield asked(ApiKey.LIST_TRANSACTIONS, 0, listed, (0,), f"transactional_id='{WALK}'")
    marker = transactions.WritableTxnMarker(
        NO_SUCH_PRODUCER, 0, False, [transactions.WritableTxnMarkerTopic("walk-missing", [0])]
    )
    yield asked(ApiKey.WRITE_TXN_MARKERS, 1, transactions.WriteTxnMarkersRequest([marker]))


def _cluster() -> Iterator[Asked]:
    for place, (kind, name) in enumerate(((2, WALK), (32, WALK), (4, "0"))):
        described = configs.DescribeConfigsResource(kind, name, ["max.message.bytes"])
        yield asked(ApiKey.DESCRIBE_CONFIGS, 4, configs.DescribeConfigsRequest([described]), (place,))
        altered = configs.AlterConfigsResource(kind, name)
        yield asked(ApiKey.ALTER_CONFIGS, 2, configs.AlterConfigsRequest([altered], True), (place,))
        change = configs.IncrementalAlterConfigsResource(kind, name)
        request = configs.IncrementalAlterConfigsRequest([change], True)
        yield asked(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request, (place,))
    yield asked(ApiKey.LIST_CONFIG_RESOURCES, 1, configs.ListConfigResourcesRequest([2]))
    mine = cluster.DescribeClusterRequest(include_cluster_authorized_operations=True)
    yield asked(ApiKey.DESCRIBE_CLUSTER, 0, mine, (0,), masked="cluster_authorized_operations=0")
    of_log = quorum.DescribeQuorumTopicData(METADATA_TOPIC, [quorum.DescribeQuorumPartitionData(0)])
    yield asked(ApiKey.DESCRIBE_QUORUM, 1, quorum.DescribeQuorumRequest([of_log]))
    yield asked(ApiKey.ADD_RAFT_VOTER, 0, raft_voters.AddRaftVoterRequest(ELSEWHERE, 5000, STRANGER))
    yield asked(ApiKey.REMOVE_RAFT_VOTER, 0, raft_voters.RemoveRaftVoterRequest(ELSEWHERE, STRANGER))
    yield asked(ApiKey.UPDATE_FEATURES, 1, features.UpdateFeaturesRequest(5000, [], True))
    yield asked(ApiKey.UNREGISTER_BROKER, 0, brokers.UnregisterBrokerRequest(STRANGER))
    everything = acls.DescribeAclsRequest(1, None, 1, None, None, 1, 1)
    yield asked(ApiKey.DESCRIBE_ACLS, 2, everything)
    created = acls.AclCreation(2, "elsewhere", 3, "User:nobody", "*", 3, 3)
    yield asked(ApiKey.CREATE_ACLS, 2, acls.CreateAclsRequest([created]))
    unknown = acls.DeleteAclsFilter(2, "nowhere", 3, None, None, 1, 1)
    yield asked(ApiKey.DELETE_ACLS, 2, acls.DeleteAclsRequest([unknown]))

    yield asked(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, client_quotas.DescribeClientQuotasRequest())
    nobody = client_quotas.EntryData([client_quotas.EntityData("user", "nobody")])
    yield asked(ApiKey.ALTER_CLIENT_QUOTAS, 1, client_quotas.AlterClientQuotasRequest([nobody]))
    described_users = user_scram_credentials.DescribeUserScramCredentialsRequest(None)
    yield asked(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, described_users)
    unknown_user = user_scram_credentials.ScramCredentialDeletion("nobody", 1)
    alteration = user_scram_credentials.AlterUserScramCredentialsRequest([unknown_user])
    yield asked(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, alteration)


def _nodes() -> Iterator[Asked]:
    yield asked(ApiKey.ENVELOPE, 0, envelope.EnvelopeRequest(b"\0", None))
    yield asked(ApiKey.BROKER_REGISTRATION, 2, brokers.BrokerRegistrationRequest(STRANGER, ELSEWHERE))
    yield asked(ApiKey.BROKER_HEARTBEAT, 0, brokers.BrokerHeartbeatRequest(STRANGER))
    yield asked(ApiKey.ALTER_PARTITION, 2, partitions.AlterPartitionRequest(STRANGER))
    yield asked(ApiKey.ALLOCATE_PRODUCER_IDS, 0, producer_ids.AllocateProducerIdsRequest(STRANGER))
    yield asked(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0, brokers.AssignReplicasToDirsRequest(STRANGER))
    yield asked(ApiKey.ALTER_REMOTE_LOG, 0, remote_logs.AlterRemoteLogRequest(STRANGER))
    yield asked(ApiKey.VOTE, 0, quorum.VoteRequest(ELSEWHERE))
    yield asked(ApiKey.BEGIN_QUORUM_EPOCH, 0, quorum.BeginQuorumEpochRequest(ELSEWHERE))
    yield asked(ApiKey.END_QUORUM_EPOCH, 0, quorum.EndQuorumEpochRequest(ELSEWHERE))
    yield asked(ApiKey.FETCH_SNAPSHOT, 0, quorum.FetchSnapshotRequest(ELSEWHERE))
