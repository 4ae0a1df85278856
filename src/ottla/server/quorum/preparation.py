"""Prepares the directory of a voter before its first start: the voter has never voted, and an operator says so.

An empty directory does not tell a new voter from one that lost its disk, so a voter without a `quorum-state`
asks all others before it votes (`founding`). A directory that was prepared has an empty memory: a majority of
prepared voters founds a quorum without waiting for the rest.

After a majority of voters lost their disks no voter may vote, and only a person can decide that the metadata
which those disks alone had is given up. The directory of one of them is then prepared in the epoch of the
voters that are left: it votes for them, and its empty log never wins against theirs.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ottla.config import BrokerConfig, Voter
from ottla.config.listeners import derived_cluster_id
from ottla.errors import ErrorCode, KafkaError
from ottla.log.directory import LogDirectory
from ottla.log.files.open_files import OpenFiles
from ottla.model import NO_EPOCH, NO_NODE, NO_OFFSET
from ottla.raft.messages import METADATA_PARTITION, METADATA_TOPIC, Fetch, ReplicaKey
from ottla.raft.quorum_state import QuorumState
from ottla.raft.requests import request_message
from ottla.raft.responses import read_response
from ottla.runtime.runtime import Runtime
from ottla.security.settings import Security
from ottla.server.quorum.opening import open_directory
from ottla.server.quorum.peer_login import security_between_brokers
from ottla.server.quorum.peers import newest_version
from ottla.server.quorum.state_file import QuorumStateFile
from ottla.wire.connection import Connection

_ASK_MS: Final = 2_000
_OPEN_FILES: Final = 16


def prepare_voter(config: BrokerConfig, runtime: Runtime, epoch: int = 0) -> None:
    """Write the memory of a voter that has not voted in `epoch` and later.

    KafkaError if there is a memory, or if epoch 0 contradicts the metadata that is there.
    """
    directory = LogDirectory(runtime.disk, config.logs.directory, OpenFiles(_OPEN_FILES, _OPEN_FILES))
    open_directory(config, directory, runtime.random.uuid4)
    try:
        place = f"{directory.path}/{METADATA_TOPIC}-{METADATA_PARTITION}"
        runtime.disk.mkdir(place)
        file = QuorumStateFile(runtime.disk, place)
        if file.read() is not None:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{directory.path} is prepared already: start the node with it.",
            )
        if epoch == 0 and any(entry.size for entry in runtime.disk.list(place)):
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{directory.path} holds metadata of a quorum that exists: start the node with it, and it votes as "
                "soon as it has caught up.",
            )
        # Other nodes that knew this directory knew one that remembers its votes.
        directory.renew_id(config.node.id, runtime.random.uuid4())
        runtime.disk.sync_directory(directory.path)
        file.write(QuorumState(epoch))
    finally:
        directory.close(clean=directory.was_closed_cleanly)


async def epochs_of_others(config: BrokerConfig) -> dict[int, int]:
    """The epochs of the other voters that answer; 0 says that a voter has never voted."""
    others = [voter for voter in config.node.voters if voter.node_id != config.node.id]
    cluster_id = config.node.cluster_id or derived_cluster_id(config.node.voters)
    security = security_between_brokers(config)
    epochs = await asyncio.gather(*(_epoch_of(voter, cluster_id, security) for voter in others))
    return {voter.node_id: epoch for voter, epoch in zip(others, epochs, strict=True) if epoch is not None}


async def _epoch_of(voter: Voter, cluster_id: str, security: Security) -> int | None:
    """Ask as an observer would that looks for the leader: nothing changes at the voter."""
    fetch = Fetch(ReplicaKey(NO_NODE), False, 0, 0, NO_EPOCH, NO_OFFSET, 0, 0)
    message = request_message(fetch, cluster_id)
    try:
        opening = Connection.open(voter.host, voter.port, timeout_ms=_ASK_MS, security=security)
        async with await opening as connection:
            response = await connection.ask(message, newest_version(message), timeout_ms=_ASK_MS)
    except OSError:
        return None
    return read_response(response).epoch
