"""The state that a voter must not forget: its epoch, and its vote in it. And the file that keeps it.

The file is Kafka's `quorum-state`: QuorumStateData as JSON, version 1, with its version beside it. Version 0
is read too.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from typing import Annotated, Any, Final
from uuid import UUID

from ottla.model import NO_NODE
from ottla.protocol.codec import ZERO_UUID, Int32, Int64, String, Uuid, record, since, struct, until
from ottla.raft.messages import ReplicaKey

FILE_NAME: Final = "quorum-state"
_VERSION: Final = 1


@struct
class Voter:
    voter_id: Annotated[Int32, until(0)] = 0


@record(key=0, versions=(0, 1), flexible=0)
class QuorumStateData:
    cluster_id: Annotated[String, until(0)] = ""
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    voted_id: Int32 = -1
    voted_directory_id: Annotated[Uuid, since(1)] = ZERO_UUID
    applied_offset: Annotated[Int64, until(0)] = 0
    current_voters: Annotated[list[Voter] | None, until(0)] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class QuorumState:
    """A voter's memory. A voter that takes part in founding the cluster begins with this, as it is: epoch 0,
    no vote.

    `leader_id` is for readers of the file; nothing depends on it.
    """

    epoch: int = 0
    voted: ReplicaKey | None = None
    leader_id: int | None = None


class QuorumStateError(ValueError):
    """The file is not what was written. The voter that it belongs to has lost its memory."""


def render(state: QuorumState) -> bytes:
    """The file's content."""
    voted = state.voted or ReplicaKey(NO_NODE)
    content = {
        "leaderId": NO_NODE if state.leader_id is None else state.leader_id,
        "leaderEpoch": state.epoch,
        "votedId": voted.node_id,
        "votedDirectoryId": urlsafe_b64encode(voted.directory_id.bytes).decode().rstrip("="),
        "data_version": _VERSION,
    }
    return json.dumps(content, separators=(",", ":")).encode()


def parse(data: bytes) -> QuorumState:
    """The state in the file; QuorumStateError if there is none."""
    try:
        content: dict[str, Any] = json.loads(data)
        epoch, voted_id = int(content["leaderEpoch"]), int(content.get("votedId", NO_NODE))
        leader_id = int(content.get("leaderId", NO_NODE))
        directory = content.get("votedDirectoryId")
        directory_id = UUID(bytes=urlsafe_b64decode(f"{directory}==")) if directory else ZERO_UUID
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise QuorumStateError(f"{FILE_NAME} cannot be read: {problem}") from None
    if epoch < 0:
        raise QuorumStateError(f"{FILE_NAME} has the epoch {epoch}")
    voted = None if voted_id == NO_NODE else ReplicaKey(voted_id, directory_id)
    return QuorumState(epoch, voted, None if leader_id == NO_NODE else leader_id)
