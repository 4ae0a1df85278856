"""The questions of the quorum as Kafka's messages, and back.

Each message carries one partition, the metadata log's. Of Fetch, `replica_epoch` says whether a voter
remembers its votes: -1 (not available) if not (see `vote_recovery`). Messages of another cluster, or without
that partition, are refused with the error that Kafka has for it.
"""

from __future__ import annotations

from typing import Any, Final

from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages import fetch as fetches
from ottla.protocol.messages import quorum
from ottla.raft.messages import (
    METADATA_PARTITION,
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    BeginEpoch,
    EndEpoch,
    Endpoint,
    Fetch,
    FetchSnapshot,
    ReplicaKey,
    Request,
    SnapshotId,
    Vote,
)

_REMEMBERS: Final = 0
_FORGOT: Final = -1


def request_message(request: Request, cluster_id: str) -> Any:
    """Kafka's message for a question."""
    match request:
        case Vote():
            return _vote_request(request, cluster_id)
        case BeginEpoch():
            begin = quorum.BeginQuorumEpochPartitionData(
                leader_id=request.leader_id, leader_epoch=request.epoch
            )
            topic = quorum.BeginQuorumEpochTopicData(METADATA_TOPIC, [begin])
            endpoints = [quorum.LeaderEndpoint(*endpoint) for endpoint in request.endpoints]
            return quorum.BeginQuorumEpochRequest(cluster_id, request.voter_id, [topic], endpoints)
        case EndEpoch():
            return _end_request(request, cluster_id)
        case Fetch():
            return _fetch_request(request, cluster_id)
        case FetchSnapshot():
            return _snapshot_request(request, cluster_id)


def read_request(message: Any, cluster_id: str) -> Request:
    """The question in Kafka's message; KafkaError if it is not for this quorum."""
    if message.cluster_id is not None and message.cluster_id != cluster_id:
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID)
    match message:
        case quorum.VoteRequest():
            return _read_vote(message)
        case quorum.BeginQuorumEpochRequest():
            begin = only_partition(message.topics)
            endpoints = tuple(Endpoint(each.name, each.host, each.port) for each in message.leader_endpoints)
            return BeginEpoch(message.voter_id, begin.leader_epoch, begin.leader_id, endpoints)
        case quorum.EndQuorumEpochRequest():
            end = only_partition(message.topics)
            successors = tuple(
                ReplicaKey(each.candidate_id, each.candidate_directory_id)
                for each in end.preferred_candidates
            )
            return EndEpoch(end.leader_epoch, end.leader_id, successors)
        case fetches.FetchRequest():
            return _read_fetch(message)
        case quorum.FetchSnapshotRequest():
            return _read_snapshot(message)
    raise TypeError(f"{type(message).__name__} is no question of the quorum")


def only_partition(topics: list[Any]) -> Any:
    """The metadata log's part of a message."""
    for topic in topics:
        if _is_metadata(topic):
            for partition in topic.partitions:
                return partition
    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _is_metadata(topic: Any) -> bool:
    if isinstance(topic, fetches.FetchTopic | fetches.FetchableTopicResponse):
        return topic.topic_id == METADATA_TOPIC_ID or topic.topic == METADATA_TOPIC
    name = topic.name if hasattr(topic, "name") else topic.topic_name
    return bool(name == METADATA_TOPIC)


def _vote_request(vote: Vote, cluster_id: str) -> quorum.VoteRequest:
    partition = quorum.VotePartitionData(
        replica_epoch=vote.epoch,
        replica_id=vote.candidate.node_id,
        replica_directory_id=vote.candidate.directory_id,
        voter_directory_id=vote.voter_directory_id,
        last_offset_epoch=vote.last_epoch,
        last_offset=vote.end_offset,
        pre_vote=vote.is_pre_vote,
    )
    return quorum.VoteRequest(cluster_id, vote.voter_id, [quorum.VoteTopicData(METADATA_TOPIC, [partition])])


def _read_vote(message: quorum.VoteRequest) -> Vote:
    partition = only_partition(message.topics)
    return Vote(
        voter_id=message.voter_id,
        epoch=partition.replica_epoch,
        candidate=ReplicaKey(partition.replica_id, partition.replica_directory_id),
        last_epoch=partition.last_offset_epoch,
        end_offset=partition.last_offset,
        is_pre_vote=partition.pre_vote,
        voter_directory_id=partition.voter_directory_id,
    )


def _end_request(end: EndEpoch, cluster_id: str) -> quorum.EndQuorumEpochRequest:
    partition = quorum.EndQuorumEpochPartitionData(
        leader_id=end.leader_id,
        leader_epoch=end.epoch,
        preferred_candidates=[quorum.ReplicaInfo(*successor) for successor in end.successors],
    )
    return quorum.EndQuorumEpochRequest(
        cluster_id, [quorum.EndQuorumEpochTopicData(METADATA_TOPIC, [partition])]
    )


def _fetch_request(fetch: Fetch, cluster_id: str) -> fetches.FetchRequest:
    partition = fetches.FetchPartition(
        partition=METADATA_PARTITION,
        current_leader_epoch=fetch.epoch,
        fetch_offset=fetch.fetch_offset,
        last_fetched_epoch=fetch.last_fetched_epoch,
        partition_max_bytes=fetch.max_bytes,
        replica_directory_id=fetch.replica.directory_id,
        high_watermark=fetch.high_watermark,
    )
    return fetches.FetchRequest(
        cluster_id=cluster_id,
        replica_state=fetches.ReplicaState(fetch.replica.node_id, _REMEMBERS if fetch.is_proven else _FORGOT),
        max_wait_ms=fetch.max_wait_ms,
        max_bytes=fetch.max_bytes,
        topics=[fetches.FetchTopic(METADATA_TOPIC, METADATA_TOPIC_ID, [partition])],
    )


def _read_fetch(message: fetches.FetchRequest) -> Fetch:
    partition: fetches.FetchPartition = only_partition(message.topics)
    return Fetch(
        replica=ReplicaKey(message.replica_state.replica_id, partition.replica_directory_id),
        is_proven=message.replica_state.replica_epoch != _FORGOT,
        epoch=partition.current_leader_epoch,
        fetch_offset=partition.fetch_offset,
        last_fetched_epoch=partition.last_fetched_epoch,
        high_watermark=partition.high_watermark,
        max_wait_ms=message.max_wait_ms,
        max_bytes=min(message.max_bytes, partition.partition_max_bytes),
    )


def _snapshot_request(fetch: FetchSnapshot, cluster_id: str) -> quorum.FetchSnapshotRequest:
    partition = quorum.PartitionSnapshot(
        partition=METADATA_PARTITION,
        current_leader_epoch=fetch.epoch,
        snapshot_id=quorum.SnapshotId(*fetch.snapshot_id),
        position=fetch.position,
        replica_directory_id=fetch.replica.directory_id,
    )
    topic = quorum.TopicSnapshot(METADATA_TOPIC, [partition])
    return quorum.FetchSnapshotRequest(cluster_id, fetch.replica.node_id, fetch.max_bytes, [topic])


def _read_snapshot(message: quorum.FetchSnapshotRequest) -> FetchSnapshot:
    partition: quorum.PartitionSnapshot = only_partition(message.topics)
    return FetchSnapshot(
        replica=ReplicaKey(message.replica_id, partition.replica_directory_id),
        epoch=partition.current_leader_epoch,
        snapshot_id=SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        position=partition.position,
        max_bytes=message.max_bytes,
    )
