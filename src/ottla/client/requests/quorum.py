"""The metadata quorum as an administrator sees it: its leader, its voters, and the progress of each node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.client.requests.outcomes import error_of
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.quorum import (
    DescribeQuorumPartitionData,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopicData,
    ReplicaState,
)

METADATA_TOPIC: Final = "__cluster_metadata"


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """One node's copy of the metadata log. Times are -1 where the leader does not know them."""

    node_id: int
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The quorum as its leader saw it. `leader_id` is None while there is none."""

    leader_id: int | None
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


def describe_quorum_request() -> DescribeQuorumRequest:
    metadata = DescribeQuorumTopicData(topic_name=METADATA_TOPIC, partitions=[DescribeQuorumPartitionData()])
    return DescribeQuorumRequest(topics=[metadata])


def described_quorum(response: DescribeQuorumResponse) -> QuorumDescription | KafkaError:
    if response.error_code != ErrorCode.NONE:
        return error_of(response.error_code, response.error_message)
    found = [partition for topic in response.topics for partition in topic.partitions]
    if not found:
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker's answer left the quorum out")
    quorum = found[0]
    if quorum.error_code != ErrorCode.NONE:
        return error_of(quorum.error_code, quorum.error_message)
    return QuorumDescription(
        leader_id=quorum.leader_id if quorum.leader_id >= 0 else None,
        leader_epoch=quorum.leader_epoch,
        high_watermark=quorum.high_watermark,
        voters=tuple(map(_replica, quorum.current_voters)),
        observers=tuple(map(_replica, quorum.observers)),
    )


def _replica(state: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        state.replica_id, state.log_end_offset, state.last_fetch_timestamp, state.last_caught_up_timestamp
    )
