"""The messages between the members of a quorum, one partition's worth: no topics, no lists, no versions.

`requests` and `responses` turn these into Kafka's messages and back. Every answer carries the epoch and the
leader that its sender knows, so that a node that asks with an old epoch learns the new one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from ottla.errors import ErrorCode
from ottla.model import NO_OFFSET, EpochEnd
from ottla.protocol.codec import ZERO_UUID

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = UUID(int=1)
METADATA_PARTITION: Final = 0


class ReplicaKey(NamedTuple):
    """A node and its disk: the directory id is drawn when a log directory is made, and lost with it."""

    node_id: int
    directory_id: UUID = ZERO_UUID


class Endpoint(NamedTuple):
    """An address of a node, and the name of the listener there."""

    name: str
    host: str
    port: int


class SnapshotId(NamedTuple):
    """A snapshot holds everything below `end_offset`; `epoch` is that of the last record in it."""

    end_offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Vote:
    """May I lead `epoch`? As a pre-vote: would you vote for me in the epoch after this one?

    `voter_directory_id` is the directory that the candidate's voter set names; the zero id if it names none.
    """

    voter_id: int
    epoch: int
    candidate: ReplicaKey
    last_epoch: int
    end_offset: int
    is_pre_vote: bool
    voter_directory_id: UUID = ZERO_UUID


@dataclass(frozen=True, slots=True)
class VoteAnswer:
    """`is_granted` promises a vote only if the question was no pre-vote."""

    error: ErrorCode
    epoch: int
    leader_id: int | None
    is_granted: bool


@dataclass(frozen=True, slots=True)
class BeginEpoch:
    """I lead this epoch: fetch from me, at these addresses if they are new."""

    voter_id: int
    epoch: int
    leader_id: int
    endpoints: tuple[Endpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class EndEpoch:
    """The sender leads this epoch no more. The preferred successors, best first."""

    epoch: int
    leader_id: int
    successors: tuple[ReplicaKey, ...]


@dataclass(frozen=True, slots=True)
class EpochAnswer:
    """The answer to BeginEpoch and EndEpoch."""

    error: ErrorCode
    epoch: int
    leader_id: int | None


@dataclass(frozen=True, slots=True)
class Fetch:
    """Records from `fetch_offset` on, please; what is before it is durable here (if a voter asks).

    `is_proven`: a voter that remembers its votes. One that lost its memory counts for nothing yet (see
    `vote_recovery`).
    """

    replica: ReplicaKey
    is_proven: bool
    epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    high_watermark: int
    max_wait_ms: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """Records, or the place where the logs part, or the snapshot to fetch instead."""

    error: ErrorCode
    epoch: int
    leader_id: int | None
    high_watermark: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    diverging: EpochEnd | None = None
    snapshot_id: SnapshotId | None = None
    records: bytes | memoryview = b""


@dataclass(frozen=True, slots=True)
class FetchSnapshot:
    """The bytes of a snapshot from `position` on, please."""

    replica: ReplicaKey
    epoch: int
    snapshot_id: SnapshotId
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FetchSnapshotAnswer:
    """A piece of a snapshot of `size_bytes`."""

    error: ErrorCode
    epoch: int
    leader_id: int | None
    snapshot_id: SnapshotId
    size_bytes: int = 0
    position: int = 0
    data: bytes | memoryview = b""


Request: TypeAlias = Vote | BeginEpoch | EndEpoch | Fetch | FetchSnapshot
Answer: TypeAlias = VoteAnswer | EpochAnswer | FetchAnswer | FetchSnapshotAnswer
