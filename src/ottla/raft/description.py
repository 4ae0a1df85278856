"""The leader's description of its quorum (DescribeQuorum)."""

from __future__ import annotations

from uuid import UUID

from ottla.errors import ErrorCode
from ottla.model import NO_OFFSET, NO_TIMESTAMP
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.messages.quorum import (
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    QuorumListener,
    QuorumNode,
    ReplicaState,
)
from ottla.raft.leadership import Progress
from ottla.raft.messages import METADATA_PARTITION, METADATA_TOPIC
from ottla.raft.replica import RaftReplica
from ottla.raft.voters import VoterSet


def describe_quorum(
    replica: RaftReplica, log_end_offset: int, directory_id: UUID, now_ms: int, time_of_day_ms: int = 0
) -> DescribeQuorumResponse:
    """The description by a leader; from any other node, an error.

    `time_of_day_ms` is what to add to the machine's time to get the time of day, if they differ.
    """
    if not replica.is_leader or replica.leader_id is None:
        return _response(
            DescribeQuorumResponsePartitionData(
                METADATA_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER, None, -1, replica.epoch
            )
        )
    leader = ReplicaState(
        replica.leader_id, directory_id, log_end_offset, now_ms + time_of_day_ms, now_ms + time_of_day_ms
    )
    leadership = replica.leadership
    set_of = replica.voters
    others = _states(leadership.voters, time_of_day_ms, set_of)
    observers = _states(leadership.observers, time_of_day_ms)
    is_voter = replica.leader_id in set_of
    voters, observers = ([leader, *others], observers) if is_voter else (others, [leader, *observers])
    return _response(
        DescribeQuorumResponsePartitionData(
            partition_index=METADATA_PARTITION,
            error_message=None,
            leader_id=replica.leader_id,
            leader_epoch=replica.epoch,
            high_watermark=replica.high_watermark,
            current_voters=sorted(voters, key=lambda state: state.replica_id),
            observers=observers,
        ),
        [
            QuorumNode(each.node_id, [QuorumListener(*point) for point in each.endpoints])
            for each in set_of.nodes
        ],
    )


def _states(
    replicas: dict[int, Progress], time_of_day_ms: int, voters: VoterSet | None = None
) -> list[ReplicaState]:
    """The replicas as they are described; a voter with the directory that the set names, if it names one."""
    named = {each.node_id: each.directory_id for each in voters.nodes} if voters is not None else {}
    return [
        ReplicaState(
            replica_id=node_id,
            replica_directory_id=_known(named.get(node_id), progress.directory_id),
            log_end_offset=progress.offset,
            last_fetch_timestamp=_time(
                None if progress.offset == NO_OFFSET else progress.fetched_at_ms, time_of_day_ms
            ),
            last_caught_up_timestamp=_time(progress.caught_up_at_ms, time_of_day_ms),
        )
        for node_id, progress in sorted(replicas.items())
    ]


def _known(named: UUID | None, told: UUID) -> UUID:
    return told if named is None or named == ZERO_UUID else named


def _time(time_ms: int | None, time_of_day_ms: int) -> int:
    return NO_TIMESTAMP if time_ms is None else time_ms + time_of_day_ms


def _response(
    partition: DescribeQuorumResponsePartitionData, nodes: list[QuorumNode] | None = None
) -> DescribeQuorumResponse:
    topic = DescribeQuorumResponseTopicData(METADATA_TOPIC, [partition])
    return DescribeQuorumResponse(ErrorCode.NONE, None, [topic], nodes or [])
