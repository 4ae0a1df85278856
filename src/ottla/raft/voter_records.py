"""The records that name the voters (KIP-853): control records of the metadata log and of its snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Final

from ottla.protocol.codec import ZERO_UUID, Int16, Int32, String, UInt16, Uuid, decode, encode, record, struct
from ottla.raft.messages import Endpoint
from ottla.raft.voters import LoggedVoters, VoterNode, VoterSet
from ottla.records.batch import BatchView
from ottla.records.builder import build_batch
from ottla.records.control import ControlRecordType, control_key, control_type_of
from ottla.records.record import Record

_VERSION: Final = 0
KRAFT_VERSION: Final = 1  # voters are named by the log


@struct
class VoterEndpoint:
    name: String = ""
    host: String = ""
    port: UInt16 = 0


@struct
class KRaftVersionFeature:
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


@struct
class RecordedVoter:
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    endpoints: list[VoterEndpoint] = field(default_factory=list)
    k_raft_version_feature: KRaftVersionFeature = field(default_factory=KRaftVersionFeature)


@record(key=6, versions=(0, 0), flexible=0)
class VotersRecord:
    version: Int16 = 0
    voters: list[RecordedVoter] = field(default_factory=list)


@record(key=5, versions=(0, 0), flexible=0)
class KRaftVersionRecord:
    version: Int16 = 0
    k_raft_version: Int16 = 0


def voters_batch(voters: VoterSet, epoch: int, timestamp_ms: int, base_offset: int = 0) -> bytearray:
    """The batch that names the voters, with the version of the protocol that lets the log name them."""
    contents = (
        (ControlRecordType.KRAFT_VERSION, KRaftVersionRecord(k_raft_version=KRAFT_VERSION)),
        (ControlRecordType.KRAFT_VOTERS, VotersRecord(voters=[_recorded(each) for each in voters.nodes])),
    )
    records = [
        Record(base_offset + delta, timestamp_ms, control_key(kind), bytes(encode(body, _VERSION)))
        for delta, (kind, body) in enumerate(contents)
    ]
    return build_batch(records, is_control=True, base_offset=base_offset, partition_leader_epoch=epoch)


def voters_in(batches: Iterable[BatchView]) -> Iterator[LoggedVoters]:
    """The sets of voters in batches, each with the end offset of its batch."""
    for batch in batches:
        if batch.is_control:
            for each in batch.records():
                if control_type_of(each.key) == ControlRecordType.KRAFT_VOTERS:
                    yield LoggedVoters(_voters_of(each.value or b""), batch.next_offset)


def _recorded(voter: VoterNode) -> RecordedVoter:
    endpoints = [VoterEndpoint(*endpoint) for endpoint in voter.endpoints]
    versions = KRaftVersionFeature(0, KRAFT_VERSION)
    return RecordedVoter(voter.node_id, voter.directory_id, endpoints, versions)


def _voters_of(value: bytes) -> VoterSet:
    content = decode(VotersRecord, value, _VERSION)
    return VoterSet(
        VoterNode(
            each.voter_id,
            each.voter_directory_id,
            tuple(Endpoint(point.name, point.host, point.port) for point in each.endpoints),
        )
        for each in content.voters
    )
