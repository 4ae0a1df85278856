"""Builds this node's part in the metadata quorum from its settings and its data directory."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from ottla.config import BrokerConfig, QuorumConfig
from ottla.config.listeners import derived_cluster_id, parse_protocols
from ottla.controller.controller import Controller
from ottla.errors import ErrorCode, KafkaError
from ottla.log.directory import LogDirectory
from ottla.model import Address
from ottla.raft.messages import METADATA_PARTITION, METADATA_TOPIC, Endpoint, ReplicaKey
from ottla.raft.quorum_state import QuorumState
from ottla.raft.settings import RaftSettings
from ottla.raft.voters import VoterNode, VoterSet
from ottla.runtime.runtime import Runtime
from ottla.security.quota.mutations import MutationQuotas
from ottla.server.quorum.member import QuorumMember
from ottla.server.quorum.metadata_log import MetadataLog
from ottla.server.quorum.peer_login import security_between_brokers
from ottla.server.quorum.peers import Peers
from ottla.server.quorum.quorum import Quorum
from ottla.server.quorum.replay import MetadataReplay, OnImage
from ottla.server.quorum.snapshot_writer import SnapshotWriter
from ottla.server.quorum.state_file import QuorumStateFile
from ottla.server.quorum.tenant import Quorate


def open_directory(config: BrokerConfig, directory: LogDirectory, new_uuid: Callable[[], UUID]) -> None:
    """Open the data directory as one of this cluster. KafkaError if it is another's."""
    wanted = config.node.cluster_id
    fresh = wanted or (derived_cluster_id(config.node.voters) if config.node.voters else None)
    directory.open(config.node.id, new_uuid, fresh)
    if wanted is not None and directory.cluster_id != wanted:
        found = directory.cluster_id
        directory.close(clean=directory.was_closed_cleanly)
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"{directory.path} belongs to the cluster {found}, and ottla.cluster.id is {wanted}: give this node "
            "another directory, or the other id.",
        )


def open_quorum(
    config: BrokerConfig,
    directory: LogDirectory,
    runtime: Runtime,
    on_image: OnImage,
    on_halt: Callable[[str], None],
) -> Quorum:
    """The quorum as of what is on this disk; it does nothing before it is started."""
    disk, now_ms, new_uuid = runtime.disk, runtime.clock.wall_ms, runtime.random.uuid4
    listener_name = config.node.advertised_listener.name
    protocol, protocols = config.node.advertised_listener.protocol, parse_protocols(config.node.protocol_map)
    voters = {voter.node_id: Address(voter.host, voter.port) for voter in config.node.voters}

    def address_of(node_id: int) -> Address | None:
        voter = quorum.member.voters.node(node_id)
        endpoints = () if voter is None else voter.endpoints
        # The log may name voters by a listener that the quorum used before it was secured.
        usable = [each for each in endpoints if protocols.get(each.name, protocol) == protocol]
        if usable:
            return Address(usable[0].host, usable[0].port)
        if node_id in voters:
            return voters[node_id]
        broker = quorum.image.brokers.get(node_id)
        endpoint = broker.endpoint(listener_name) if broker is not None else None
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    file = QuorumStateFile(disk, f"{directory.path}/{METADATA_TOPIC}-{METADATA_PARTITION}")
    voter_set = configured_voters(config)
    is_alone = voter_set.ids == {config.node.id}
    log = MetadataLog(directory, disk, file, now_ms, is_alone=is_alone)
    _refuse_loss(log, is_alone=is_alone and log.voters is None)
    if config.node.is_voter and voter_set.ids != {config.node.id} and file.read() is None:
        # Other nodes that knew this directory knew one that remembers its votes.
        directory.renew_id(config.node.id, new_uuid())
        if config.node.id not in voter_set:
            # Votes of the settings' voters count by node, those of a node that is added by its directory, too,
            # and from this one none was ever given.
            file.write(QuorumState(max(log.last_epoch, 0)))
    identity = ReplicaKey(config.node.id, directory.directory_id)
    peers = Peers(config.node.id, address_of, security_between_brokers(config))
    settings = raft_settings(config.quorum)
    quorate = Quorate(directory.cluster_id, identity, voter_set, config.node.is_voter, settings)
    member = QuorumMember(quorate, log, file, peers, runtime)
    controller = Controller(config.node.id, directory.cluster_id, config, new_uuid)
    writer = SnapshotWriter(log, config.quorum.max_record_bytes_between_snapshots, now_ms)
    replay = MetadataReplay(log, controller, writer, on_image)
    quorum = Quorum(member, replay, peers, now_ms, on_halt, MutationQuotas(config.quotas.controller_burst_s))
    return quorum


def configured_voters(config: BrokerConfig) -> VoterSet:
    """The voters that the settings name, with their addresses; this node alone if they name none."""
    advertised = config.node.advertised_listener
    name = next((each.upper() for each in config.node.controller_listener_names), advertised.name)
    own = Endpoint(name, advertised.host, advertised.port)
    alone = VoterNode(config.node.id, endpoints=(own,) if advertised.port else ())
    named = [
        VoterNode(each.node_id, endpoints=(Endpoint(name, each.host, each.port),))
        for each in config.node.voters
    ]
    return VoterSet(named or [alone])


def raft_settings(config: QuorumConfig) -> RaftSettings:
    """The quorum's settings; a fetch never waits so long that its leader looks lost."""
    longest_wait_ms = min(RaftSettings().fetch_max_wait_ms, config.fetch_timeout_ms // 4)
    return RaftSettings(quorum=config, fetch_max_wait_ms=longest_wait_ms)


def _refuse_loss(log: MetadataLog, *, is_alone: bool) -> None:
    if is_alone and log.lost_offset:
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"The metadata before offset {log.lost_offset} is missing in {log.directory}, and no other node has it: "
            "restore the directory from a copy.",
        )
