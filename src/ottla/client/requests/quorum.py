"""The metadata quorum as an administrator sees it: its leader, its voters, and the progress of each node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from ottla.client.calls import arguments
from ottla.client.requests.outcomes import error_of, outcome
from ottla.errors import ErrorCode, KafkaError
from ottla.model import Address
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.messages.quorum import (
    DescribeQuorumPartitionData,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopicData,
    ReplicaState,
)
from ottla.protocol.messages.raft_voters import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    VoterListener,
)

METADATA_TOPIC: Final = "__cluster_metadata"
# What brokers before DescribeQuorum 2 do not tell.
_LISTENER: Final = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """One node's copy of the metadata log. Times are -1 where the leader does not know them."""

    node_id: int
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int
    directory_id: UUID = ZERO_UUID


class QuorumAddress(NamedTuple):
    """Where voters reach a node, and the name of the listener there."""

    listener_name: str
    address: Address


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The quorum as its leader saw it. `leader_id` is None while there is none. `listeners` are the addresses by which
    voters reach each other, of each voter whose address is known; they need not be those that clients use.
    """

    leader_id: int | None
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    listeners: Mapping[int, QuorumAddress] = field(default_factory=dict)

    @property
    def listener_name(self) -> str:
        """The name of the listener that the quorum uses."""
        leader = None if self.leader_id is None else self.listeners.get(self.leader_id)
        return _LISTENER if leader is None else leader.listener_name


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
        listeners={
            node.node_id: QuorumAddress(first.name, Address(first.host, first.port))
            for node in response.nodes
            for first in node.listeners[:1]
        },
    )


def _replica(state: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        state.replica_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
        state.replica_directory_id,
    )


class VoterKey(NamedTuple):
    """A voter: a node, and the directory that it votes from."""

    node_id: int
    directory_id: UUID


def voter_key(node_id: object, directory_id: object) -> VoterKey:
    """The voter that a caller means; TypeError or ValueError if these are no such numbers."""
    if not isinstance(directory_id, UUID):
        raise TypeError(
            "directory_id must be a UUID, as describe_quorum() returns it for each node, "
            f"not {type(directory_id).__name__}"
        )
    return VoterKey(arguments.whole_number("node_id", node_id, most=arguments.MOST_INT32), directory_id)


def add_voter_request(voter: VoterKey, place: QuorumAddress, timeout_ms: int) -> AddRaftVoterRequest:
    listener = VoterListener(place.listener_name, place.address.host, place.address.port)
    # The leader answers why a voter could not be added in time: its answer must find the client waiting.
    leaders_ms = timeout_ms * 2 // 3
    return AddRaftVoterRequest(None, leaders_ms, voter.node_id, voter.directory_id, [listener])


def remove_voter_request(voter: VoterKey) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(None, voter.node_id, voter.directory_id)


def changed_voters(response: AddRaftVoterResponse | RemoveRaftVoterResponse) -> KafkaError | None:
    return outcome(response.error_code, None, response.error_message)
