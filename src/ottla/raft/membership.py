"""Changes of the voters by the leader (KIP-853): one voter at a time, and the next when the last is committed.

- A leader changes the set when it has committed a record of its epoch: before that, a set of an earlier leader
  may be in some log that differs from its own by more than one voter.
- A new voter has caught up, and remembers its votes, before it is added: it counts from that moment on.
- A leader that removes itself leads until the record is committed, without counting itself, and then resigns. If
  it dies before, it may be elected once more: its log may be the only one with that record.
- The first change names the directories of all voters: from then on a voter is a node with a directory.
"""

from __future__ import annotations

from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.codec import ZERO_UUID
from ottla.raft.leadership import Leadership
from ottla.raft.messages import ReplicaKey
from ottla.raft.node import Node, State
from ottla.raft.voters import MAX_VOTERS, VoterNode, VoterSet


def with_added(node: Node, leadership: Leadership, voter: VoterNode) -> VoterSet:
    """The set with a new voter. KafkaError if it cannot be added, or not yet (REQUEST_TIMED_OUT)."""
    _refuse_change(node, leadership)
    if voter.node_id in node.voters:
        raise KafkaError(
            ErrorCode.DUPLICATE_VOTER,
            f"Node {voter.node_id} is a voter already: a voter with another directory is removed first.",
        )
    if len(node.voters.ids) >= MAX_VOTERS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"A quorum has at most {MAX_VOTERS} voters.")
    seen = leadership.observers.get(voter.node_id)
    if seen is None or seen.directory_id != voter.directory_id or not seen.is_proven:
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"Node {voter.node_id} with the directory {voter.directory_id} does not fetch the metadata as a controller.",
        )
    fresh_ms = node.now_ms - node.settings.quorum.fetch_timeout_ms
    if seen.caught_up_at_ms is None or seen.caught_up_at_ms < fresh_ms:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"Node {voter.node_id} has not caught up yet.")
    return _named(node, leadership).with_voter(voter)


def with_removed(node: Node, leadership: Leadership, key: ReplicaKey) -> VoterSet:
    """The set without a voter. KafkaError if it cannot be removed, or not yet (REQUEST_TIMED_OUT)."""
    _refuse_change(node, leadership)
    voters = _named(node, leadership)
    if not voters.has(key):
        raise KafkaError(
            ErrorCode.VOTER_NOT_FOUND,
            f"Node {key.node_id} with the directory {key.directory_id} is not a voter.",
        )
    if len(voters.ids) == 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The last voter cannot be removed.")
    return voters.without(key.node_id)


def _refuse_change(node: Node, leadership: Leadership) -> None:
    if node.state is not State.LEADER:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "This node does not lead the quorum.")
    logged = node.log.voters
    is_pending = logged is not None and logged.end_offset > node.high_watermark
    if is_pending or not leadership.is_established:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "An earlier change is not committed yet.")


def _named(node: Node, leadership: Leadership) -> VoterSet:
    """The present voters with the directories that they vote from."""
    if node.voters.names_directories:
        return node.voters
    named = [_with_directory(node, leadership, voter) for voter in node.voters.nodes]
    silent = [voter.node_id for voter in named if voter.directory_id == ZERO_UUID]
    if silent:
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"The directory of voter {silent[0]} is not known: all voters must be there for the first change.",
        )
    return VoterSet(named)


def _with_directory(node: Node, leadership: Leadership, voter: VoterNode) -> VoterNode:
    if voter.node_id == node.node_id:
        return voter._replace(directory_id=node.identity.directory_id)
    return voter._replace(directory_id=leadership.voters[voter.node_id].directory_id)
